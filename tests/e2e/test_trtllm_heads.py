"""A head that the recipe names by its folder is part of the bundle; one named by its hub id is left to the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from specc.bundle.drafts import HeadDraftSpec
from specc.bundle.lock import read_lock
from specc.bundle.read import open_bundle
from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus, SpeccError
from specc.pipeline import BuildRequest, BuildResult, build
from specc.plan.make import plan_from_recipe
from specc.plan.sources import sources_from_recipe
from specc.progress import silent
from specc.recipe.load import recipe_from_file
from tests.deployed import layout_of
from tests.published_llm_args import problems
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: pair
target: {model: target}
draft: {kind: KIND, model: heads/one}
gamma: 4
gpu: {name: h100-sxm-80gb, count: 2}
backend: {name: tensorrt-llm, flow: serve, version: "VERSION"}
limits: {max_batch: 8, max_input: 128, max_output: 64}
"""


def recipe_in(folder: Path, kind: str, version: str = "1.2.1") -> Path:
    llama_folder(folder / "target", TinyLlama(stored="bf16", num_hidden_layers=1))
    head = folder / "heads" / "one"
    head.mkdir(parents=True)
    own = {"target_layer_ids": [0]} if kind == "eagle3" else {"pard_token": 0}
    (head / "config.json").write_text(json.dumps({"dtype": "float16", **own}))
    write_head(head, np.arange(4096), "fc.weight" if kind == "eagle3" else "norm.weight")
    (folder / "r.yaml").write_text(RECIPE.replace("KIND", kind).replace("VERSION", version))
    return folder / "r.yaml"


def write_head(folder: Path, values: Any, name: str = "fc.weight", **more: Any) -> None:
    """Write the weights of a head of hidden size 64 for one tap layer of the same; without `fc`, of a model's own."""
    tensors = {name: np.asarray(values, np.float16).reshape(64, 64), "midlayer.hidden_norm.weight": np.ones(64)}
    save_file(tensors | more, folder / "model.safetensors")


def built(recipe: Path, *overrides: str) -> BuildResult:
    request = BuildRequest(recipe, overrides, recipe.parent / "build", "publish", False, None, True, False)
    return build(request, silent, on_wait=lambda _: None)


def speculation(folder: Path) -> dict[str, Any]:
    options = yaml.safe_load((folder / "deploy" / "trtllm-serve.yaml").read_text())["speculative_config"]
    assert isinstance(options, dict)
    return options


@pytest.mark.parametrize(
    ("kind", "version", "field"),
    [
        ("eagle3", "0.21.0", "pytorch_weights_path"),
        ("eagle3", "1.1.0", "speculative_model_dir"),
        ("eagle3", "1.2.1", "speculative_model"),
        ("pard", "1.3.0rc29", "speculative_model"),
    ],
)
def test_the_bundle_holds_the_head(tmp_path: Path, kind: str, version: str, field: str) -> None:
    recipe = recipe_in(tmp_path, kind, version)
    bundle = built(recipe).path
    manifest = open_bundle(bundle, "full")
    assert manifest.draft == HeadDraftSpec(kind, "checkpoints/draft")  # type: ignore[arg-type]
    (head,) = [item for item in manifest.checkpoints if item.role == "draft"]
    assert (head.folder, head.scheme, head.tp_size) == ("checkpoints/draft", "f16", 2)
    for source in (tmp_path / "heads" / "one").iterdir():
        placed = bundle / "checkpoints" / "draft" / source.name
        assert placed.read_bytes() == source.read_bytes()
        assert f"checkpoints/draft/{source.name}" in manifest.files
    options = speculation(bundle)
    assert options[field] == "checkpoints/draft"  # serve.sh starts the server in the bundle's folder
    assert not problems(yaml.safe_load((bundle / "deploy" / "trtllm-serve.yaml").read_text()), version)
    triton = yaml.safe_load((bundle / "deploy" / "triton-model.yaml").read_text())
    assert triton["speculative_config"] == options
    assert str(tmp_path) not in (bundle / "deploy" / "trtllm-serve.yaml").read_text()


def test_big_files_are_linked(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, "eagle3")
    weights = tmp_path / "heads" / "one" / "model.safetensors"
    write_head(weights.parent, np.zeros(4096), big=np.zeros((4096, 8704), np.float16))  # 68 MiB; small ones are copied
    assert (built(recipe).path / "checkpoints" / "draft" / weights.name).samefile(weights)


def test_another_head_is_another_bundle_and_a_damaged_one_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_in(tmp_path, "eagle3")
    bundle = built(recipe).path
    locked = read_lock(bundle / "recipe.lock.json").sources["draft"]
    assert {file.name for file in locked.files} == {"config.json", "model.safetensors"}
    assert not built(recipe).changed
    write_head(tmp_path / "heads" / "one", np.ones(4096))
    assert built(recipe).changed
    placed = bundle / "checkpoints" / "draft" / "model.safetensors"
    content = placed.read_bytes()
    placed.unlink()
    placed.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert status_from_arguments(["verify", str(bundle)]) == ExitStatus.USER_INPUT
    assert capsys.readouterr().err.startswith("SPC605")


def test_the_layout_lists_its_files(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, "eagle3")
    folder = layout_of(recipe, tmp_path / "build")
    sizes = json.loads((folder / "draft" / "source-files.json").read_text())
    assert sizes == {file.name: file.stat().st_size for file in (tmp_path / "heads" / "one").iterdir()}


def test_a_hub_id_stays_one(tmp_path: Path) -> None:
    bundle = built(recipe_in(tmp_path, "eagle3"), "draft.model=hf://owner/head").path
    assert speculation(bundle)["speculative_model"] == "owner/head"
    assert not (bundle / "checkpoints" / "draft").exists()


def test_the_doctor_plans_a_placed_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, folder = recipe_in(tmp_path, "pard", "1.3.0rc29"), tmp_path / "heads" / "one"
    llama_folder(folder, TinyLlama(stored="bf16", num_hidden_layers=1, seed=1))  # such a head is a model of its own
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": 0}))
    assert status_from_arguments(["check", str(recipe)]) == ExitStatus.DONE
    (folder / "model.safetensors").unlink()
    assert status_from_arguments(["check", str(tmp_path / "r.yaml")]) != ExitStatus.DONE
    assert "SPC201" in capsys.readouterr().out


@pytest.mark.parametrize(("change", "got"), [("config.json", "config.json"), ("model.safetensors", "weights")])
def test_a_folder_that_is_no_head(tmp_path: Path, change: str, got: str) -> None:
    recipe = recipe_in(tmp_path, "eagle3")
    (tmp_path / "heads" / "one" / change).unlink()
    with pytest.raises(SpeccError) as caught:
        built(recipe)
    assert (caught.value.code, caught.value.place) == ("SPC201", "heads/one")
    assert got in caught.value.got
    assert not (tmp_path / "build").exists()


def head_memory(recipe: Path, *overrides: str) -> dict[str, int]:
    stated = recipe_from_file(recipe, overrides)
    sources = sources_from_recipe(stated, recipe.parent, offline=True)
    plan = plan_from_recipe(stated, sources.target, sources.of_draft)
    return {item.name: item.bytes for item in plan.memory if item.name.startswith("draft weights")}


@pytest.mark.parametrize("kind", ["eagle3", "pard", "dflash", "dspark"])
def test_the_plan_counts_the_weights_of_a_head_from_its_files(tmp_path: Path, kind: str) -> None:
    recipe = recipe_in(tmp_path, kind, "1.2.1" if kind == "eagle3" else "1.3.0rc29")
    folder = tmp_path / "heads" / "one"
    shapes = {
        "fc.weight": (64, 192), "midlayer.self_attn.q_proj.weight": (64, 128),
        "midlayer.self_attn.k_proj.weight": (32, 128),
        "midlayer.mlp.down_proj.weight": (64, 96), "lm_head.weight": (263, 64), "norm.weight": (64,),
    }  # fmt: skip
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, folder / "model.safetensors")
    nbytes = {name: 2 * int(np.prod(shape)) for name, shape in shapes.items()}
    whole = nbytes["fc.weight"] + nbytes["norm.weight"]
    assert head_memory(recipe) == {"draft weights: head files": whole + (sum(nbytes.values()) - whole) // 2}
    assert head_memory(recipe, "gpu.count=1") == {"draft weights: head files": sum(nbytes.values())}
    # a file without a header is counted whole, and where there is another it is the other that is loaded
    (folder / "pytorch_model.bin").write_bytes(bytes(12345))
    assert head_memory(recipe, "gpu.count=1") == {"draft weights: head files": sum(nbytes.values())}
    (folder / "model.safetensors").unlink()
    assert head_memory(recipe) == {"draft weights: head files": 12345}


def test_a_head_that_is_only_named_is_estimated(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, "eagle3")
    assert set(head_memory(recipe)) == {"draft weights: head files"}
    named = head_memory(recipe, "draft.model=owner/head")
    assert {"draft weights: attention", "draft weights: mlp", "draft weights: head"} <= set(named)
