from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specc.bundle.certificate import (
    Certificate,
    Divergence,
    ParityCheck,
    PromptSet,
    QualityCheck,
    ReferenceCheck,
    ReferencePosition,
    SamplerCheck,
)
from specc.certify.certificate import certificate_from_bundle
from specc.certify.logits import logits_engine
from specc.certify.quality import check_quality
from specc.certify.request import CertifyRequest
from specc.certify.verdict import failure_of_quality, refuse_failed
from specc.errors import CODES, ExitStatus, SpeccError
from tests.unit.certify.toy_bundle import toy_bundle


def failed(*, parity=(), reference=None, sampler=(), reason="first failure") -> Certificate:
    prompts = PromptSet("bundled", 8, None)
    return Certificate(1, "0" * 64, "full", "failed", reason, "machine", prompts, (), parity, reference, sampler, ())


def refusal(certificate, bundle) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        refuse_failed(certificate, bundle)
    assert CODES[caught.value.code].exit_status is ExitStatus.GATE
    assert caught.value.place == str(bundle)
    assert "`draft: {kind: none}`" in caught.value.fix
    assert "`certify: off`" in caught.value.fix
    return caught.value


def test_spc801_a_changed_text_stops_the_build(tmp_path):
    reason = "1 of 8 generations differ; greedy, temperature 0.0: prompt 3 differs at generated token 7: ..."
    divergence = Divergence(3, 7, 1, 2, 0.5, near_tie=False)
    check = ParityCheck("greedy", 0.0, 0, 1.0, 0.0, 8, 8, 256, 90, 30, 7, 0, 1e-3, (divergence,))
    error = refusal(failed(parity=(check,), reason=reason), tmp_path / "bundle")
    assert (error.code, error.got) == ("SPC801", reason)
    assert "near a tie" in error.why


def test_spc803_other_logits_than_the_reference_stop_the_build(tmp_path):
    close, far = ReferencePosition(0, 1e-5, 4, 4, 2.0), ReferencePosition(11, 0.25, 7, 9, 0.125)
    error = refusal(failed(reference=ReferenceCheck(24, 1e-3, (close, far))), tmp_path / "bundle")
    assert error.code == "SPC803"
    assert error.got == (
        "logits at position 11 differ by 0.25, the tolerance is 0.001; the engine picks id 7, the reference 9 by 0.125"
    )
    assert "what its graph says" in error.why


@pytest.mark.parametrize(
    ("differing", "p_value", "got"),
    [
        (3, 0.5, "2 of 256 picks are not what the noise of their seed decides"),
        (1, 1e-9, "256 picks do not follow the law, p = 1.0e-09"),
        (None, 1e-9, "256 picks do not follow the law, p = 1.0e-09"),
    ],
)
def test_spc804_a_sampler_without_its_law_stops_the_build(tmp_path, differing, p_value, got):
    check = SamplerCheck("ar", 0.8, 50, 0.9, 0.0, 256, differing, 1, 80.0, 15, p_value, 1e-6)
    error = refusal(failed(sampler=(check,)), tmp_path / "bundle")
    assert (error.code, error.got) == ("SPC804", f"temperature 0.8, top_k 50, top_p 0.9, min_p 0: {got}")
    assert "seed" in error.why


def test_spc805_logits_that_are_no_numbers_stop_the_build(tmp_path):
    got = "16 of 16 logits after prompt 0 are infinite or no numbers; so are values of `lm_head.weight`"
    with pytest.raises(SpeccError) as caught:
        refuse_failed(failed(reason=got), tmp_path / "bundle")
    error = caught.value
    assert CODES[error.code].exit_status is ExitStatus.GATE
    assert (error.code, error.place, error.got) == ("SPC805", str(tmp_path / "bundle"), got)
    assert "scheme bf16 or f32" in error.fix


def test_spc802_an_empty_list_of_prompts_certifies_nothing(tmp_path):
    with pytest.raises(SpeccError) as caught:
        certificate_from_bundle(tmp_path, CertifyRequest(prompts=()))
    error = caught.value
    assert (error.code, error.place, error.got) == ("SPC802", "prompts", "no prompt was given")
    assert "at least one prompt" in error.fix


def test_spc806_a_target_that_moved_too_far(tmp_path: Path) -> None:
    """Perplexity over its bound, and under it with too few greedy ids in common."""
    check = QualityCheck("original", "w4a16", 100, 0.5, 9.0, 0.9, 60.0, 20.0)
    certificate = replace(failed(reason="moved"), quality=check)
    with pytest.raises(SpeccError) as caught:
        refuse_failed(certificate, tmp_path)
    assert caught.value.code == "SPC806"
    assert caught.value.got == (
        "w4a16 has 3.00 times the perplexity of original (at most 2) and its greedy id at 90% of "
        "positions (at least 60%)"
    )
    assert "scheme: w8a16" in caught.value.fix
    assert failure_of_quality(replace(check, perplexity=21.0)) is None
    assert failure_of_quality(replace(check, perplexity=21.0, agreement=0.5)) is not None
    assert failure_of_quality(replace(check, scheme="f32")) is None


def test_spc806_a_reference_of_another_model(tmp_path: Path) -> None:
    manifest = toy_bundle(tmp_path / "reference")
    other = replace(manifest, model=replace(manifest.model, num_hidden_layers=9))
    request = CertifyRequest(against=tmp_path / "reference", verify="sizes")
    logits = logits_engine(tmp_path / "reference", manifest, 1)
    assert logits is not None
    with pytest.raises(SpeccError) as caught:
        check_quality(logits, tmp_path, other, request)
    assert caught.value.code == "SPC806"
    assert "is another model" in caught.value.got
    assert caught.value.fix.startswith("build the same checkpoint with scheme: f32")
