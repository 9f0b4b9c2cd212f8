from __future__ import annotations

import pytest

from specc.bundle.certificate import (
    Certificate,
    Divergence,
    ParityCheck,
    PromptSet,
    ReferenceCheck,
    ReferencePosition,
    SamplerCheck,
)
from specc.certify.certificate import certificate_from_bundle
from specc.certify.request import CertifyRequest
from specc.certify.verdict import refuse_failed
from specc.errors import CODES, ExitStatus, SpeccError


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
