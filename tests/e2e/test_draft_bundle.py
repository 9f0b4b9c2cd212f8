"""A bundle with a draft engine, built through the pipeline from tiny folders of one tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specc import stored
from specc.bundle.certificate import Certificate
from specc.bundle.manifest import Manifest
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.certify.bundle_costs import costs_from_bundle
from specc.cli.main import status_from_arguments
from specc.runtime import GenerationParams, Session
from specc.runtime.draft_engine import draft_runner_from_bundle
from specc.runtime.loading import target_engine
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.runners.runner import neutral_inputs
from specc.speculation.step_costs import table_from_step_costs
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: {name}
target: {{model: big}}
draft: {draft}
gamma: {{max: 4, default: 3}}
gpu: cpu
limits: {{max_batch: 2, max_input: 60, max_output: 40, prefill_chunk: 16}}
"""
PROMPTS = ["hello world", "a", "The quick brown fox jumps over"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("models")
    llama_folder(root / "big", TinyLlama(num_hidden_layers=3, seed=1))
    for name, seed in (("small", 2), ("other", 3)):
        sizes = TinyLlama(vocab_size=270, hidden_size=32, intermediate_size=48, num_hidden_layers=1, seed=seed)
        llama_folder(root / name, sizes)
    return root


def built(folder: Path, name: str, draft: str) -> tuple[Path, Manifest]:
    recipe = folder / f"{name}.yaml"
    recipe.write_text(RECIPE.format(name=name, draft=draft))
    assert status_from_arguments(["build", str(recipe), "--out", str(folder / "out")]) == 0
    bundle = folder / "out" / name
    return bundle, open_bundle(bundle, "full")


@pytest.fixture(scope="module")
def model_bundle(folder) -> tuple[Path, Manifest]:
    return built(folder, "model", "{kind: model, model: small}")


@pytest.fixture(scope="module")
def self_bundle(folder) -> tuple[Path, Manifest]:
    return built(folder, "self", "{kind: self, layers: 2}")


@pytest.fixture(scope="module")
def unrolled_bundle(folder) -> tuple[Path, Manifest]:
    return built(folder, "unrolled", "{kind: model, model: small, steps: unrolled}")


def engine_files(bundle: Path) -> set[str]:
    return {file.name for file in (bundle / "engines").iterdir()}


def test_a_draft_model_has_an_engine_and_files_of_its_own(model_bundle):
    bundle, manifest = model_bundle
    assert [(engine.role, engine.variant, engine.file) for engine in manifest.engines] == [
        ("target", "main", "engines/target.onnx"),
        ("target", "logits", "engines/target.logits.onnx"),
        ("draft", "main", "engines/draft.onnx"),
    ]
    own = {"draft.onnx", "draft.model.safetensors", "draft.tables.safetensors"}
    assert own | {"model.safetensors", "tables.safetensors"} < engine_files(bundle)


def test_the_first_layers_share_the_targets_file(self_bundle):
    bundle, manifest = self_bundle
    assert engine_files(bundle) == {"target.onnx", "target.logits.onnx", "model.safetensors", "tables.safetensors"}
    assert [(engine.role, engine.variant, engine.file) for engine in manifest.engines] == [
        ("target", "main", "engines/target.onnx"),
        ("draft", "main", "engines/target.onnx"),
        ("target", "logits", "engines/target.logits.onnx"),
    ]


def test_the_first_layers_share_the_targets_memory(self_bundle):
    """One vendor session, so that ONNX Runtime packs the weights once, and one set of caches."""
    bundle, manifest = self_bundle
    target = runner_from_engine(bundle, target_engine(manifest, bundle), 1)
    draft = draft_runner_from_bundle(bundle, manifest, target, 1)
    assert isinstance(target, OnnxRuntimeRunner)
    assert isinstance(draft, OnnxRuntimeRunner)
    assert draft.session is target.session
    assert draft.caches is target.caches
    flags = [
        tensor.neutral for runner in (target, draft) for tensor in runner.spec.inputs if tensor.name == "early_exit"
    ]
    assert flags == [0, 1]


def test_an_early_call_leaves_the_later_layers_caches_alone(self_bundle):
    bundle, manifest = self_bundle
    target = runner_from_engine(bundle, target_engine(manifest, bundle), 1)
    draft = draft_runner_from_bundle(bundle, manifest, target, 1)
    assert isinstance(target, OnnxRuntimeRunner)
    assert draft is not None
    target.reserve(1, 8)
    given = {"input_ids": np.array([[65]]), "num_tokens": np.array([1]), "past_lengths": np.array([0])}
    given["logit_rows"] = np.array([[0]])
    target.step(0, neutral_inputs(target.spec, 1, dict(given)))
    before = {name: array.copy() for name, array in target.caches.arrays.items()}
    draft.step(0, neutral_inputs(draft.spec, 1, given | {"past_lengths": np.array([1])}))
    changed = {name for name, array in target.caches.arrays.items() if not np.array_equal(array, before[name])}
    assert changed == {f"{kind}_cache_{layer}" for kind in ("key", "value") for layer in (0, 1)}


def test_another_draft_builds_nothing_of_the_target_again(folder, model_bundle, self_bundle, monkeypatch):
    wrote: list[tuple[str, str]] = []

    def watched(name: str):
        real = getattr(stored, name)

        def write(plan, *rest):
            wrote.append((name, plan.graph.role))
            real(plan, *rest)

        monkeypatch.setattr(stored, name, write)

    for name in ("write_weights", "write_graphs"):
        watched(name)
    built(folder, "other", "{kind: model, model: other}")
    assert sorted(wrote) == [("write_graphs", "draft"), ("write_weights", "draft")]
    wrote.clear()
    built(folder, "fewer", "{kind: self, layers: 1}")
    assert wrote == [("write_graphs", "target")]  # over the same weights


def test_an_unrolled_draft_adds_a_graph_over_the_same_files(model_bundle, unrolled_bundle):
    bundle, manifest = unrolled_bundle
    assert engine_files(bundle) == engine_files(model_bundle[0]) | {"draft.unrolled.onnx"}
    (engine,) = (engine for engine in manifest.engines if engine.variant == "unrolled")
    assert (engine.role, engine.file, engine.steps) == ("draft", "engines/draft.unrolled.onnx", 3)
    assert [(tensor.name, tensor.shape) for tensor in engine.outputs[:1]] == [("drafts", ("B", 3))]
    certificate = record_from_file(Certificate, bundle / "certificate.json")
    assert {(cost.batch, cost.tokens) for cost in certificate.burst_step_costs} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    with Session.load(bundle, threads=1) as session:
        assert session.draft_costs.measured
        whole = session.draft_costs.seconds(1, 3)
    costs = table_from_step_costs(certificate.burst_step_costs)
    assert costs is not None
    assert whole == costs.seconds(1, 2)


@pytest.mark.parametrize("kind", ["model", "self", "unrolled"])
def test_the_build_certified_the_pair_and_measured_both_engines(kind, request):
    bundle, _ = request.getfixturevalue(f"{kind}_bundle")
    certificate = record_from_file(Certificate, bundle / "certificate.json")
    assert certificate.status == "passed"
    assert sum(check.rounds for check in certificate.parity) > 0
    for costs in (certificate.step_costs, certificate.draft_step_costs):
        assert {(cost.batch, cost.tokens) for cost in costs} >= {(1, 1), (1, 2), (2, 1)}


@pytest.mark.parametrize("kind", ["model", "self", "unrolled"])
def test_a_loaded_pair_gives_the_ids_of_ar_decoding(kind, request):
    bundle, _ = request.getfixturevalue(f"{kind}_bundle")
    with Session.load(bundle, threads=1) as session:
        for temperature in (0.0, 0.9):
            settings = {"max_new_tokens": 24, "temperature": temperature, "seed": 7, "ignore_eos": True}
            plain = session.generate(PROMPTS, GenerationParams(mode="ar", **settings))
            drafted = session.generate(PROMPTS, GenerationParams(mode="spec", **settings))
            assert [g.token_ids for g in drafted] == [g.token_ids for g in plain]
            assert sum(g.statistics.rounds for g in drafted) > 0


@pytest.mark.parametrize("kind", ["model_bundle", "self_bundle", "unrolled_bundle"])
def test_reports_and_comparisons_price_calls_as_a_session_does(kind, request):
    bundle, manifest = request.getfixturevalue(kind)
    costs = costs_from_bundle(bundle, manifest)
    with Session.load(bundle) as session:
        assert costs.target.measured
        for drafts in range(5):
            assert costs.drafting.seconds(1, drafts) == session.draft_costs.seconds(1, drafts)
            assert costs.target.seconds(2, drafts + 1) == session.call_costs.seconds(2, drafts + 1)
        expected = costs.target.seconds(1, 4) + costs.drafting.seconds(1, 3)
        assert session.break_even_length() == expected / costs.target.seconds(1, 1)


def test_a_built_pair_is_built_again_from_the_store(folder, model_bundle, capsys):
    bundle, _ = model_bundle
    before = {path: path.stat().st_mtime_ns for path in bundle.rglob("*")}
    built(folder, "model", "{kind: model, model: small}")
    assert "(unchanged)" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in bundle.rglob("*")} == before


@pytest.mark.parametrize("mode", ["rejection", "block", "typical", "greedy"])
def test_the_first_layers_draft_under_each_acceptance(folder, mode):
    recipe = folder / f"self-{mode}.yaml"
    text = RECIPE.format(name=f"self-{mode}", draft="{kind: self, layers: 3}")
    recipe.write_text(f"{text}acceptance: {mode}\nlossy: {str(mode == 'typical').lower()}\n")
    assert status_from_arguments(["build", str(recipe), "--out", str(folder / "out")]) == 0
    with Session.load(folder / "out" / f"self-{mode}", threads=1) as session:
        settings = {"max_new_tokens": 24, "ignore_eos": True}
        plain = session.generate(PROMPTS, GenerationParams(mode="ar", **settings))
        drafted = session.generate(PROMPTS, GenerationParams(mode="spec", **settings))
    assert [g.token_ids for g in drafted] == [g.token_ids for g in plain]
    assert sum(g.statistics.rounds for g in drafted) > 0


def test_a_build_without_drafts_is_reported(folder):
    recipe = folder / "none.yaml"
    recipe.write_text(RECIPE.format(name="none", draft="{kind: ngram}"))
    assert status_from_arguments(["build", str(recipe), "--out", str(folder / "out"), "--set", "gamma=0"]) == 0
    assert "Nothing is drafted" in (folder / "out" / "none" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_draft_whose_weights_are_no_numbers_is_not_published(folder, value, capsys):
    """The text is right whatever drafts: only its weights tell a broken download, and they are named."""
    name = f"broken-{value}"
    broken = llama_folder(folder / name, TinyLlama(num_hidden_layers=1, seed=4))
    tensors = load_file(broken / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.weight"][3, 5] = value
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    recipe = folder / f"{name}.yaml"
    recipe.write_text(RECIPE.format(name=name, draft=f"{{kind: model, model: {name}}}"))
    assert status_from_arguments(["build", str(recipe), "--out", str(folder / "out")]) == 3
    told = " ".join(capsys.readouterr().err.split())
    assert "SPC805" in told
    assert "values of `model.layers.0.mlp.up_proj.weight` of the draft model are infinite or no numbers" in told
    assert not (folder / "out" / name).exists()
    unchecked = ["build", str(recipe), "--out", str(folder / "out"), "--set", "certify=off"]
    assert status_from_arguments(unchecked) == 0
    assert status_from_arguments(["verify", str(folder / "out" / name)]) == 3
