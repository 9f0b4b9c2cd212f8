from __future__ import annotations

import numpy as np
import onnx_ir as ir

from specc.graph.builder import Builder, declared


def test_names_are_scoped_and_unique_also_in_branches() -> None:
    builder = Builder()
    x = declared("x", "f32", ("B",))
    with builder.scope("outer"):
        first = builder.op("Neg", x, name="y")
        second = builder.op("Neg", x, name="y")
        inner = builder.branch()
        with inner.scope("then"):
            third = inner.op("Neg", x, name="y")
        fourth = inner.op("Neg", x, name="y")
    assert [value.name for value in (first, second, third, fourth)] == [
        "outer.y",
        "outer.y_1",
        "outer.then.y",
        "outer.y_2",
    ]
    assert [node.name for node in builder.nodes] == ["outer.y", "outer.y_1"]


def test_a_branch_of_a_branch_knows_the_builder_of_the_main_graph() -> None:
    builder = Builder()
    inner = builder.branch().branch()
    assert builder.main is builder
    assert inner.main is builder
    inner.main.op("Neg", declared("x", "f32", ("B",)))
    assert [len(one.nodes) for one in (builder, inner)] == [1, 0]


def test_a_constant_is_made_once_for_equal_dtype_shape_and_content() -> None:
    builder = Builder()
    one = builder.i64(1)
    assert builder.i64(1) is one
    assert builder.i64_scalar(1) is not one
    assert builder.constant(np.array([1], dtype=np.int32)) is not one
    assert builder.f32(1.0) is not builder.f32(2.0)
    assert len(builder.nodes) == 5


def test_an_initializer_is_declared_once_and_a_table_has_the_dtype_asked_for() -> None:
    builder = Builder()
    weight = builder.initializer("w", "f32", (2, 3))
    assert builder.initializer("w", "f32", (2, 3)) is weight
    assert weight.const_value is None
    table = builder.table("t", np.array([1.0, 2.0]), "bf16")
    assert table.dtype == ir.DataType.BFLOAT16
    assert table.const_value is not None
    assert table.const_value.numpy().astype(np.float32).tolist() == [1.0, 2.0]
