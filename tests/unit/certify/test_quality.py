"""How far quantized engines are from the float engines of the same weights, and whether rows depend on each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate, QualityCheck
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.record import record_from_file, text_from_record
from specc.certify.certificate import certificate_from_bundle, certify_bundle, empty_certificate
from specc.certify.earlier_quality import with_earlier_quality
from specc.certify.quality import compared, perplexity
from specc.certify.request import CertifyRequest
from specc.certify.verdict import failure_of_quality
from tests.quantized import quantized_rows
from tests.tiny_engines import tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama
from tests.unit.certify.test_certified_engine import bundle_manifest


def test_perplexity_is_that_of_the_probabilities() -> None:
    probabilities = np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]], np.float64) + 1e-30
    logits = np.log(probabilities).astype(np.float32) + np.float32(7)
    assert perplexity(logits, [0, 1, 2]) == pytest.approx(1 / np.sqrt(0.25 * 0.8), rel=1e-6)


def test_a_comparison_counts_greedy_ids_and_differences() -> None:
    expected = np.zeros((2, 3), np.float32)
    expected[:, 1] = 2
    found = expected + np.float32([[0, 0, 3], [0, 0, 0]])
    check = compared(found, expected, [0, 1], "original", "w4a16")
    assert (check.agreement, check.largest_difference, check.mean_difference) == (0.5, 3.0, 0.5)
    assert (check.reference, check.scheme, check.tokens) == ("original", "w4a16", 2)


def test_a_quantized_engine_is_held_against_the_float_engine(tmp_path) -> None:
    """A random model of 64 columns loses much more in 4 bits than a trained one; it is the report that is checked."""
    sizes = TinyLlama()
    plain = tiny_engines(tmp_path / "plain", sizes)
    bundle_manifest(plain)
    quantized = tiny_engines(tmp_path / "quantized", sizes, tiny_graph_plan(weights=quantized_rows()))
    quantized.specs = tuple(replace(spec, scheme="w8a16") for spec in quantized.specs)
    bundle_manifest(quantized, numerics="invariant")
    request = CertifyRequest(scope="build", max_new_tokens=8, threads=1, verify="sizes", against=plain.folder)
    certificate = certificate_from_bundle(quantized.folder, request)
    assert all(check.equal == check.prompts and check.epsilon == 0 for check in certificate.parity)
    assert certificate.rows is not None
    assert (certificate.rows.differing, certificate.rows.difference) == (0, 0.0)
    quality = certificate.quality
    assert quality is not None
    assert 0.3 < quality.agreement < 1
    assert 0.05 < quality.mean_difference < 3
    assert certificate.status == "failed"
    assert certificate.reason is not None
    assert "w8a16 has" in certificate.reason
    same = certificate_from_bundle(plain.folder, request)
    assert same.quality is not None
    assert (same.quality.agreement, same.quality.largest_difference) == (1.0, 0.0)


def test_a_later_check_without_a_reference_keeps_what_was_measured(tmp_path: Path) -> None:
    plain = tiny_engines(tmp_path / "plain", TinyLlama())
    bundle_manifest(plain)
    request = CertifyRequest(scope="build", max_new_tokens=4, threads=1, verify="sizes")
    first = certify_bundle(plain.folder, replace(request, against=plain.folder))
    assert first.quality is not None
    later = certify_bundle(plain.folder, request)
    assert (later.quality, later.status) == (first.quality, first.status)
    assert record_from_file(Certificate, plain.folder / CERTIFICATE_FILE) == later


def test_an_earlier_quality_counts_for_its_own_manifest_and_still_fails_it(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_FILE).write_text("{}")
    passed = replace(empty_certificate(tmp_path, "full", "nothing was run"), status="passed", reason=None)
    assert with_earlier_quality(passed, tmp_path) == passed
    near = QualityCheck("original", "w4a16", 100, 0.5, 9.0, 0.9, 21.0, 20.0)
    far = replace(near, perplexity=60.0)
    for quality, status in ((near, "passed"), (far, "failed")):
        (tmp_path / CERTIFICATE_FILE).write_text(text_from_record(replace(passed, quality=quality)))
        kept = with_earlier_quality(passed, tmp_path)
        assert (kept.quality, kept.status, kept.reason) == (quality, status, failure_of_quality(quality))
    other = replace(passed, status="failed", reason="ids differ")
    assert with_earlier_quality(other, tmp_path) == replace(other, quality=far)
    own = replace(passed, quality=near)
    assert with_earlier_quality(own, tmp_path) == own
    (tmp_path / MANIFEST_FILE).write_text("{ }")
    assert with_earlier_quality(passed, tmp_path) == passed
    (tmp_path / CERTIFICATE_FILE).write_text("{")
    assert with_earlier_quality(passed, tmp_path) == passed
