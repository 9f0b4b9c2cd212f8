"""Which matrices a recipe's schemes quantize, and how."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.tensor_set import shapes_from_facts
from specc.errors import SpeccError
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.recipe.schema import Recipe
from tests.stated_source import SMOLLM2_FACTS, StatedSource
from tests.tiny_engines import facts_from_sizes
from tests.tiny_models import TinyLlama
from tests.unit.plan.test_make import planned, with_facts

DOWN = "model.layers.3.mlp.down_proj.weight"
QUERY = "model.layers.0.self_attn.q_proj.weight"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
UNTIED = with_facts(tie_word_embeddings=False)


def formats(scheme: Any, source: StatedSource | None = None, **target: Any) -> dict[str, str]:
    """Return the elements of some weights, with their group size."""
    plan = planned(source, target={"model": "m", "scheme": scheme, **target})
    return {name: _words(plan, name) for name in (QUERY, DOWN, EMBEDDING, HEAD)}


def _words(plan: Plan, name: str) -> str:
    row = plan.graph.weight_row(name)
    return (
        "float" if row is None or row.format is None else f"{row.format.element} {row.format.group_size} {row.method}"
    )


def test_w4a16_has_a_head_of_8_bits_that_a_tied_embedding_shares() -> None:
    layer, head = "int4 32 mse", "int7 None rtn"
    assert formats("w4a16") == {QUERY: layer, DOWN: layer, EMBEDDING: head, HEAD: "float"}
    assert formats("w4a16", UNTIED) == {QUERY: layer, DOWN: layer, EMBEDDING: "float", HEAD: head}
    plan = planned(target={"model": "m", "scheme": "w4a16"})
    assert plan.graph.compute_dtype == "f32"
    assert [row.names for row in plan.graph.weights] == [EMBEDDING, "model.layers.*_proj.weight"]
    assert planned().graph.weights == ()


def test_the_recipe_may_state_groups_zero_points_and_the_method() -> None:
    stated = {"name": "w4a16", "group_size": 64, "zero_point": True, "method": "rtn"}
    assert formats(stated)[QUERY] == "uint4 64 rtn"
    assert formats({"name": "w8a16", "group_size": 64})[DOWN] == "int8 64 rtn"
    assert formats({"name": "w4a16", "zero_point": False})[QUERY] == "int4 32 mse"


def test_w8a8_rounds_activations_and_keeps_weights_to_seven_bits() -> None:
    assert formats("w8a8") == {QUERY: "int7 None rtn", DOWN: "int7 None rtn", EMBEDDING: "int7 None rtn", HEAD: "float"}
    plan = planned(target={"model": "m", "scheme": {"name": "w8a8", "method": "smoothquant"}})
    row = plan.graph.weight_row(QUERY)
    assert row is not None
    assert (row.activations, row.method, row.format.bits) == ("int8", "smoothquant", 8.0)
    assert any("In products of w8a8 a token's activations are one block" in note for note in plan.notes)
    assert not any("w8a8" in note for note in planned(target={"model": "m", "scheme": "w8a16"}).notes)
    for other in ("w4a16", "w8a16"):
        assert formats(other, overrides={"head": "w8a8"})[EMBEDDING] == "int7 None rtn"
    with pytest.raises(SpeccError, match="symmetric codes and floats only"):
        formats("w8a8", overrides={"head": {"name": "w4a16", "zero_point": True}})


@pytest.mark.parametrize(("scheme", "kept"), [("w4a16", 64), ("w8a8", 64), ("w8a16", 64)])
def test_a_head_that_the_checkpoint_stores_in_groups_of_8_bits_is_kept(scheme: str, kept: int) -> None:
    stored = WeightFormat("int8", "group", 64, zero_point=False, scale_dtype="f16")
    assert formats(scheme, StatedSource(quantized_formats={EMBEDDING: stored}))[EMBEDDING] == f"int8 {kept} rtn"
    other = WeightFormat("uint4", "group", 32, zero_point=True, scale_dtype="f16")
    head = "int8 32 rtn" if scheme == "w8a16" else "int7 None rtn"
    assert formats(scheme, StatedSource(quantized_formats={EMBEDDING: other}))[EMBEDDING] == head


def test_the_first_override_that_fits_holds() -> None:
    made = formats("w4a16", UNTIED, overrides={"model.layers.*.mlp.down_proj": "w8a16", "head": "f32"})
    assert made == {QUERY: "int4 32 mse", DOWN: "int8 32 rtn", EMBEDDING: "float", HEAD: "float"}
    made = formats("w4a16", overrides={"first_layer": {"name": "w8a16", "group_size": 64}, "last_layer": "f32"})
    assert (made[QUERY], made[DOWN]) == ("int8 64 rtn", "int4 32 mse")
    made = formats("f32", UNTIED, overrides={"embedding": "w8a16"})
    assert made == {QUERY: "float", DOWN: "float", EMBEDDING: "int8 32 rtn", HEAD: "float"}


def test_an_override_that_says_what_holds_anyway_is_one_row() -> None:
    plan = planned(target={"model": "m", "scheme": "w4a16", "overrides": {"head": "w8a8"}})
    assert plan.graph.weights == planned(target={"model": "m", "scheme": "w4a16"}).graph.weights


def test_a_draft_has_a_scheme_of_its_own() -> None:
    draft = {"kind": "model", "model": "d", "scheme": "w4a16"}
    source = StatedSource(uri="d", facts=dataclasses.replace(SMOLLM2_FACTS, num_hidden_layers=2))
    base = {"recipe": 1, "name": "x", "target": {"model": "m"}, "gpu": "cpu", "draft": draft}
    plan = plan_from_recipe(Recipe.model_validate(base), StatedSource(), source)
    assert plan.graph.weights == ()
    assert plan.draft_model is not None
    row = plan.draft_model.graph.weight_row(DOWN)
    assert row is not None
    assert row.format == WeightFormat("int4", "group", 32, zero_point=False)


@pytest.mark.parametrize(("scheme", "bits", "head"), [("w4a16", 5, 8), ("w8a16", 9, 9)])
def test_the_memory_table_counts_codes_and_scales(scheme: str, bits: int, head: int) -> None:
    plan = planned(target={"model": "m", "scheme": scheme})
    items = {item.name: item.bytes for item in plan.memory}
    facts = SMOLLM2_FACTS
    mlp = 3 * facts.intermediate_size * facts.hidden_size * facts.num_hidden_layers
    assert items["weights: mlp"] == mlp * bits // 8
    assert items["weights: embedding"] == facts.vocab_size * facts.hidden_size * head // 8


def test_the_smallest_format_that_keeps_the_checkpoints_codes_is_taken() -> None:
    stored = WeightFormat("int4", "group", 64, zero_point=False, scale_dtype="f16")
    layers = {name: stored for name, _ in shapes_from_facts(SMOLLM2_FACTS) if name.endswith("_proj.weight")}
    source = StatedSource(quantized_formats=layers)
    assert formats("w4a16", source)[DOWN] == "int4 64 mse"
    plan = planned(source, target={"model": "m", "scheme": "w4a16"})
    assert any(note.startswith("weights: 210 matrices keep the checkpoint's codes") for note in plan.notes)
    assert any(note.startswith("weights: 1 matrix is rounded from") for note in plan.notes)
    del layers[DOWN]
    assert formats("w4a16", source)[DOWN] == "int4 32 mse"


def test_a_plan_says_what_each_method_does_to_weights() -> None:
    """The typical error is that of rounding: gptq moves weights further, and never keeps a checkpoint's codes."""

    def notes(method: str, source: StatedSource | None = None) -> list[str]:
        plan = planned(source, target={"model": "m", "scheme": {"name": "w4a16", "group_size": 32, "method": method}})
        return [note for note in plan.notes if note.startswith("weights: ")]

    (both,) = notes("mse")
    assert both.startswith("weights: 211 matrices are rounded from ")
    assert "usually moves them by 1.6% and 9.5% of their size" in both
    head, body = notes("gptq")
    assert "1 matrix is rounded" in head
    assert "by 1.6% of their size" in head
    assert "210 matrices are rounded" in body
    assert "by gptq, which moves them further than rounding to nearest, so that outputs move less" in body
    assert "9.5%" not in head + body
    stored = WeightFormat("int4", "group", 32, zero_point=False)
    layers = {name: stored for name, _ in shapes_from_facts(SMOLLM2_FACTS) if name.endswith("_proj.weight")}
    kept = "weights: 210 matrices keep the checkpoint's codes"
    assert notes("mse", StatedSource(quantized_formats=layers))[0].startswith(kept)
    for method in ("awq", "gptq"):
        assert not any("keep" in note for note in notes(method, StatedSource(quantized_formats=layers)))


def test_one_method_that_looks_at_activations_is_enough() -> None:
    body = {"name": "w4a16", "method": "awq"}
    assert formats(body)[QUERY] == "int4 32 awq"
    with pytest.raises(SpeccError, match="SPC302") as caught:
        formats(body, overrides={"model.layers.*.mlp.down_proj": {"name": "w4a16", "method": "gptq"}})
    assert caught.value.got == "methods gptq and awq in one model"


NARROW = facts_from_sizes(TinyLlama(hidden_size=40, head_dim=16, max_position_embeddings=4096))


def test_what_an_override_has_taken_is_not_held_against_the_scheme() -> None:
    source = StatedSource(facts=NARROW)
    head = planned(source, target={"model": "m", "scheme": "w8a8"}).graph.weight_row(HEAD)
    assert head is not None
    assert head.scheme == "w8a8"
    stated: dict[str, Any] = {"model": "m", "scheme": "w4a16"}
    with pytest.raises(SpeccError, match="32 does not divide in_features 40") as refused:
        planned(source, target=stated)
    assert "q_proj: w8a8`" in refused.value.fix
    narrow = dict.fromkeys(("model.layers.*.self_attn.[qkv]_proj", "model.layers.*.mlp.[gu]*_proj"), "w8a8")
    plan = planned(source, target={**stated, "overrides": narrow})
    assert _words(plan, "model.layers.0.self_attn.o_proj.weight") == "int4 32 mse"
    assert _words(plan, QUERY) == "int7 None rtn"


def test_no_pattern_quantizes_norms_and_routers() -> None:
    plan = planned(target={"model": "m", "scheme": "w4a16", "overrides": {"model.*": "w8a16"}})
    assert plan.graph.weight_row(QUERY) is not None
    for name in ("model.norm.weight", "model.layers.0.input_layernorm.weight", "model.layers.0.mlp.gate.weight"):
        assert plan.graph.weight_row(name) is None
