"""Builds of quantized targets: codes of a checkpoint that are kept, and methods that calibrate first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specc.bundle.store import Store
from specc.cli.main import status_from_arguments
from specc.pipeline import BuildRequest, BuildResult, build
from specc.progress import silent
from specc.quantize.layouts.matmul_nbits import matmul_nbits_from_quantized
from specc.runtime import GenerationParams, Session
from tests.quantized_folders import LAYOUTS, quantized_folder
from tests.tiny_families import opened
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {{model: model, scheme: {{name: w4a16, method: {method}}}{more}}}
draft: {{kind: ngram}}
gamma: {gamma}
gpu: cpu
limits: {{max_batch: 1, max_input: 32, max_output: 16, prefill_chunk: 8}}
certify: off
"""
DOWN = "model.layers.0.mlp.down_proj.weight"


def made(folder: Path, method: str, *, more: str = "", gamma: int = 2, stop: str = "publish") -> BuildResult:
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE.format(method=method, more=more, gamma=gamma))
    return build(
        BuildRequest(recipe, (), folder / "out", stop, False, None, offline=True, rehash=False),
        silent,
        on_wait=lambda _: None,
    )


def statistics_in_store() -> int:
    with Store(rehash=False) as store:
        return sum(entry.describe.startswith("statistics") for entry in store.entries())


def test_a_checkpoint_keeps_its_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))
    quantized_folder(tmp_path / "model", LAYOUTS["gptq"])
    result = made(tmp_path, "mse", stop="lower")
    assert any("7 matrices keep the checkpoint's codes" in note for note in result.plan.notes)
    expected = matmul_nbits_from_quantized(opened(tmp_path / "model").read_quantized(DOWN)).codes.tobytes()
    files = [path.read_bytes() for path in result.path.glob("*.safetensors")]
    assert any(expected in content for content in files)


def test_a_bundle_says_how_far_rounding_moved_its_matrices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))
    llama_folder(tmp_path / "model")
    result = made(tmp_path, "mse")
    assert "which usually moves them by 9.5% and 1.6% of their size" in " ".join(result.plan.notes)
    assert status_from_arguments(["inspect", str(result.path), "--json"]) == 0
    rows = {row["weights"]: row for row in json.loads(capsys.readouterr().out)["rounded"]["target"]["rounded"]}
    assert {name: row["count"] for name, row in rows.items()} == {"attention": 8, "mlp": 6, "head": 1}
    assert rows["head"]["error"] == pytest.approx(0.012, rel=0.2)
    assert rows["mlp"]["error"] == pytest.approx(0.088, rel=0.1)
    assert rows["mlp"]["worst"].startswith("model.layers.")
    assert status_from_arguments(["inspect", str(result.path)]) == 0
    said = (
        f"8 matrices of attention from f32 to int4 in groups of 32, scales f32, error {rows['attention']['error']:.2%}"
    )
    assert f"target rounded: {said}" in " ".join(capsys.readouterr().out.split())
    assert said in (result.path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mse", "awq"])
def test_int8_caches_are_calibrated_and_speculation_keeps_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    """`mse` alone reads no text: the caches' scales make it. `awq` scales rows of v, where each head has its own."""
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))
    llama_folder(tmp_path / "model", TinyLlama(num_key_value_heads=4))
    (tmp_path / "texts.txt").write_text("A text of the user's own, which the caches' scales are made of.")
    more = ", kv_cache: int8, calibration: texts.txt"
    result = made(tmp_path, method, more=more)
    assert statistics_in_store() == 1
    assert not any("calibration is not read" in note for note in result.plan.notes)
    manifest = json.loads((result.path / "manifest.json").read_text())
    caches = [tensor for tensor in manifest["engines"][0]["inputs"] if "cache" in tensor["name"]]
    assert {tensor["dtype"] for tensor in caches} == {"i8"}
    assert "engines/cache_scales.safetensors" in manifest["files"]
    assert status_from_arguments(["inspect", str(result.path)]) == 0
    assert "caches of i8" in " ".join(capsys.readouterr().out.split())
    with Session.load(result.path) as session:
        prompts = [[72, 101, 108, 108, 111, 32, 72, 101, 108], [5] * 20]
        plain, drafted = (
            session.generate(prompts, GenerationParams(max_new_tokens=12, mode=mode, ignore_eos=True))
            for mode in ("ar", "spec")
        )
    assert [one.token_ids for one in plain] == [one.token_ids for one in drafted]
    assert sum(one.statistics.rounds for one in drafted) > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_a_calibrated_target_is_built_once_for_every_gamma_and_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))
    llama_folder(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("A text of the user's own.\n---\nAnd another one, a little longer than that.")
    first = made(tmp_path, method, more=", calibration: texts.txt")
    assert any(f"method {method}" in note for note in first.plan.notes)
    assert json.loads((first.path / "plan.json").read_text())["graph"]["weights"][-1]["method"] == method
    assert statistics_in_store() == 1
    made(tmp_path, method, more=", calibration: texts.txt", gamma=3)
    assert statistics_in_store() == 1
    (tmp_path / "texts.txt").write_text("Other words.")
    made(tmp_path, method, more=", calibration: texts.txt", stop="lower")
    assert statistics_in_store() == 2
