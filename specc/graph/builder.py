"""A small authoring layer over onnx-ir: nodes in order, readable unique names, constants made once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from specc.bundle.manifest import Dimension, TensorDtype

OPSET: Final = 24
# The oldest IR version that may carry opset 24's dtypes and functions; the newest is not read by every parser.
IR_VERSION: Final = 11
DOMAIN: Final = "specc"

WeightDtype: TypeAlias = TensorDtype | Literal["i4", "u8", "f8e4m3", "f4e2m1"]
"""Element types of initializers; those beyond an engine's inputs and outputs are of quantized weights."""

DATA_TYPES: Final[dict[WeightDtype, ir.DataType]] = {
    "f32": ir.DataType.FLOAT,
    "f16": ir.DataType.FLOAT16,
    "bf16": ir.DataType.BFLOAT16,
    "i64": ir.DataType.INT64,
    "i32": ir.DataType.INT32,
    "bool": ir.DataType.BOOL,
    "i4": ir.DataType.INT4,
    "u8": ir.DataType.UINT8,
    "i8": ir.DataType.INT8,
    "f8e4m3": ir.DataType.FLOAT8E4M3FN,
    "f4e2m1": ir.DataType.FLOAT4E2M1,
}

Attribute: TypeAlias = int | float | str | Sequence[int] | ir.DataType | ir.Graph


class Builder:
    """Collects the nodes of one graph, function body or branch, in the order they are written.

    Attributes:
        main: what the outermost graph is written with, to which initializers belong: this builder, unless a branch's.
    """

    def __init__(self) -> None:
        self.main: Builder = self
        self.nodes: list[ir.Node] = []
        self.initializers: dict[str, ir.Value] = {}
        self._scope: list[str] = []
        self._taken: dict[str, int] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix the names made inside with `name` and a dot."""
        self._scope.append(name)
        try:
            yield
        finally:
            self._scope.pop()

    def branch(self) -> Builder:
        """Return a builder for a subgraph that may use this one's values; its names stay unique beside this one's."""
        inner = Builder()
        inner.main = self.main
        inner._scope = list(self._scope)
        inner._taken = self._taken
        inner.initializers = self.initializers  # all of them belong to the main graph
        return inner

    def op(
        self, op_type: str, *inputs: ir.Value | None, name: str = "", domain: str = "", **attributes: Attribute
    ) -> ir.Value:
        """Append a node with one output and return that output.

        Args:
            op_type: operator of `domain`.
            inputs: values; None for an optional input left out.
            name: last part of the node's and the output's name; the operator's, in lower case, by default.
            domain: the ONNX domain by default.
            attributes: of the operator.
        """
        return self.ops(op_type, *inputs, outputs=(name or op_type.lower(),), domain=domain, **attributes)[0]

    def ops(
        self, op_type: str, *inputs: ir.Value | None, outputs: Sequence[str], domain: str = "", **attributes: Attribute
    ) -> tuple[ir.Value, ...]:
        """Append a node and return its outputs, named as `outputs` says."""
        names = [self._unique(output) for output in outputs]
        node = ir.node(op_type, inputs, attributes, domain=domain, num_outputs=len(names), name=names[0])
        for value, value_name in zip(node.outputs, names, strict=True):
            value.name = value_name
        self.nodes.append(node)
        return tuple(node.outputs)

    def constant(self, value: npt.NDArray[Any], name: str = "constant") -> ir.Value:
        """Return a constant as a Constant node, made once for equal content; functions and branches may have those."""
        key = (str(value.dtype), value.shape, value.tobytes())
        if key not in self._constants:
            unique = self._unique(name)
            node = ir.node("Constant", [], {"value": ir.tensor(value, name=unique)}, name=unique)
            node.outputs[0].name = unique
            self.nodes.append(node)
            self._constants[key] = node.outputs[0]
        return self._constants[key]

    def column(self, row: ir.Value) -> ir.Value:
        """Return [B] as [B, 1]."""
        return self.op("Unsqueeze", row, self.i64(1), name="column")

    def cube(self, row: ir.Value) -> ir.Value:
        """Return [B] as [B, 1, 1]."""
        return self.op("Unsqueeze", row, self.i64(1, 2), name="cube")

    def i64(self, *values: int) -> ir.Value:
        """Return a constant int64 vector."""
        return self.constant(np.array(values, dtype=np.int64), "i64")

    def i64_scalar(self, value: int) -> ir.Value:
        """Return a constant int64 scalar."""
        return self.constant(np.array(value, dtype=np.int64), "i64")

    def f32(self, value: float) -> ir.Value:
        """Return a constant float32 scalar."""
        return self.constant(np.array(value, dtype=np.float32), "f32")

    def initializer(self, name: str, dtype: TensorDtype, shape: Sequence[int]) -> ir.Value:
        """Declare an initializer without data, once for a name; lowering binds it to bytes."""
        if name not in self.initializers:
            self.initializers[name] = declared(name, dtype, shape)
        return self.initializers[name]

    def table(self, name: str, value: npt.NDArray[Any], dtype: TensorDtype) -> ir.Value:
        """Return an initializer with data, converted to `dtype`."""
        if name not in self.initializers:
            item = declared(name, dtype, value.shape)
            item.const_value = ir.tensor(value.astype(DATA_TYPES[dtype].numpy()), dtype=DATA_TYPES[dtype], name=name)
            self.initializers[name] = item
        return self.initializers[name]

    def graph(self, name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.Graph:
        """Return the collected nodes as a graph."""
        return ir.Graph(
            inputs,
            outputs,
            nodes=self.nodes,
            initializers=(),
            opset_imports={"": OPSET, DOMAIN: 1},
            name=name,
        )

    def function(self, name: str, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> ir.Function:
        """Return the collected nodes as the model-local function `specc::name`."""
        return ir.Function(DOMAIN, name, graph=self.graph(name, inputs, outputs), attributes=())

    def _unique(self, name: str) -> str:
        full = ".".join((*self._scope, name))
        count = self._taken.get(full, 0)
        self._taken[full] = count + 1
        return full if count == 0 else f"{full}_{count}"


def declared(name: str, dtype: WeightDtype, shape: Sequence[Dimension]) -> ir.Value:
    """Return a named value of known dtype and shape: a graph input, a graph output or an initializer."""
    return ir.Value(name=name, type=ir.TensorType(DATA_TYPES[dtype]), shape=ir.Shape(shape))
