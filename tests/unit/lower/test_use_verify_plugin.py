from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from specc.catalog.capabilities import BACKENDS
from specc.errors import SpeccBug
from specc.graph.decoder import target_graph
from specc.graph.drafters.model import draft_graph
from specc.graph.drafters.unrolled import unrolled_graph
from specc.graph.verify import VERIFY_OUTPUTS, verify_graph
from specc.lower.bind_weights import tables_of
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.passes import apply_passes
from specc.plan.plan import BackendPlan, GraphPlan
from specc.plugin.layout import CANDIDATES
from specc.plugin.operators import CHAINS
from specc.plugin.variants import plugin_name
from specc.progress import silent
from specc.speculation.modes import TypicalSpec
from tests.quantized import rtx_rows
from tests.tiny_engines import facts_from_sizes, plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

# From the head's result to the logits of the call: its padding off, and to float32.
BETWEEN = ("emitted_logits", "logits_f32")
QUANTIZED = tuple(name for name, support in BACKENDS["tensorrt"].schemes.items() if support.formats)
FACTS = facts_from_sizes(TinyLlama())


def plan(mode: str, **changes: Any) -> GraphPlan:
    settings = {"acceptance": mode, "compute_dtype": "f16", "capacity": 64, "capacity_buckets": (64,)} | changes
    return replace(tiny_graph_plan(**settings), verification="plugin" if mode in CHAINS else "native")


def lowered(graph: GraphPlan, backend: str) -> ir.Model:
    model = target_graph(FACTS, graph, "main")
    apply_passes(model, graph, backend)
    return model


def rest_of(model: ir.Model) -> list[bytes]:
    """Return what is not verification: every other node as the file's bytes, inputs and outputs."""
    graph = ir.to_proto(model).graph
    nodes = [node for node in graph.node if node.domain != "specc" and node.name not in BETWEEN]
    return [item.SerializeToString(deterministic=True) for item in (*nodes, *graph.input, *graph.output)]


@pytest.mark.parametrize("scheme", ["f16", *QUANTIZED])
@pytest.mark.parametrize("mode", CHAINS)
def test_the_graph_for_tensorrt_is_that_for_rtx_but_for_the_verification(mode: str, scheme: str) -> None:
    graph = plan(mode, weights=() if scheme == "f16" else rtx_rows(scheme, 32))
    native, plugin = lowered(graph, "tensorrt-rtx"), lowered(graph, "tensorrt")
    assert rest_of(native) == rest_of(plugin)
    assert list(native.graph.initializers) == list(plugin.graph.initializers)
    assert all((tables_of(native)[name].tobytes() == table.tobytes()) for name, table in tables_of(plugin).items())
    ours = {
        backend: [n.op_type for n in m.graph if n.domain == "specc"]
        for backend, m in (("native", native), ("plugin", plugin))
    }
    assert ours == {"native": ["Verify"], "plugin": [plugin_name(name) for name in CHAINS[mode]]}  # type: ignore[index]
    assert native.functions
    assert not plugin.functions


@pytest.mark.parametrize("features", [(), ("token_logprobs",), ("logits", "token_logprobs")])
@pytest.mark.parametrize("mode", CHAINS)
def test_the_files_for_both_are_equal_but_for_the_verification(tmp_path: Path, mode: str, features: Any) -> None:
    """What a builder is handed: weights and tables byte by byte, and the graph as it was written."""
    graph = plan(mode, features=features, capacity_buckets=(64,), variants=("main",))
    source = source_from_sizes(tmp_path / "source", TinyLlama(stored="f16"))
    lowered = {}
    for backend in ("tensorrt-rtx", "tensorrt"):
        (tmp_path / backend).mkdir()
        of_backend = replace(plan_from_facts(source.facts, graph), backend=BackendPlan(backend, (), ("9.0",)))
        lowered[backend] = lowered_from_plan(of_backend, source, tmp_path / backend, silent)
    rtx, trt = lowered["tensorrt-rtx"], lowered["tensorrt"]
    assert (trt.graphs, trt.weight_files) == (rtx.graphs, rtx.weight_files)
    for file in trt.weight_files:
        assert (trt.folder / file).read_bytes() == (rtx.folder / file).read_bytes()
    graphs = [onnx.load(made.folder / "target.onnx", load_external_data=False).graph for made in (rtx, trt)]
    rests = [[n.SerializeToString() for n in g.node if n.domain != "specc" and n.name not in BETWEEN] for g in graphs]
    assert rests[0] == rests[1]
    for of in ("input", "output", "initializer"):
        assert [v.SerializeToString() for v in getattr(graphs[0], of)] == [
            v.SerializeToString() for v in getattr(graphs[1], of)
        ]


@pytest.mark.parametrize("variant", ["main", "unrolled"])
def test_a_drafts_graph_is_the_same_for_both(variant: str) -> None:
    graph = replace(plan("rejection"), role="draft", verification="native", max_logit_rows=1, steps=3)
    author = draft_graph if variant == "main" else unrolled_graph
    found = []
    for backend in ("tensorrt-rtx", "tensorrt"):
        model = author(FACTS, graph)
        apply_passes(model, graph, backend)
        found.append(ir.to_proto(model).SerializeToString(deterministic=True))
    assert found[0] == found[1]


@pytest.mark.parametrize("mode", CHAINS)
def test_the_chain_is_a_valid_graph(mode: str) -> None:
    graph = plan(mode, compute_dtype="f32")
    model = verify_graph(graph, 300)
    before = [(value.name, value.dtype, value.shape) for value in (*model.graph.inputs, *model.graph.outputs)]
    apply_passes(model, graph, "tensorrt")
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert [(value.name, value.dtype, value.shape) for value in (*model.graph.inputs, *model.graph.outputs)] == before


@pytest.mark.parametrize(("mode", "typical"), [("block", None), ("typical", TypicalSpec(0.09, 0.3))])
def test_other_modes_are_verified_natively(mode: str, typical: TypicalSpec | None) -> None:
    graph = plan(mode, typical=typical)
    native, other = (ir.to_proto(lowered(graph, backend)) for backend in ("tensorrt-rtx", "tensorrt"))
    assert native.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def test_a_node_says_how_the_parser_finds_the_plugin() -> None:
    graph = plan("coupled", candidates=50)
    nodes = {node.op_type: node for node in lowered(graph, "tensorrt").graph if node.domain}
    node = nodes[plugin_name("RowThresholds")]
    assert node.domain == "specc"
    assert {name: attribute.value for name, attribute in node.attributes.items()} == {
        "vocab_size": FACTS.emitted_vocab_size,
        "candidates": 50,
        "plugin_namespace": "specc",
        "plugin_version": "1",
        "aot": 1,
    }


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_kernels_read_the_heads_result_as_it_is(dtype: str) -> None:
    model = lowered(plan("greedy", compute_dtype=dtype), "tensorrt")
    partials = next(node for node in model.graph if node.op_type == plugin_name("GreedyPartials"))
    producer = partials.inputs[0].producer()  # type: ignore[union-attr]
    assert producer is not None
    assert producer.op_type == "MatMul"
    assert not [node for node in model.graph if node.name in BETWEEN]


@pytest.mark.parametrize("tied", [False, True])
def test_a_fused_head_takes_the_place_of_the_product(tied: bool) -> None:
    """Nothing else of the graph changes; the head is the initializer itself, also where it is the embedding."""
    facts, graph = facts_from_sizes(TinyLlama(tie_word_embeddings=tied)), plan("greedy", head="fused")
    models = {}
    for backend in ("tensorrt-rtx", "tensorrt"):
        models[backend] = target_graph(facts, graph, "main")
        apply_passes(models[backend], graph, backend)
    model = models["tensorrt"]
    first, second = (node for node in model.graph if node.domain)
    assert [first.op_type, second.op_type] == [plugin_name("GreedyHeadPartials"), plugin_name("GreedyAccept")]
    weight = "model.embed_tokens.weight" if tied else "lm_head.weight"
    assert first.inputs[1] is model.graph.initializers[weight]
    assert first.inputs[0].name == "model.norm"  # type: ignore[union-attr]
    assert list(second.inputs[:2]) == list(first.outputs)
    names = {backend: {node.name for node in found.graph} for backend, found in models.items()}
    head = weight.removesuffix(".weight")
    product = {f"head.{head}", f"head.{weight}.transposed"}
    assert names["tensorrt-rtx"] - names["tensorrt"] == {*BETWEEN, *product, VERIFY_OUTPUTS[0]}
    assert names["tensorrt"] - names["tensorrt-rtx"] == {"verify.GreedyHeadPartials", "verify.GreedyAccept"}


def test_a_head_that_is_not_alone_is_a_bug_of_the_plan() -> None:
    scales = replace(FACTS.scales, logits_scaling=8.0)
    graph = plan("greedy", head="fused")
    model = target_graph(replace(FACTS, scales=scales), graph, "main")
    with pytest.raises(SpeccBug, match="not the product of hidden states and the head alone"):
        apply_passes(model, graph, "tensorrt")


@pytest.mark.parametrize(
    ("dtype", "features"), [("f32", ("logits",)), ("f16", ("logits",)), ("f16", ("token_logprobs",))]
)
def test_logits_that_others_read_in_float32_stay(dtype: str, features: tuple[str, ...]) -> None:
    graph = plan("greedy", compute_dtype=dtype, features=features)
    native, model = lowered(graph, "tensorrt-rtx"), lowered(graph, "tensorrt")
    assert rest_of(native) == rest_of(model)
    kept = [[node.name for node in found.graph if node.name in BETWEEN] for found in (native, model)]
    assert kept[0] == kept[1] == list(BETWEEN[: 1 if dtype == "f32" else 2])


def test_what_the_kernels_cannot_do_is_a_bug_of_the_plan() -> None:
    for graph in (replace(plan("block"), verification="plugin"), plan("coupled", candidates=CANDIDATES + 1)):
        with pytest.raises(SpeccBug, match="nothing for the plugin"):
            lowered(graph, "tensorrt")
