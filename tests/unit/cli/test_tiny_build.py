"""The command line on a tiny checkpoint: every command, from init to cache, as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specc.bundle.manifest import Manifest
from specc.bundle.record import record_from_file
from specc.cli.main import status_from_arguments
from tests.tiny_models import llama_folder

RECIPE = """\
recipe: 1
name: tiny
target: {model: model}
draft: {kind: ngram}
gamma: 4
gpu: cpu
limits: {max_batch: 2, max_input: 64, max_output: 32, prefill_chunk: 16}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    llama_folder(folder / "model")
    (folder / "tiny.yaml").write_text(RECIPE)
    return folder / "tiny.yaml"


@pytest.fixture(scope="module")
def bundle(recipe) -> Path:
    assert status_from_arguments(["build", str(recipe), "--out", str(recipe.parent / "build")]) == 0
    return recipe.parent / "build" / "tiny"


def printed_json(capsys, *arguments: str):
    assert status_from_arguments([*arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_init_check_and_plan(recipe, capsys):
    fresh = recipe.parent / "fresh.yaml"
    arguments = ["init", "--target", "./model", "--gpu", "cpu", "--output", str(fresh)]
    assert status_from_arguments(arguments) == 0
    capsys.readouterr()
    (checked,) = printed_json(
        capsys, "check", str(fresh), "--set", "limits.max_input=256", "--set", "limits.max_output=256"
    )
    assert checked["ok"] is True
    (plan,) = printed_json(capsys, "plan", str(recipe), "--set", "gamma=2")
    assert plan["limits"]["max_gamma"] == 2
    assert status_from_arguments(["plan", str(recipe)]) == 0
    assert "kv cache" in capsys.readouterr().out


def test_build_leaves_a_whole_bundle(bundle):
    manifest = record_from_file(Manifest, bundle / "manifest.json")
    assert {"plan.json", "recipe.lock.json", "engines/target.onnx"} <= set(manifest.files)
    assert (bundle / "certificate.json").is_file()
    assert "<h1>tiny</h1>" in (bundle / "report.html").read_text()


def test_build_again_and_locked(recipe, bundle, capsys):
    (again,) = printed_json(capsys, "build", str(recipe), "--out", str(bundle.parent), "--locked")
    assert again == {"path": str(bundle), "changed": False, "notes": again["notes"], "certificate": "passed"}
    assert status_from_arguments(["build", str(recipe), "--out", str(bundle.parent)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [f"{bundle} (unchanged)", "certificate: build check passed"]


def test_locked_refuses_other_sources(recipe, bundle, tmp_path, capsys):
    lock = json.loads((bundle / "recipe.lock.json").read_text())
    lock["sources"]["target"]["files"][0]["sha256"] = "0" * 64
    file = tmp_path / "recipe.lock.json"
    file.write_text(json.dumps(lock))
    arguments = ["build", str(recipe), "--out", str(tmp_path), "--locked", "--lock", str(file)]
    assert status_from_arguments(arguments) == 2
    assert "SPC610" in capsys.readouterr().err
    assert not (tmp_path / "tiny").exists()


@pytest.mark.parametrize("stage", ["plan", "lower", "compile"])
def test_any_stage_can_be_the_last(recipe, tmp_path, capsys, stage):
    (made,) = printed_json(capsys, "build", str(recipe), "--out", str(tmp_path), "--stop-after", stage)
    path = Path(made["path"])
    expected = {"plan": None, "lower": "target.onnx", "compile": "engines.json"}[stage]
    assert path.is_file() if expected is None else (path / expected).is_file()
    assert not (tmp_path / "tiny").exists()


def test_inspect_run_and_verify(bundle, tmp_path, capsys):
    (shown,) = printed_json(capsys, "inspect", str(bundle))
    assert shown["name"] == "tiny"
    (made,) = printed_json(capsys, "run", str(bundle), "--prompt", "abcabcabc", "--max-tokens", "9", "--ignore-eos")
    assert len(made["token_ids"]) == 9
    assert made["speculation"]["mode"] == "auto"
    assert status_from_arguments(["run", str(bundle), "--prompt", "hello", "--max-tokens", "3", "--chat"]) == 0
    streamed = capsys.readouterr()
    assert streamed.out.endswith("\n")
    assert "3 tokens" in streamed.err
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('"abcabcabcabc"\n[1, 2, 3, 1, 2, 3, 1, 2]\n')
    (certificate,) = printed_json(capsys, "verify", str(bundle), "--prompts", str(prompts), "--max-tokens", "16")
    assert certificate["status"] == "passed"
    report = bundle / "report.html"
    report.unlink()
    assert status_from_arguments(["verify", str(bundle), "--prompts", str(prompts), "--max-tokens", "4"]) == 0
    assert "Measured step costs" in report.read_text()


def test_bench_writes_its_report(bundle, tmp_path, capsys):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('"abcabcabcabc"\n"xyzxyzxyz"\n')
    report = tmp_path / "acceptance.json"
    arguments = ["bench", str(bundle), "--prompts", str(prompts), "--max-tokens", "16", "--mode", "spec"]
    assert status_from_arguments([*arguments, "--rounds", "2", "--output", str(report)]) == 0
    assert "times as fast" in capsys.readouterr().out
    written = json.loads(report.read_text())
    assert all(prompt["same_ids"] for prompt in written["prompts"])
    assert written["statistics"]["rounds"] > 0
    assert written["decode_speedup"] > 0


def test_one_token_has_no_decoding_to_measure(bundle, tmp_path, capsys):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"ids": [1, 2]}\n')
    assert status_from_arguments(["bench", str(bundle), "--prompts", str(prompts), "--max-tokens", "1"]) == 2
    assert "--max-tokens" in capsys.readouterr().err


def test_cache_lists_what_builds_left(bundle, capsys):
    (entries,) = printed_json(capsys, "cache", "ls")
    described = {entry["describe"] for entry in entries}
    assert {"weights of tiny", "graphs of tiny", "engines of tiny", "tokenizer of tiny"} <= described


def test_a_failing_bundle_names_what_is_wrong(bundle, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert status_from_arguments(["run", str(tmp_path / "empty"), "--prompt", "x"]) == 2
    assert "SPC601" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["engines/tables.safetensors", "engines/target.onnx", "manifest.json"])
def test_a_flipped_bit_is_found_before_anything_is_loaded(bundle, tmp_path, capsys, file):
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy)
    content = bytearray((copy / file).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / file).write_bytes(content)
    assert status_from_arguments(["run", str(copy), "--prompt", "x", "--max-tokens", "2"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(("SPC605", "SPC602"))
    assert printed.out == ""


def test_text_is_printed_as_it_was_generated(bundle, tmp_path, capsys):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('"a:smile:"\n"b\\t[bold]"\n')
    arguments = ["run", str(bundle), "--prompts", str(prompts), "--max-tokens", "12", "--ignore-eos"]
    texts = [made["text"] for made in printed_json(capsys, *arguments)]
    assert status_from_arguments(arguments) == 0
    shown = capsys.readouterr().out
    assert shown == "".join(f"{text}\n{'-' * 80}\n" for text in texts)


def test_a_bundle_without_a_tokenizer_prints_ids(recipe, tmp_path, capsys):
    shutil.copytree(recipe.parent / "model", tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "model" / name).unlink()
    shutil.copy(recipe, tmp_path / "tiny.yaml")
    assert status_from_arguments(["build", str(tmp_path / "tiny.yaml"), "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    prompts = tmp_path / "ids.jsonl"
    prompts.write_text("[1, 2, 3]\n")
    arguments = ["run", str(tmp_path / "tiny"), "--prompts", str(prompts), "--max-tokens", "3"]
    (made,) = printed_json(capsys, *arguments)
    assert status_from_arguments(arguments) == 0
    assert capsys.readouterr().out.split() == [str(token) for token in made["token_ids"]]
