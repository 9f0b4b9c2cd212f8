"""Errors of calibration: their place, what was got, and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.calibrate.calibrated import reference_plan, write_calibration
from specc.calibrate.texts import texts_from_file
from specc.errors import SpeccError
from specc.lower.place import link_or_copy
from specc.progress import silent
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


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
            plan, source, ("a text",), tmp_path / "out", place=link_or_copy, hessian=False, progress=silent
        )
    assert (caught.value.code, caught.value.place) == ("SPC411", "tiny")
    assert caught.value.got == "The checkpoint has no tokenizer."
    assert "target.tokenizer" in caught.value.fix
    assert not (tmp_path / "out").exists()
