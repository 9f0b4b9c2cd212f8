"""Every error of the plan stage names the field and what can be used instead; no weight was read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from specc.catalog.capabilities import BACKENDS
from specc.errors import SpeccError
from specc.plan.make import plan_from_recipe
from specc.recipe.load import recipe_from_text
from specc.recipe.models import DRAFT_EXAMPLES, DraftChoice
from tests.stated_source import SMOLLM2_FACTS, StatedSource

ROOT = Path(__file__).resolve().parents[2]
GOOD = """\
recipe: 1
name: x
target: {model: ./m, scheme: f32}
draft: {kind: ngram}
gamma: {max: 8, default: 5}
gpu: cpu
backend: {name: onnxruntime}
limits: {max_batch: 4, max_input: 1024, max_output: 1024}
"""


def refused(*overrides: str, source: StatedSource | None = None) -> SpeccError:
    recipe = recipe_from_text(GOOD, "r.yaml", overrides)
    with pytest.raises(SpeccError) as caught:
        plan_from_recipe(recipe, source or StatedSource())
    return caught.value


RTX = ("gpu=rtx-4090", "backend=tensorrt-rtx", "target.scheme=f16")


@pytest.mark.parametrize(
    ("overrides", "place", "got", "fix"),
    [
        ((*RTX, "draft={kind: self, layers: 4}"), "draft.kind", "a draft of kind self", "draft: {kind: ngram}"),
        (("target.scheme=fp8",), "target.scheme", "scheme fp8 (8-bit float", "scheme: f32"),
        ((*RTX, "numerics=invariant"), "numerics", "numerics invariant on tensorrt-rtx", "numerics: fastest"),
        (("target.kv_cache=f16",), "target.kv_cache", "caches of f16 on onnxruntime", "kv_cache: f32 or int8, or"),
        ((*RTX, "gpu.count=2"), "gpu.count", "2 GPUs for one model", "gpu.count: 1"),
    ],
)
def test_what_is_known_but_not_built(overrides, place: str, got: str, fix: str) -> None:
    error = refused(*overrides)
    assert error.code == "SPC301"
    assert error.place.split(" ")[1] == place
    assert error.got.startswith(got)
    assert error.fix.startswith(fix)
    assert error.why == "specc knows it, but this version does not build it"


def test_the_kinds_that_a_back_end_builds_are_shown_with_what_each_needs() -> None:
    """Each example is a mapping that a recipe takes, once the user's own model or number stands in it."""
    error = refused(*RTX, "draft={kind: self, layers: 4}")
    assert "draft: {kind: model, model: a smaller model of the same tokenizer}" in error.fix
    for kind, example in DRAFT_EXAMPLES.items():
        stated = yaml.safe_load(example)
        assert stated["kind"] == kind
        if "layers" in stated:
            stated["layers"] = 4
        assert TypeAdapter(DraftChoice).validate_python(stated).kind == kind
    assert {kind for row in BACKENDS.values() for kind in row.draft_kinds} == set(DRAFT_EXAMPLES)


@pytest.mark.parametrize(
    ("overrides", "got", "why", "fix"),
    [
        (("target.scheme=f16",), "scheme f16 (", "no faster than f32", "scheme: f32 or scheme: w8a16 or scheme: w4a16"),
        (("target.scheme=bf16",), "scheme bf16 (", "no bfloat16", "scheme: f32 or scheme: w8a16 or scheme: w4a16"),
        ((*RTX, "target.scheme=f32"), "scheme f32 (", "no fused attention", "scheme: f16 or scheme: bf16"),
        ((*RTX, "target.scheme=bf16", "gpu=t4"), "scheme bf16 for SM 7.5", "on SM 8.0, 8.6", "scheme: f16"),
        ((*RTX, "target.scheme=w4a16", "gpu=t4"), "scheme w4a16 for SM 7.5", "on SM 8.0, 8.6", "scheme: f16"),
        ((*RTX, "target.scheme=fp8", "gpu=rtx-3090"), "scheme fp8 for SM 8.6", "on SM 8.9, 12.0", "scheme: f16 or"),
        ((*RTX, "target.scheme=nvfp4"), "scheme nvfp4 for SM 8.9", "on SM 12.0, 12.1", "scheme: f16 or"),
        (
            (*RTX, "backend={name: tensorrt-rtx, compute_capabilities: [8.0, 8.9]}", "target.scheme=fp8a16"),
            "scheme fp8a16 for SM 8.0",
            "on SM 8.9",
            "scheme: f16 or",
        ),
    ],
)
def test_schemes_that_the_back_end_does_not_run(overrides, got: str, why: str, fix: str) -> None:
    error = refused(*overrides)
    assert error.code == "SPC302"
    assert error.place == "--set target.scheme"
    assert error.got.startswith(got)
    assert why in error.why
    assert error.fix.startswith(fix)


@pytest.mark.parametrize(
    ("target", "place", "got", "why", "fix"),
    [
        ("{model: m, scheme: {name: w4a16, group_size: 48}}", "scheme", "w4a16 with group_size 48",
         "int4 in groups of 32, scales f32; int4 in groups of 64", "state one of these"),
        ("{model: m, scheme: {name: w8a16, zero_point: true}}", "scheme", "w8a16 with zero_point True",
         "onnxruntime runs it as int8 in groups of 32", "state one of these"),
        ("{model: m, scheme: {name: f32, group_size: 32}}", "scheme", "f32 with group_size", "stores floats",
         "scheme: f32, or"),
        ("{model: m, scheme: w4a16, overrides: {head: f16}}", "overrides.head",
         "scheme f16 for `model.embed_tokens.weight` among activations of f32", "no product of such weights",
         "f32 or w8a16 or w4a16"),
        ("{model: m, overrides: {head: {name: w4a16, zero_point: true}}}", "overrides",
         "an embedding, which is also the head of uint4 in groups of 32 with zero points", "symmetric codes",
         "another scheme"),
    ],
)  # fmt: skip
def test_forms_of_schemes_that_the_back_end_does_not_run(target: str, place: str, got: str, why: str, fix: str) -> None:
    error = refused(f"target={target}")
    assert (error.code, error.place) == ("SPC302", f"--set target.{place}")
    assert error.got.startswith(got)
    assert why in error.why
    assert error.fix.startswith(fix)


def test_zero_points_are_refused_by_name_where_there_are_none() -> None:
    error = refused(*RTX, "target={model: m, scheme: {name: w4a16, zero_point: true}}")
    assert (error.code, error.got) == ("SPC302", "w4a16 with zero_point True")
    assert error.why.startswith("tensorrt-rtx runs it as int4 in groups of 128")


def test_spc309_groups_that_do_not_divide_are_named_with_what_does() -> None:
    error = refused("target.scheme={name: w4a16, group_size: 128}")
    assert (error.code, error.place) == ("SPC309", "--set target.scheme")
    assert error.got == (
        "128 does not divide in_features 576 of `model.layers.*.self_attn.q_proj`, `model.layers.*.self_attn.k_proj`, "
        "`model.layers.*.self_attn.v_proj`, `model.layers.*.self_attn.o_proj`, `model.layers.*.mlp.gate_proj`, "
        "`model.layers.*.mlp.up_proj` (180 matrices)"
    )
    assert error.why == "w4a16 stores one scale for each whole group along in_features"
    assert error.fix.startswith("group_size: 32, or group_size: 64, or an override of these matrices")


def test_spc310_an_override_that_fits_nothing_names_the_matrices() -> None:
    error = refused("target={model: m, scheme: w4a16, overrides: {mlp.down: f32}}")
    assert (error.code, error.place) == ("SPC310", '--set target.overrides."mlp.down"')
    assert "model.layers.*.mlp.down_proj" in error.why
    assert error.fix.startswith("one of head, embedding, first_layer, last_layer")


@pytest.mark.parametrize(
    ("gpu", "sm"), [("h100-sxm-80gb", "9.0"), ("h200", "9.0"), ("b200", "10.0"), ("jetson-agx-orin-64gb", "8.7")]
)
def test_tensorrt_rtx_refuses_data_centre_gpus_by_name(gpu: str, sm: str) -> None:
    error = refused(*RTX, f"gpu={gpu}")
    assert (error.code, error.place) == ("SPC303", "--set gpu.name")
    assert error.got == f"tensorrt-rtx for {gpu} (SM {sm})"
    assert "SM 7.5, 8.0, 8.6, 8.9, 12.0, 12.1" in error.why
    assert "tensorrt and tensorrt-llm" in error.why
    # of SM 8.7 no other back end is known
    assert ("gpu: cpu" if sm == "8.7" else "backend: tensorrt or backend: tensorrt-llm") in error.fix


def test_a_refused_gpu_is_sent_to_the_back_ends_that_serve_it() -> None:
    assert refused("backend={name: onnxruntime}", "gpu=b300").code == "SPC303"
    error = refused("backend={name: tensorrt-llm}", "gpu=gb10")
    assert error.why.endswith("tensorrt-rtx can serve this GPU")
    assert error.fix == "backend: tensorrt-rtx"


@pytest.mark.parametrize(
    ("overrides", "place", "got", "fix"),
    [
        (("gpu=l4",), "--set gpu.name", "onnxruntime for l4", "gpu: cpu, or backend: tensorrt-rtx"),
        (("backend=tensorrt-rtx",), "r.yaml:6 gpu.name", "tensorrt-rtx for cpu", "name a GPU"),
        (("gpu=jetson-agx-orin-64gb", "backend="), "--set gpu.name",
         "no back end of this version builds for jetson-agx-orin-64gb (SM 8.7)",
         "backend: tensorrt-rtx with a GPU of SM 7.5"),
        ((*RTX, "backend.compute_capabilities=[8.9, 9.0]"), "--set backend.compute_capabilities[1]",
         "tensorrt-rtx for SM 9.0", "remove it"),
        ((*RTX, "backend.compute_capabilities=[8.6]"), "--set backend.compute_capabilities",
         "SM 8.6 for rtx-4090, which has SM 8.9", 'add "8.9"'),
        ((*RTX, "backend.compute_capabilities=[]"), "--set backend.compute_capabilities",
         "SM (none) for rtx-4090, which has SM 8.9", 'add "8.9"'),
    ],
)  # fmt: skip
def test_gpus_that_the_back_end_does_not_run_on(overrides, place: str, got: str, fix: str) -> None:
    error = refused(*overrides)
    assert (error.code, error.place, error.got) == ("SPC303", place, got)
    assert error.fix.startswith(fix)


@pytest.mark.parametrize(
    ("context", "overrides", "place", "got", "fix"),
    [
        (512, (), "r.yaml:8 limits.max_input", "max_input 1024 is above the model's context of 512 tokens",
         "max_input: 256"),
        (8, ("limits.max_input=4",), "r.yaml:5 gamma.max", "gamma 8 with a max_length of 8", "gamma: 7 or less"),
    ],
)  # fmt: skip
def test_limits_that_do_not_fit_the_model(context: int, overrides, place: str, got: str, fix: str) -> None:
    source = StatedSource(facts=dataclasses.replace(SMOLLM2_FACTS, max_position_embeddings=context))
    error = refused(*overrides, source=source)
    assert (error.code, error.place, error.got, error.fix) == ("SPC304", place, got, fix)


def test_a_plan_larger_than_the_gpu() -> None:
    facts = dataclasses.replace(
        SMOLLM2_FACTS, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
        num_key_value_heads=8, head_dim=128, vocab_size=128256, emitted_vocab_size=128256, tie_word_embeddings=False,
    )  # fmt: skip
    error = refused(*RTX, source=StatedSource(facts=facts))
    assert (error.code, error.place) == ("SPC305", "--set gpu.name")
    assert error.got.startswith("145.7 GB are needed, most of them for weights: mlp (112.7 GB)")
    assert error.why == "rtx-4090 has 24 GB"
    assert error.fix == "a smaller model: no change of the recipe makes this one fit a GPU of the catalog"


@pytest.mark.parametrize(
    ("overrides", "got", "why", "fix"),
    [
        (
            RTX,
            "caches of {} on tensorrt-rtx, under f16",
            "must have type Float, Half, or BFloat16",
            "kv_cache: f16, or",
        ),
        (
            ("gpu=h100-sxm-80gb", "backend=tensorrt", "target.scheme=bf16"),
            "caches of {} on tensorrt, under bf16",
            "its graphs are those of tensorrt-rtx",
            "kv_cache: bf16, or remove it",
        ),
    ],
)
@pytest.mark.parametrize("cache", ["fp8", "int8"])
def test_caches_of_8_bits_are_refused_by_name(overrides, cache: str, got: str, why: str, fix: str) -> None:
    error = refused(*overrides, f"target.kv_cache={cache}")
    assert (error.code, error.place.split(" ")[1]) == ("SPC302", "target.kv_cache")
    assert error.got.startswith(got.format(cache))
    assert why in error.why
    assert error.fix.startswith(fix)


@pytest.mark.parametrize(
    ("cache", "got", "why", "fix"),
    [
        (
            "fp8",
            "caches of fp8 on onnxruntime, under f32",
            "reads keys and values as f32 or int8",
            "kv_cache: f32 or int8",
        ),
        ("int8", "caches of int8 for this target", "graphs of floats stay", "remove kv_cache: caches are then f32, or"),
    ],
)
def test_on_cpus_caches_of_8_bits_are_int8_beside_quantized_weights(cache: str, got: str, why: str, fix: str) -> None:
    error = refused(f"target.kv_cache={cache}")
    assert (error.code, error.place.split(" ")[1]) == ("SPC302", "target.kv_cache")
    assert error.got.startswith(got)
    assert why in error.why
    assert error.fix.startswith(fix)


@pytest.mark.parametrize(
    ("gpu", "cache", "got", "why"),
    [
        (
            "a100-sxm-80gb",
            "fp8",
            "caches of fp8 for SM 8.0",
            "tensorrt-llm keeps them on SM 8.9, 9.0, 10.0, 10.3, 12.0",
        ),
        ("h100-sxm-80gb", "int8", "caches of int8 on tensorrt-llm", "switches paged-context attention off"),
    ],
)
def test_caches_that_tensorrt_llm_does_not_keep(gpu: str, cache: str, got: str, why: str) -> None:
    error = refused(f"gpu={gpu}", "backend=tensorrt-llm", "target.scheme=bf16", f"target.kv_cache={cache}")
    assert (error.code, error.place.split(" ")[1]) == ("SPC302", "target.kv_cache")
    assert error.got.startswith(got)
    assert why in error.why
