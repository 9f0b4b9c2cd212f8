"""From a recipe to a bundle for TensorRT-LLM: both flows, resumed builds, and what specc says of such a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from specc.backends.tensorrt_llm import backend as trtllm_backend
from specc.bundle.manifest import Manifest
from specc.bundle.read import open_bundle
from specc.certify.certificate import certify_bundle
from specc.checkpoint.open import source_from_reference
from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus
from specc.pipeline import BuildRequest, BuildResult, build
from specc.progress import silent
from tests.quantized_folders import LAYOUTS, quantized_folder
from tests.rank_files import read_file, required_tensors
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: pair
target: {model: target}
draft: {kind: model, model: draft}
gamma: 4
gpu: {name: h100-sxm-80gb, count: 4}
backend: {name: tensorrt-llm, flow: engine, pp_size: 2}
limits: {max_batch: 8, max_input: 128, max_output: 64}
"""
SERVE = ("backend={name: tensorrt-llm, flow: serve}",)
TARGET_FP8 = TinyLlama(stored="bf16", num_attention_heads=8, num_key_value_heads=4, intermediate_size=128)
TARGET = TinyLlama(stored="bf16", num_hidden_layers=3, intermediate_size=128, shards=2)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    llama_folder(tmp_path / "target", TARGET)
    llama_folder(tmp_path / "draft", TinyLlama(stored="bf16", seed=1, num_hidden_layers=1))
    (tmp_path / "r.yaml").write_text(RECIPE)
    return tmp_path / "r.yaml"


def built(recipe: Path, *overrides: str, stop_after: Any = "publish") -> BuildResult:
    request = BuildRequest(recipe, overrides, recipe.parent / "build", stop_after, False, None, True, False)
    return build(request, silent, on_wait=lambda _: None)


def manifest_of(result: BuildResult) -> Manifest:
    return open_bundle(result.path, "full")


def test_the_engine_flow_publishes_checkpoints_of_both_models(recipe: Path) -> None:
    result = built(recipe)
    manifest = manifest_of(result)
    assert manifest.engines == ()
    sizes = {item.role: (item.format, item.tp_size, item.pp_size, item.folder) for item in manifest.checkpoints}
    assert sizes == {
        "target": ("trtllm", 2, 2, "checkpoints/target"), "draft": ("trtllm", 1, 1, "checkpoints/draft"),
    }  # fmt: skip
    for item in manifest.checkpoints:
        folder = result.path / item.folder
        config = json.loads((folder / "config.json").read_text())
        for rank in range(config["mapping"]["world_size"]):
            assert read_file(folder / f"rank{rank}.safetensors")[0] == required_tensors(config, rank)
        assert (folder / "huggingface" / "tokenizer.json").is_file()
        assert not list((folder / "huggingface").glob("*.index.json"))  # of shards that do not lie there
    commands = json.loads((result.path / "deploy" / "trtllm-commands.json").read_text())
    assert set(commands["build"]) == {"target", "draft"}


def test_fp8_caches_of_the_target_alone_are_stated_beside_its_weights(recipe: Path) -> None:
    """The dtype of trtllm-serve's YAML would hold for the draft's caches too."""
    source, own = recipe.parent / "fp8", {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
    quantized_folder(source, LAYOUTS["modelopt_fp8"], TARGET_FP8)
    (source / "hf_quant_config.json").write_text(json.dumps(own))
    result = built(recipe, *SERVE, "target={model: fp8, scheme: fp8, kv_cache: fp8}")
    placed = result.path / "checkpoints" / "target"
    anew = json.loads((placed / "hf_quant_config.json").read_text())
    assert anew == own | {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    assert json.loads((source / "hf_quant_config.json").read_text()) == own
    same = {file.name for file in source.iterdir() if (placed / file.name).read_bytes() == file.read_bytes()}
    assert {file.name for file in source.iterdir()} - same == {"hf_quant_config.json"}
    assert {item.role: item.kv_cache for item in manifest_of(result).checkpoints} == {"target": "fp8", "draft": "bf16"}
    options = yaml.safe_load((result.path / "deploy" / "trtllm-serve.yaml").read_text())
    assert "dtype" not in options["kv_cache_config"]
    assert any(note.startswith("caches of fp8 for the target alone") for note in manifest_of(result).notes)
    (source / "hf_quant_config.json").write_text(json.dumps(anew))
    silent = manifest_of(built(recipe, *SERVE, "target={model: fp8, scheme: fp8}", "name=silent"))
    assert "the target's caches are fp8, as its hf_quant_config.json states: the recipe is silent." in silent.notes


def test_the_serve_flow_places_the_sources_files(recipe: Path) -> None:
    result = built(recipe, *SERVE)
    manifest = manifest_of(result)
    assert [item.format for item in manifest.checkpoints] == ["huggingface", "huggingface"]
    target = result.path / "checkpoints" / "target"
    source = recipe.parent / "target"
    assert {file.name for file in target.iterdir()} == {file.name for file in source.iterdir()}
    assert all((target / file.name).read_bytes() == file.read_bytes() for file in source.iterdir())
    options = yaml.safe_load((result.path / "deploy" / "trtllm-serve.yaml").read_text())
    assert options["speculative_config"]["speculative_model"] == "checkpoints/draft"
    assert (result.path / options["speculative_config"]["speculative_model"] / "config.json").is_file()


def test_specc_says_what_it_can_and_cannot_do_of_it(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = built(recipe).path
    assert status_from_arguments(["inspect", str(bundle)]) == ExitStatus.DONE
    assert "runs where TensorRT-LLM is" in capsys.readouterr().out
    certificate = certify_bundle(bundle)
    assert (certificate.status, certificate.scope) == ("not_run", "full")
    assert "trtllm-build of TensorRT-LLM 1.2.1" in (certificate.reason or "")
    assert certificate.not_checked
    assert status_from_arguments(["run", str(bundle), "--prompt", "x"]) == ExitStatus.USER_INPUT
    assert capsys.readouterr().err.startswith("SPC720")
    damaged = bundle / "checkpoints" / "target" / "rank1.safetensors"
    content = damaged.read_bytes()
    damaged.unlink()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert status_from_arguments(["verify", str(bundle)]) == ExitStatus.USER_INPUT
    assert capsys.readouterr().err.startswith("SPC605")


def test_a_killed_build_goes_on_with_the_rank_that_it_died_in(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(recipe.parent / "store"))
    wrote: list[str] = []
    write = trtllm_backend.write_rank_file

    def dies_at_the_third(path: Path, *args: Any) -> None:
        if len(wrote) == 2:
            path.write_bytes(b"half")
            raise KeyboardInterrupt
        wrote.append(path.name)
        write(path, *args)

    monkeypatch.setattr(trtllm_backend, "write_rank_file", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        built(recipe)
    assert wrote == ["rank0.safetensors", "rank1.safetensors"]
    assert not (recipe.parent / "build" / "pair").exists()
    rest: list[str] = []

    def counted(path: Path, *args: Any) -> None:
        rest.append(path.name)
        write(path, *args)

    monkeypatch.setattr(trtllm_backend, "write_rank_file", counted)
    built(recipe)
    assert rest == ["rank2.safetensors", "rank3.safetensors", "rank0.safetensors"]  # the last one is the draft's
    rest.clear()
    built(recipe, "gamma=2", "limits.max_batch=4")  # nothing of the weights depends on it
    assert rest == []


def test_a_layout_has_headers_and_no_weights(recipe: Path) -> None:
    folder = built(recipe, stop_after="layout").path
    whole = built(recipe).path / "checkpoints" / "target"
    for name in ("config.json", "rank0.safetensors", "rank3.safetensors"):
        outline, file = folder / "target" / name, whole / name
        assert outline.stat().st_size == file.stat().st_size
    header = int.from_bytes((whole / "rank0.safetensors").read_bytes()[:8], "little") + 8
    assert (folder / "target" / "rank0.safetensors").read_bytes()[:header] == (
        whole / "rank0.safetensors"
    ).read_bytes()[:header]
    assert not np.frombuffer((folder / "target" / "rank0.safetensors").read_bytes()[header:], np.uint8).any()
    assert built(recipe, stop_after="layout").path == folder  # replaces its own


@pytest.mark.parametrize("flow", ["engine", "serve"])
def test_a_calibrated_checkpoint_keeps_its_scales_in_both_flows(tmp_path: Path, flow: str) -> None:
    quantized_folder(tmp_path / "target", LAYOUTS["modelopt_fp8"], TARGET_FP8)
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        RECIPE.replace("{model: target}", "{model: target, scheme: fp8, kv_cache: fp8}")
        .replace("{kind: model, model: draft}", "{kind: ngram}")
        .replace("flow: engine, pp_size: 2", f"flow: {flow}")
    )
    folder = built(recipe).path / "checkpoints" / "target"
    config = json.loads((folder / "config.json").read_text())
    if flow == "serve":
        assert config["quantization_config"]["quant_algo"] == "FP8"
        return
    assert config["quantization"] == {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    for rank in range(4):
        assert read_file(folder / f"rank{rank}.safetensors")[0] == required_tensors(config, rank)


def test_the_serve_flow_quantizes_plain_weights_to_fp8_by_rows(recipe: Path) -> None:
    source = recipe.parent / "target"
    tensors = {name: value for file in source.glob("*.safetensors") for name, value in load_file(file).items()}
    matrices = {name: value for name, value in tensors.items() if "_proj" in name}
    first, second = sorted(source.glob("*.safetensors"))
    save_file(matrices, first)
    save_file({name: value for name, value in tensors.items() if name not in matrices}, second)
    where = dict.fromkeys(tensors, second.name) | dict.fromkeys(matrices, first.name)
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    result = built(recipe, *SERVE, "target.scheme=fp8", "target.kv_cache=fp8")
    target = result.path / "checkpoints" / "target"
    by_role = {item.role: (item.format, item.scheme, item.kv_cache) for item in manifest_of(result).checkpoints}
    assert by_role["target"] == ("huggingface", "fp8", "fp8")
    stated = json.loads((target / "hf_quant_config.json").read_text())["quantization"]
    assert (stated["quant_algo"], stated["kv_cache_quant_algo"]) == ("FP8_PER_CHANNEL_PER_TOKEN", "FP8")
    assert (target / second.name).read_bytes() == second.read_bytes()  # nothing in it is quantized
    assert (target / first.name).stat().st_size < 0.6 * first.stat().st_size
    read = source_from_reference(
        str(target), base=target, revision=None, tokenizer=None, chat_template=None, offline=True
    )
    assert set(read.quantized_formats) == set(matrices)
    assert len({file.name for file in target.iterdir()}) == len({file.name for file in source.iterdir()}) + 1
    layout = built(recipe, *SERVE, "target.scheme=fp8", stop_after="layout").path / "target"
    assert json.loads((layout / "config.json").read_text())["quantization_config"]["quant_method"] == "modelopt"
    assert set(json.loads((layout / "source-files.json").read_text())) >= {first.name, second.name}
