"""What is checked of a parsed network: mutants that the parser accepts without a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from specc.backends.tensorrt_build import collecting_logger
from specc.backends.tensorrt_network import check_network, network_from_file
from specc.errors import SpeccBug
from specc.lower.lowered import LoweredGraph
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.progress import silent
from tests.tensorrt_double import rtx_plan, rtx_profiles
from tests.tiny_engines import EMITTED, plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

SIZES = TinyLlama(num_hidden_layers=1, stored="f16")


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LoweredGraph]:
    folder = tmp_path_factory.mktemp("network")
    source = source_from_sizes(folder / "source", SIZES)
    graph = tiny_graph_plan(compute_dtype="f16", acceptance="greedy", capacity_buckets=(64,), features=("logits",))
    plan = rtx_plan(plan_from_facts(source.facts, graph), rtx_profiles(4, 32, 4))
    result = lowered_from_plan(plan, source, folder, silent)
    return folder, result.graphs[0]


def check(
    path: Path, graph: LoweredGraph, vocab_sizes: tuple[int, ...] = (SIZES.vocab_size, EMITTED), plugins: int = 0
) -> None:
    import tensorrt_rtx as trt

    logger = collecting_logger(trt)
    builder: Any = trt.Builder(logger)
    network = network_from_file(trt, builder, logger, path, "docs")
    check_network(trt, network, graph, vocab_sizes, plugins=plugins)


def mutant(path: Path, change: Callable[[onnx.ModelProto], None]) -> Path:
    """Write a changed copy beside the graph, so that its external data is found."""
    model = onnx.load(path, load_external_data=False)
    change(model)
    changed = path.with_name("mutant.onnx")
    onnx.save(model, changed)
    return changed


def node_of(model: onnx.ModelProto, op_type: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == op_type)


def test_the_lowered_graph_passes(lowered: tuple[Path, LoweredGraph]) -> None:
    folder, graph = lowered
    check(folder / graph.file, graph)


def test_operators_of_specc_that_are_not_there_are_missed(lowered: tuple[Path, LoweredGraph]) -> None:
    folder, graph = lowered
    with pytest.raises(SpeccBug, match="has 3 operators of specc, its network 0"):
        check(folder / graph.file, graph, plugins=3)


def test_a_causal_attention_that_lost_its_lengths_is_refused(lowered: tuple[Path, LoweredGraph]) -> None:
    """The parser drops `nonpad_kv_seqlen`, input 6, and says nothing; the engine would look at the wrong rows."""
    folder, graph = lowered

    def causal(model: onnx.ModelProto) -> None:
        node = node_of(model, "Attention")
        kept = list(node.input[:3])
        del node.input[:]
        node.input.extend([*kept, "", "", "", "past_lengths"])
        node.attribute.append(helper.make_attribute("is_causal", 1))

    with pytest.raises(SpeccBug, match=r"model\.layers\.0\.self_attn\.attention.* has lost its mask"):
        check(mutant(folder / graph.file, causal), graph)


def test_a_cache_that_is_copied_is_refused(lowered: tuple[Path, LoweredGraph]) -> None:
    folder, graph = lowered

    def concatenated(model: onnx.ModelProto) -> None:
        node = node_of(model, "TensorScatter")
        node.op_type = "Identity"
        del node.input[1:]
        del node.attribute[:]

    with pytest.raises(SpeccBug, match="has 2 caches, its network 1 cache updates and 1 attentions"):
        check(mutant(folder / graph.file, concatenated), graph)


def test_an_output_of_the_vocabularys_size_is_refused(lowered: tuple[Path, LoweredGraph]) -> None:
    folder, graph = lowered

    def renamed(model: onnx.ModelProto) -> None:
        next(output for output in model.graph.output if output.name == "logits").name = "scores"
        model.graph.node.append(helper.make_node("Identity", ["logits"], ["scores"], name="scores"))

    path = mutant(folder / graph.file, renamed)
    outputs = tuple(replace(t, name="scores") if t.name == "logits" else t for t in graph.outputs)
    with pytest.raises(SpeccBug, match=rf"output scores has the vocabulary in its shape \(-1, -1, {EMITTED}\)"):
        check(path, replace(graph, outputs=outputs))
    with pytest.raises(SpeccBug, match="outputs of the network and of the ABI differ: logits, scores"):
        check(path, graph)


def test_another_dtype_or_shape_is_refused(lowered: tuple[Path, LoweredGraph]) -> None:
    folder, graph = lowered
    inputs = tuple(replace(t, dtype="i32") if t.name == "num_draft" else t for t in graph.inputs)
    with pytest.raises(SpeccBug, match=r"num_draft is DataType\.INT64"):
        check(folder / graph.file, replace(graph, inputs=inputs))
    caches = tuple(replace(t, shape=("B", 2, 65, 16)) if t.name == "value_cache_0" else t for t in graph.inputs)
    with pytest.raises(SpeccBug, match=r"value_cache_0 is .* \(-1, 2, 64, 16\) in the network, f16 \(-1, 2, 65, 16\)"):
        check(folder / graph.file, replace(graph, inputs=caches))
