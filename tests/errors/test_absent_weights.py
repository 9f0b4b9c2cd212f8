"""Weights that are not there: the error says what to download, what that takes, and what the build writes beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.errors
import pytest

from specc.doctor.check import report_from_file
from specc.errors import SpeccError
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from tests.house.tree import ROOT
from tests.tiny_models import TinyLlama, llama_folder

DRAFT = "meta-llama/Llama-3.2-1B-Instruct"
RECIPES = {
    "llama70b-h100": ("nvidia/Llama-3.3-70B-Instruct-FP8", "72.7 GB", "75.1 GB", "links them, or copies them from"),
    "llama70b-h100-bf16": ("meta-llama/Llama-3.3-70B-Instruct", "141.1 GB", "143.6 GB", "writes 82.0 GB of weights"),
}


def refused(name: str, *overrides: str, offline: bool = False) -> SpeccError:
    out = Path("build")
    request = BuildRequest(ROOT / "recipes" / f"{name}.yaml", overrides, out, "publish", False, None, offline, False)
    with pytest.raises(SpeccError) as caught:
        build(request, silent, on_wait=lambda _: None)
    return caught.value


def unreachable(error: Exception) -> Callable[..., str]:
    def call(*_: object, **__: object) -> str:
        raise error

    return call


class Response:
    """What the hub's errors want to be made of."""

    headers: dict[str, str] = {}  # noqa: RUF012
    request = None
    status_code = 403


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ConnectionError("no route"), "SPC205", "check the network"),
        (huggingface_hub.errors.LocalEntryNotFoundError("x"), "SPC205", "run once without --offline"),
        (huggingface_hub.errors.GatedRepoError("ask", response=Response()), "SPC204", "hf auth login"),  # type: ignore[arg-type]
        (None, "SPC203", "pip install 'specc[hub]'"),
    ],
)
def test_models_of_the_hub(
    monkeypatch: pytest.MonkeyPatch, name: str, error: Exception | None, code: str, says: str
) -> None:
    if error is None:
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    else:
        monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable(error))
    repository, takes, all_of_it, written = RECIPES[name]
    caught = refused(name, offline="--offline" in says)
    assert (caught.code, caught.place) == (code, "huggingface_hub" if error is None else f"hf://{repository}")
    assert says in caught.fix
    assert f"`hf download {repository}`" in caught.fix
    assert f"it takes {takes} on the disk" in caught.fix
    assert f"this recipe needs {all_of_it} in all (`hf download {repository}`, `hf download {DRAFT}`)" in caught.fix
    assert f"its build {written}" in caught.fix


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a configuration"])
def test_folders(tmp_path: Path, name: str, there: str) -> None:
    repository, takes, all_of_it, written = RECIPES[name]
    folder = tmp_path / repository.split("/")[1]
    if there == "an empty folder":
        folder.mkdir()
    elif there == "a configuration":
        (llama_folder(folder, TinyLlama()) / "model.safetensors").unlink()
    caught = refused(name, f"target.model={folder}", offline=True)
    assert (caught.code, caught.place) == ("SPC201", str(folder))
    assert f"`hf download {repository} --local-dir {folder}` fills it; it takes {takes} on the disk" in caught.fix
    assert f"this recipe needs {all_of_it} in all" in caught.fix
    assert f"its build {written}" in caught.fix


def test_a_folder_whose_model_nobody_knows(tmp_path: Path) -> None:
    caught = refused("llama70b-h100", f"target.model={tmp_path / 'my weights'}", offline=True)
    assert caught.fix.endswith(f"`hf download ORG/NAME --local-dir '{tmp_path / 'my weights'}'` fills it")


def test_a_shard_that_did_not_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder, and in the hub's cache, which the library gives as it lies there when it is offline."""
    repository, _, all_of_it, _ = RECIPES["llama70b-h100-bf16"]
    folder = llama_folder(tmp_path / repository.split("/")[1], TinyLlama(shards=3))
    (folder / "model-00002-of-00003.safetensors").unlink()
    caught = refused("llama70b-h100-bf16", f"target.model={folder}", offline=True)
    assert caught.code == "SPC221"
    assert f"`hf download {repository} --local-dir {folder}` fills it" in caught.fix
    assert f"this recipe needs {all_of_it} in all" in caught.fix

    def cached(*_: Any, **__: Any) -> str:
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", cached)
    caught = refused("llama70b-h100-bf16", offline=True)
    assert (caught.code, caught.got) == (
        "SPC205", "1 of 3 files of weights are not in the local cache, and --offline is on",
    )  # fmt: skip
    assert f"`hf download {repository}` where there is a network" in caught.fix


def test_the_doctor_says_it_of_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    error = huggingface_hub.errors.LocalEntryNotFoundError("x")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable(error))
    report = report_from_file(ROOT / "recipes" / "llama70b-h100-bf16.yaml", (), offline=True)
    said = [finding.fix.text for finding in report.of("error") if finding.fix is not None]
    assert ["its build writes 82.0 GB of weights" in text for text in said] == [True, False]
    assert all("`hf download meta-llama/" in text for text in said)


def test_other_back_ends_say_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable(ConnectionError("no route")))
    assert "this recipe needs" not in refused("qwen3-8b-rtx5090").fix
