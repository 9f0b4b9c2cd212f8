"""Mutants of a legal graph, each of which TensorRT would build into something that computes other numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import onnx_ir as ir
import pytest

from specc.errors import SpeccBug
from specc.graph.builder import DOMAIN
from specc.graph.decoder import target_graph
from specc.graph.drafters.unrolled import unrolled_graph
from specc.lower.check_tensorrt import CHECK_TENSORRT
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

STATIC = tiny_graph_plan(compute_dtype="f16", capacity=64, capacity_buckets=(64,))


def attentions(model: ir.Model) -> list[ir.Node]:
    return [node for node in model.graph if node.op_type == "Attention"]


def past_lengths(model: ir.Model) -> ir.Value:
    return next(value for value in model.graph.inputs if value.name == "past_lengths")


def causal_with_lengths(model: ir.Model) -> None:
    node = attentions(model)[1]
    node.resize_inputs(7)
    node.replace_input_with(3, None)
    node.replace_input_with(6, past_lengths(model))
    node.attributes.add(ir.AttrInt64("is_causal", 1))


def lengths_beside_the_mask(model: ir.Model) -> None:
    node = attentions(model)[0]
    node.resize_inputs(7)
    node.replace_input_with(6, past_lengths(model))


def no_mask(model: ir.Model) -> None:
    attentions(model)[0].replace_input_with(3, None)


def cache_renamed_on_the_way_out(model: ir.Model) -> None:
    index = next(i for i, value in enumerate(model.graph.outputs) if value.name == "key_cache_0_out")
    cache = model.graph.outputs[index]
    copy = ir.node("Identity", [cache], name="copy")
    copy.outputs[0].name = "copied"
    model.graph.append(copy)
    model.graph.outputs[index] = copy.outputs[0]


def cache_from_a_node(model: ir.Model) -> None:
    scatter = next(node for node in model.graph if node.op_type == "TensorScatter")
    cast = ir.node("Identity", [scatter.inputs[0]], name="before")
    model.graph.insert_before(scatter, cast)
    scatter.replace_input_with(0, cast.outputs[0])


def test_the_graph_as_it_is_written_is_legal() -> None:
    CHECK_TENSORRT.apply(target_graph(facts_from_sizes(TinyLlama()), STATIC, "main"), STATIC)


@pytest.mark.parametrize(
    ("mutate", "message"),
    [
        (causal_with_lengths, r"layers\.1\.self_attn\.attention: Attention with is_causal .* lose `nonpad_kv_seqlen`"),
        (lengths_beside_the_mask, r"layers\.0\.self_attn\.attention: .* would lose `nonpad_kv_seqlen`"),
        (no_mask, r"layers\.0\.self_attn\.attention: Attention without a mask"),
        (cache_renamed_on_the_way_out, r"layers\.0\.self_attn\.k_cache: TensorRT updates a cache in place only"),
        (cache_from_a_node, r"layers\.0\.self_attn\.k_cache: TensorRT updates a cache in place only"),
    ],
)
def test_mutants_are_refused_by_name(mutate: Callable[[ir.Model], None], message: str) -> None:
    model = target_graph(facts_from_sizes(TinyLlama()), STATIC, "main")
    mutate(model)
    with pytest.raises(SpeccBug, match=message):
        CHECK_TENSORRT.apply(model, STATIC)


def test_a_dynamic_capacity_is_refused() -> None:
    plan = tiny_graph_plan()
    with pytest.raises(SpeccBug, match="static capacity"):
        CHECK_TENSORRT.apply(target_graph(facts_from_sizes(TinyLlama()), plan, "main"), plan)


def unrolled() -> ir.Model:
    graph = replace(STATIC, role="draft", acceptance="greedy", steps=2)
    return unrolled_graph(facts_from_sizes(TinyLlama()), graph)


def test_an_unrolled_draft_is_legal() -> None:
    CHECK_TENSORRT.apply(unrolled(), STATIC)


def test_a_value_that_a_function_would_replace() -> None:
    model = unrolled()
    called = next(index for index, node in enumerate(model.graph) if node.domain == DOMAIN)
    later = [value for node in list(model.graph)[called:] for value in node.inputs if value is not None]
    value = next(value for value in later if value.name == "burst.cached_positions")
    inner = next(node.outputs[0].name for function in model.functions.values() for node in function)
    value.name = inner
    with pytest.raises(SpeccBug, match="is also a value of a function that was called before"):
        CHECK_TENSORRT.apply(model, STATIC)
