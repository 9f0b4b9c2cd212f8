from __future__ import annotations

import pytest

from specc.bundle.certificate import Certificate
from specc.certify.certificate import CertifyRequest, certificate_from_bundle, refuse_failed
from specc.errors import CODES, ExitStatus, SpeccError


def test_spc801_a_failed_certificate_stops_the_build(tmp_path):
    reason = "1 of 8 generations differ; greedy, temperature 0.0, seed 0: prompt 3 differs at generated token 7: ..."
    certificate = Certificate(1, "0" * 64, "failed", reason, "machine", (), ())
    with pytest.raises(SpeccError) as caught:
        refuse_failed(certificate, tmp_path / "bundle")
    error = caught.value
    assert (error.code, error.place, error.got) == ("SPC801", str(tmp_path / "bundle"), reason)
    assert "near a tie" in error.why
    assert "`draft: {kind: none}`" in error.fix
    assert CODES["SPC801"].exit_status is ExitStatus.GATE


def test_spc802_an_empty_list_of_prompts_certifies_nothing(tmp_path):
    with pytest.raises(SpeccError) as caught:
        certificate_from_bundle(tmp_path, CertifyRequest(prompts=()))
    error = caught.value
    assert (error.code, error.place, error.got) == ("SPC802", "prompts", "no prompt was given")
    assert "at least one prompt" in error.fix
