from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.inliner import inline_local_functions

from specc.graph.decoder import target_graph
from specc.graph.interface import target_interface
from tests.tiny_engines import EMITTED, facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama, tensors_from_sizes

SIZES = TinyLlama()
FACTS = facts_from_sizes(SIZES)


def with_data(model: ir.Model, sizes: TinyLlama) -> onnx.ModelProto:
    tensors = tensors_from_sizes(sizes)
    for name, value in model.graph.initializers.items():
        if value.const_value is None:
            assert value.dtype is not None
            value.const_value = ir.tensor(tensors[name].astype(value.dtype.numpy()), dtype=value.dtype, name=name)
    return ir.to_proto(model)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("acceptance", ["greedy", "coupled"])
def test_onnx_checks_the_graph_and_infers_its_outputs(dtype: str, acceptance: str) -> None:
    plan = tiny_graph_plan(compute_dtype=dtype, acceptance=acceptance, features=("token_logprobs",))
    model = target_graph(FACTS, plan, "logits")
    proto = with_data(model, SIZES)
    onnx.checker.check_model(proto, full_check=True)
    for value in proto.graph.output:
        value.ClearField("type")
    inferred = onnx.shape_inference.infer_shapes(inline_local_functions(proto), strict_mode=True)
    types = {value.name: value.type.tensor_type for value in inferred.graph.output}
    for spec in target_interface(FACTS, plan, "logits").outputs:
        assert len(types[spec.name].shape.dim) == len(spec.shape), spec.name
    assert types["logits"].elem_type == onnx.TensorProto.FLOAT
    assert types["logits"].shape.dim[2].dim_value == EMITTED


def test_weights_have_canonical_names_and_layout_and_no_data() -> None:
    model = target_graph(FACTS, tiny_graph_plan(), "main")
    declared = {name: tuple(value.shape.numpy()) for name, value in model.graph.initializers.items() if value.shape}
    expected = {name: tensor.shape for name, tensor in tensors_from_sizes(SIZES).items()}
    tables = {"rotary.cos": (544, 8), "rotary.sin": (544, 8)}
    assert declared == expected | tables
    assert {name for name, value in model.graph.initializers.items() if value.const_value is not None} == set(tables)


def test_a_tied_model_has_no_head_tensor_and_biases_are_declared_where_the_facts_say() -> None:
    facts = replace(FACTS, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)
    names = set(target_graph(facts, tiny_graph_plan(), "main").graph.initializers)
    assert "lm_head.weight" not in names
    biases = {name for name in names if name.endswith(".bias")}
    assert {name.removeprefix("model.layers.0.") for name in biases if ".0." in name} == {
        "self_attn.q_proj.bias",
        "self_attn.k_proj.bias",
        "self_attn.v_proj.bias",
        "mlp.gate_proj.bias",
        "mlp.up_proj.bias",
        "mlp.down_proj.bias",
    }


def test_operators_that_back_ends_fuse_are_used_and_the_traps_are_not() -> None:
    model = target_graph(FACTS, tiny_graph_plan(), "main")
    counts = Counter(node.op_type for node in model.graph)
    layers = FACTS.num_hidden_layers
    assert counts["Attention"] == layers
    assert counts["TensorScatter"] == 2 * layers
    assert counts["RotaryEmbedding"] == 2 * layers
    assert counts["RMSNormalization"] == 2 * layers + 1
    assert counts["LessOrEqual"] == 1, "the mask is made once"
    masks = {node.inputs[3] for node in model.graph if node.op_type == "Attention"}
    assert len(masks) == 1
    for node in model.graph:
        if node.op_type == "Attention":
            assert len(node.inputs) == 4
            assert "is_causal" not in node.attributes
        if node.op_type == "TensorScatter":
            assert node.inputs[0] is not None
            assert node.inputs[0].is_graph_input()
            assert node.outputs[0].is_graph_output()


def test_weights_are_transposed_outside_of_the_bodies_that_use_them() -> None:
    """ONNX Runtime keeps what it folds inside a body beside the form that it packs it into."""
    model = target_graph(FACTS, tiny_graph_plan(early_layers=1), "main")
    weights = [value for name, value in model.graph.initializers.items() if name.endswith("proj.weight")]
    users = [usage.node for weight in weights for usage in weight.uses()]
    assert len(users) == 7 * FACTS.num_hidden_layers
    assert {(user.op_type, user.graph) for user in users} == {("Transpose", model.graph)}
    products = [usage.node.graph for user in users for usage in user.outputs[0].uses()]
    assert len(set(products)) == 2, "the second layer stands in a body"


def test_node_names_are_unique_and_say_where_they_belong() -> None:
    model = target_graph(FACTS, tiny_graph_plan(), "main")
    names = [node.name for node in model.graph]
    assert len(set(names)) == len(names)
    assert "model.layers.1.self_attn.q_proj" in names
    assert not [name for name in names if not name]


def test_the_head_meets_only_the_asked_rows_and_only_the_tokenizers_ids() -> None:
    model = target_graph(FACTS, tiny_graph_plan(), "main")
    (slice_node,) = [node for node in model.graph if node.op_type == "Slice"]
    assert slice_node.inputs[2] is not None
    end = slice_node.inputs[2].producer()
    assert end is not None
    np.testing.assert_array_equal(end.attributes["value"].as_tensor().numpy(), [EMITTED])
    whole = target_graph(replace(FACTS, vocab_size=EMITTED), tiny_graph_plan(), "main")
    assert not [node for node in whole.graph if node.op_type == "Slice"]
    gather = next(node for node in model.graph if node.op_type == "GatherND")
    assert gather.inputs[0] is not None
    assert gather.inputs[0].name == "model.layers.1.after_mlp"
