"""The coded errors of the verification plugin's kernels."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from specc.bundle.store import Store
from specc.cli.main import status_from_arguments
from specc.errors import SpeccError
from specc.plugin.bundle import KernelBundle
from specc.plugin.bundle_from_source import kernels_in_store
from specc.plugin.variants import variants_of_chain
from specc.progress import silent

GREEDY = variants_of_chain("greedy", "f16", 49152)


def test_spc530_a_gpu_without_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments(["kernels", "build", "--sm", "7.5", "--out", str(tmp_path / "kernels")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "SPC530 SM 7.5" in said
    assert "SM 8.0, 8.6, 8.9, 9.0, 10.0, 10.3, 12.0" in said
    assert not (tmp_path / "kernels").exists()


def test_spc531_a_bundle_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpeccError) as caught:
        KernelBundle(tmp_path, "9.0")
    assert caught.value.code == "SPC531"
    assert caught.value.place == str(tmp_path / "9.0" / "kernels.json")
    assert caught.value.fix == "Build it again: specc kernels build --sm 9.0 --out DIR"


@pytest.mark.parametrize(("version", "got"), [(None, "`triton` is not installed"), ("3.9.0", "Triton 3.9.0 is inst")])
def test_spc532_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, got: str) -> None:
    def found(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)
    with Store(tmp_path) as store, pytest.raises(SpeccError) as caught:
        kernels_in_store("9.0", GREEDY, store, silent)
    assert caught.value.code == "SPC532"
    assert got in caught.value.got
    assert "specc[kernels]" in caught.value.fix


def test_spc904_a_folder_of_something_else_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specc.plugin import bundle_from_source
    from specc.plugin.targets import KERNEL_TARGETS

    (tmp_path / "out" / "9.0").mkdir(parents=True)
    monkeypatch.setattr(bundle_from_source, "write_kernels", lambda variants, target, folder, progress: None)
    with Store(tmp_path / "store") as store, pytest.raises(SpeccError) as caught:
        bundle_from_source.place_kernels(KERNEL_TARGETS["9.0"], GREEDY, tmp_path / "out", store, silent)
    assert caught.value.code == "SPC904"
    assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / "9.0"]
