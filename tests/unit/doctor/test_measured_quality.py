"""The doctor goes by what was measured of a recipe's own bundle, where one was, and by typical values elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate, QualityCheck
from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.record import text_from_record
from specc.doctor.check import report_from_file
from specc.doctor.finding import Finding
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {model: model, scheme: w4a16}
draft: {kind: ngram}
gamma: 2
gpu: cpu
limits: {max_batch: 1, max_input: 32, max_output: 16, prefill_chunk: 8}
certify: off
"""
MOVED = QualityCheck("f32", "w4a16", 307, 2.0, 9.0, 0.67, 28.1, 22.3)
STAYED = replace(MOVED, agreement=0.95, perplexity=22.9)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECC_CACHE", str(folder / "cache"))
        llama_folder(folder / "model")
        (folder / "r.yaml").write_text(RECIPE)
        build(
            BuildRequest(folder / "r.yaml", (), folder / "out", "publish", False, None, offline=True, rehash=False),
            silent,
            on_wait=lambda _: None,
        )
    return folder


def certify(folder: Path, quality: QualityCheck | None, manifest: str | None = None) -> Path:
    bundle = folder / "out" / "tiny"
    digest = manifest or sha256_from_file(bundle / MANIFEST_FILE)
    certificate = Certificate(
        1, digest, "full", "passed", None, "cpu", None, (), (), None, (), (), quality=quality,
    )  # fmt: skip
    (bundle / CERTIFICATE_FILE).write_text(text_from_record(certificate))
    return bundle / CERTIFICATE_FILE


def found(folder: Path, *overrides: str) -> list[Finding]:
    report = report_from_file(folder / "r.yaml", overrides, offline=True, bundles=folder / "out")
    return [finding for finding in report.findings if finding.code == "SPC335"]


def typical(findings: list[Finding]) -> bool:
    (finding,) = findings
    return finding.evidence[0][0] == "4 bits a weight"


def test_a_target_that_was_measured_is_judged_by_that(made: Path) -> None:
    place = str(certify(made, MOVED))
    (finding,) = found(made)
    assert finding.evidence == (
        ("1.26 times the perplexity of f32", place),
        ("the same greedy id at 67% of 307 positions", place),
    )
    certify(made, STAYED)
    assert found(made) == []
    certify(made, replace(STAYED, agreement=0.89))
    assert len(found(made)) == 1


@pytest.mark.parametrize(
    "override",
    ["target.scheme={name: w4a16, group_size: 64}", "target.scheme={name: w4a16, zero_point: true}", "name=other"],
)
def test_a_measurement_of_another_target_does_not_count(made: Path, override: str) -> None:
    certify(made, STAYED)
    assert typical(found(made, override))


def test_advice_names_schemes_that_the_cpu_runs(made: Path) -> None:
    for quality in (MOVED, None):
        certify(made, quality)
        (finding,) = found(made)
        assert finding.fix is not None
        assert "scheme: w8a16 or w8a8" in finding.fix.text
        assert "fp8" not in finding.fix.text


def test_nothing_measured_foreign_or_damaged_leaves_typical_values(made: Path) -> None:
    certify(made, None)
    assert typical(found(made))
    certify(made, STAYED, manifest="0" * 64)
    assert typical(found(made))
    certify(made, STAYED).write_text("{")
    assert typical(found(made))


def test_another_checkpoint_of_that_name_was_not_measured(made: Path) -> None:
    certify(made, STAYED)
    try:
        llama_folder(made / "model", TinyLlama(stored="bf16"))
        assert typical(found(made))
    finally:
        llama_folder(made / "model")
    assert found(made) == []
