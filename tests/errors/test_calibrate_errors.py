"""Errors of calibration: their place, what was got, and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.calibrate.calibrated import reference_plan, write_calibration
from specc.calibrate.texts import texts_from_file
from specc.errors import SpeccError
from specc.lower.place import link_or_copy
from specc.plan.calibration import CalibrationPlan
from specc.progress import silent
from tests.checked_pair import RECIPE, checked
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama, llama_folder


def test_spc410_a_file_without_text(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("\n---\n  \n---\n")
    with pytest.raises(SpeccError) as caught:
        texts_from_file(file)
    assert (caught.value.code, caught.value.place) == ("SPC410", str(file))
    assert caught.value.got == "The file has no text."
    assert "parted by lines of three hyphens" in caught.value.fix


def test_spc411_no_tokenizer(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama())
    plan = reference_plan(plan_from_facts(source.facts, tiny_graph_plan()))
    with pytest.raises(SpeccError) as caught:
        write_calibration(
            plan, source, ("a text",), tmp_path / "out",
            place=link_or_copy, wanted=CalibrationPlan(hessian=False, caches=False), progress=silent,
        )  # fmt: skip
    assert (caught.value.code, caught.value.place) == ("SPC411", "tiny")
    assert caught.value.got == "The checkpoint has no tokenizer."
    assert "target.tokenizer" in caught.value.fix
    assert not (tmp_path / "out").exists()


def test_spc347_a_model_that_is_calibrated_in_less_memory_than_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama_folder(tmp_path / "target", TinyLlama(stored="bf16", hidden_size=128, intermediate_size=128, head_dim=32))
    monkeypatch.setattr("os.sysconf", lambda _: 800)  # 640 kB: one tensor fits, not the model
    text = RECIPE.replace("{kind: model, model: draft}", "ngram")
    assert [finding.code for finding in checked(tmp_path, text).of("warning")] == []
    calibrated = text.replace("model: target", "model: target, scheme: {name: w4a16, method: awq}")
    assert "SPC347" in [finding.code for finding in checked(tmp_path, calibrated).of("warning")]
