"""The coded errors of the lower stage."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specc.errors import CODES, ExitStatus, SpeccError
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.progress import silent
from tests.tiny_engines import FileSource, plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

NAME = "model.layers.1.mlp.up_proj.weight"


def refused(source: FileSource, folder: Path, **changes: object) -> SpeccError:
    folder.mkdir(exist_ok=True)
    plan = plan_from_facts(source.facts, tiny_graph_plan(**changes))
    with pytest.raises(SpeccError) as caught:
        lowered_from_plan(plan, source, folder, silent)
    return caught.value


def test_spc401_a_weight_is_missing(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama())
    del source.headers[NAME]
    error = refused(source, tmp_path / "lowered")
    assert error.code == "SPC401"
    assert error.place == f"tiny {NAME}"
    assert error.got == f"The checkpoint has no tensor `{NAME}`; it has 20 others."
    assert error.fix == "Take a complete checkpoint, or correct the configuration if it is of another architecture."
    assert not list((tmp_path / "lowered").iterdir()), "something half-written stays"


def test_spc402_a_weight_has_another_shape(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama())
    source.headers[NAME] = replace(source.headers[NAME], shape=(95, 64))
    error = refused(source, tmp_path / "lowered")
    assert error.code == "SPC402"
    assert error.got == f"The tensor `{NAME}` has shape [95, 64]; the configuration implies [96, 64]."
    assert error.fix == "Correct the sizes in the configuration, or take the checkpoint it belongs to."


def test_spc403_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_source: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(shutil, "copyfile", full)
    error = refused(source_from_sizes(tmp_path / "source", TinyLlama()), tmp_path / "lowered")
    assert error.code == "SPC403"
    assert error.place == str(tmp_path / "lowered" / "weights")
    assert error.got == "The weights cannot be written: No space left on device."
    assert error.fix == "Free space on that disk, or build elsewhere with `--out DIR`."
    assert CODES["SPC403"].exit_status is ExitStatus.ENVIRONMENT


@pytest.mark.parametrize("plain", [True, False], ids=["linked", "written"])
def test_spc404_values_do_not_fit_float16(tmp_path: Path, plain: bool) -> None:
    source = source_from_sizes(tmp_path / "source", TinyLlama(stored="bf16"), plain=plain)
    source.tensors[NAME] = np.full((96, 64), -70000.0, dtype=np.float32)
    source.tensors["model.norm.weight"] = np.full(64, 1e6, dtype=np.float32)
    error = refused(source, tmp_path / "lowered", compute_dtype="f16")
    assert error.code == "SPC404"
    assert error.place == f"tiny {NAME}"
    assert error.got == (
        "Values of a magnitude beyond float16, which ends at 65504, stand in "
        f"`{NAME}` (70000), `model.norm.weight` (1e+06)."
    )
    assert error.fix == "Use the scheme `bf16`, which has the range of float32, or `f32` on the CPU."
    assert not list((tmp_path / "lowered").iterdir()), "something half-written stays"
