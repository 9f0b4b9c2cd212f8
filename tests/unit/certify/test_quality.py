"""How far quantized engines are from the float engines of the same weights, and whether rows depend on each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specc.certify.certificate import certificate_from_bundle
from specc.certify.quality import compared, perplexity
from specc.certify.request import CertifyRequest
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
