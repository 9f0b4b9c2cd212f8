"""Bundles of `draft.steps: whole`, built through the pipeline: files, certificate, ids, resuming; and for a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specc.bundle.certificate import Certificate
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.cli.main import status_from_arguments
from specc.runtime import GenerationParams, Session
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: {name}
target: {{model: big}}
draft: {{kind: model, model: small, steps: {steps}}}
gamma: {{max: 4, default: {gamma}}}
gpu: {gpu}
limits: {{max_batch: 2, max_input: 60, max_output: 40, prefill_chunk: 16}}
{more}
"""
PROMPTS = ["hello world", "a", "The quick brown fox jumps over"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    sizes = TinyLlama(num_hidden_layers=3, seed=1, max_position_embeddings=128)
    llama_folder(root / "big", sizes)
    # The same weights, rounded: most of its drafts are right.
    llama_folder(root / "small", TinyLlama(num_hidden_layers=3, seed=1, max_position_embeddings=128, stored="bf16"))
    return root


def build(folder: Path, name: str, steps: str, *, gamma: int = 3, gpu: str = "cpu", more: str = "") -> Path:
    recipe = folder / f"{name}.yaml"
    recipe.write_text(RECIPE.format(name=name, steps=steps, gamma=gamma, gpu=gpu, more=more))
    assert status_from_arguments(["build", str(recipe), "--out", str(folder / "out")]) == 0
    return folder / "out" / name


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [1, 3])
def test_the_bundle_has_one_engine_more_over_the_same_files_and_is_certified(folder: Path, gamma: int) -> None:
    bundle = build(folder, f"whole{gamma}", "whole", gamma=gamma)
    manifest = open_bundle(bundle, "full")
    assert [(engine.role, engine.variant, engine.steps) for engine in manifest.engines] == [
        ("target", "main", 1),
        ("target", "logits", 1),
        ("draft", "main", 1),
        ("target", "whole", gamma),
    ]
    assert manifest.abi >= (1, 4)
    whole = manifest.engines[-1]
    names = {tensor.name for tensor in whole.inputs}
    assert names >= {"draft_past_lengths", "num_draft", "draft_seed", "key_cache_2", "draft_value_cache_0"}
    assert {cache.of for cache in whole.caches} == {None, "draft"}
    assert not (bundle / "engines/draft.unrolled.onnx").exists()
    certificate = record_from_file(Certificate, bundle / "certificate.json")
    assert certificate.status == "passed"
    assert {cost.tokens for cost in certificate.round_step_costs} == {1, 2}
    assert sum(check.accepted for check in certificate.parity) > 0


@pytest.mark.slow
def test_its_ids_are_those_of_plain_decoding_and_rounds_are_one_call(folder: Path) -> None:
    """Without measured costs: by those of a tiny model on a shared machine the calls apart may be the cheaper ones."""
    bundle = build(folder, "unmeasured3", "whole", more="certify: off")
    with Session.load(bundle) as session:
        rounds = session._draft_runners[0]
        calls, step = [], rounds.step
        rounds.step = lambda first, inputs: calls.append(first) or step(first, inputs)  # type: ignore[method-assign]
        for warmth in (0.0, 0.9):
            params = [GenerationParams(max_new_tokens=30, temperature=warmth, seed=3, mode=m) for m in ("spec", "ar")]
            spec, plain = (session.generate(PROMPTS, one) for one in params)
            assert [a.token_ids for a in spec] == [a.token_ids for a in plain]
            assert sum(a.statistics.accepted for a in spec) > 0
    assert len(calls) > 10


@pytest.mark.slow
def test_another_form_of_steps_builds_nothing_of_the_target_again(folder: Path, capsys: pytest.CaptureFixture) -> None:
    first, second = build(folder, "whole3", "whole"), build(folder, "single3", "single")
    same = ["engines/target.onnx", "engines/draft.onnx", "engines/model.safetensors"]
    for name in same:
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert len(open_bundle(second, "full").engines) == 3


def test_the_plan_counts_the_weights_once_more_and_says_whether_it_pays(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = folder / "gpu.yaml"
    text = RECIPE.format(name="gpu", steps="whole", gamma=4, gpu="rtx-4090", more="")
    recipe.write_text(text)
    assert status_from_arguments(["plan", str(recipe)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "whole-step engine" in told
    found = re.search(r"a round of one row takes ([\d.]+) ms in one call and ([\d.]+) ms in 5", told)
    assert found is not None
    # Four draft calls of 0.25 ms each.
    assert float(found[2]) - float(found[1]) == pytest.approx(1.0, abs=0.02)
    assert "; it pays." in told
    recipe.write_text(text.replace("steps: whole", "steps: single"))
    assert status_from_arguments(["plan", str(recipe)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "draft.steps=whole: by the cost model" in told
    assert "whole-step engine" not in told


@pytest.mark.slow
def test_a_whole_step_is_built_for_a_gpu_on_a_machine_without(folder: Path) -> None:
    bundle = build(folder, "rtx", "whole", gpu="rtx-4090", more="backend: tensorrt-rtx\nacceptance: greedy")
    manifest = open_bundle(bundle, "full")
    engines = {(engine.role, engine.variant): engine for engine in manifest.engines}
    assert set(engines) == {("target", "main"), ("draft", "main"), ("target", "whole")}
    whole = engines["target", "whole"]
    assert (whole.file, whole.steps) == ("engines/target.whole.engine", 3)
    assert [profile.tokens for profile in whole.profiles] == [(1, 1, 2)]
    assert (bundle / whole.file).read_bytes()[:4] == b"vtrt"
