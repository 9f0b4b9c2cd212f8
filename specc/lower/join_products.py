"""Pass: multiply one input by several quantized matrices of one format at once: q, k and v; gate and up.

    MatMul(x, Transpose(A)), MatMul(x, Transpose(B))  ->  Split(MatMul(x, Transpose(A+B)))

A+B is one matrix whose rows are A's, then B's, and is stored as such and nowhere else. A product rounds its input once,
and threads start and stop once. No sum has another order: results stay the same to the last bit. Matrices of floats
stay apart: they serve as external data where they lie in the source, in no order of ours.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, TypeAlias

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import Builder
from specc.lower.joined_names import joined_name, parent_of
from specc.lower.lowering_pass import LoweringPass
from specc.lower.take_place import take_place
from specc.plan.plan import GraphPlan, WeightRow

Key: TypeAlias = tuple[ir.Value, str, WeightRow]


def _apply(model: ir.Model, graph: GraphPlan) -> None:
    groups: dict[Key, list[ir.Node]] = defaultdict(list)
    for node in model.graph.all_nodes():
        weight = _multiplied(node)
        if weight is not None and not _has_bias(node):
            row = graph.weight_row(str(weight.name))
            if row is not None and node.inputs[0] is not None:
                groups[node.inputs[0], parent_of(str(weight.name)), row].append(node)
    for products in groups.values():
        if len(products) > 1:
            _join(model.graph, products)
    for name, value in list(model.graph.initializers.items()):
        if not value.uses():
            del model.graph.initializers[name]


def _multiplied(node: ir.Node) -> ir.Value | None:
    """Return the initializer W of MatMul(x, Transpose(W)); None of another node."""
    right = node.inputs[1] if node.op_type == "MatMul" else None
    transpose = None if right is None else right.producer()
    weight = None if transpose is None or transpose.op_type != "Transpose" else transpose.inputs[0]
    return weight if weight is not None and weight.is_initializer() else None


def _has_bias(product: ir.Node) -> bool:
    """Return whether a bias is added, which the back end would take into the product; it leaves it outside a Split."""
    users = [usage.node for usage in product.outputs[0].uses()]
    return any(
        user.op_type == "Add" and any(value is not None and value.is_initializer() for value in user.inputs)
        for user in users
    )


def _join(whole: ir.Graph, products: list[ir.Node]) -> None:
    owner = products[0].graph  # the model's, or the body of a conditional; weights and their transposes are the model's
    weights = [weight for weight in map(_multiplied, products) if weight is not None]
    shapes = [weight.shape.numpy() for weight in weights if weight.shape is not None]
    name, sizes = joined_name([str(weight.name) for weight in weights]), [int(shape[0]) for shape in shapes]
    if len(sizes) != len(products) or not isinstance(owner, ir.Graph):
        raise SpeccBug(f"{name}: each matrix must state its shape")
    if name not in whole.initializers:  # an unrolled graph multiplies by it in each step
        shape = ir.Shape((sum(sizes), int(shapes[0][1])))
        whole.initializers[name] = ir.Value(name=name, type=weights[0].type, shape=shape)
    outside, builder = Builder(), Builder()
    with outside.scope(f"{products[0].name}.joined"), builder.scope(f"{products[0].name}.joined"):
        transposed = outside.op("Transpose", whole.initializers[name], name="transposed", perm=[1, 0])
        product = builder.op("MatMul", products[0].inputs[0], transposed, name="product")
        names = [f"part_{index}" for index in range(len(sizes))]
        parts = builder.ops("Split", product, builder.i64(*sizes), outputs=names, axis=-1)
    whole.insert_before(whole[0], outside.nodes)
    owner.insert_before(products[0], builder.nodes)
    for old, part in zip(products, parts, strict=True):
        transpose = old.inputs[1].producer() if old.inputs[1] is not None else None
        take_place(part, old.outputs[0])
        owner.remove(old, safe=True)
        whole.remove([transpose] if transpose is not None else [], safe=True)


JOIN_PRODUCTS: Final = LoweringPass("join_products", ("canonical",), ("one product for matrices of one input",), _apply)
