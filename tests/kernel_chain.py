"""The plugin's kernels in Triton's interpreter, chained as the plugin chains them, behind a session's `run`."""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any, Literal

import numpy as np
import onnx_ir as ir
import torch
import triton

from specc.graph.builder import Builder, declared
from specc.graph.verify import verify_graph
from specc.lower.passes import apply_passes
from specc.plan.plan import GraphPlan
from specc.plugin.operators import DIGITS, OPERATORS, TENSORS, LogitsDtype, OperatorRow
from specc.plugin.variants import plugin_name
from tests.tiny_engines import tiny_graph_plan

torch.set_num_threads(1)
assert triton.knobs.runtime.interpret, "tests/conftest.py asks for the interpreter before Triton is imported"

TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32}
Arrays = dict[str, np.ndarray[Any, Any]]
PADDED = 60000.0
OPERATOR_OF = {plugin_name(name): name for name in OPERATORS}
Tensors = dict[str, torch.Tensor]


class KernelChain:
    """A verification by the kernels: the nodes of a lowered graph, in its order and over its values.

    Args:
        mode: a key of CHAINS.
        candidates: of truncated sampling.
        dtype: of the logits, which `run` takes as float32 and rounds.
        padding: ids of the head beyond the vocabulary, with logits larger than any.
        head: `fused` makes the logits from hidden states inside the first kernel.
    """

    def __init__(
        self,
        mode: str,
        candidates: int,
        dtype: LogitsDtype = "f32",
        *,
        padding: int = 3,
        head: Literal["native", "fused"] = "native",
    ) -> None:
        self.graph = tiny_graph_plan(
            acceptance=mode, candidates=candidates, compute_dtype=dtype, capacity=64, verification="plugin", head=head
        )
        self.padding, self.programs = padding, 0

    def run(self, names: list[str], feeds: Arrays) -> list[np.ndarray[Any, Any]]:
        """Return outputs by name, as a session of ONNX Runtime does."""
        values = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in feeds.items()}
        dtype, candidates, size = self.graph.compute_dtype, self.graph.candidates, values["logits"].shape[2]
        logits = torch.nn.functional.pad(values["logits"], (0, self.padding), value=PADDED).to(TORCH[dtype])
        values |= dict(zip(("hidden", "weight"), factors_of(logits), strict=True)) | {"logits": logits}
        for node in nodes_of(self.graph, size):
            row = OPERATORS[OPERATOR_OF[node.op_type]]
            given = {name: values[str(value.name)] for name, value in zip(row.inputs, node.inputs, strict=True)}
            constants = {"UPCAST": 1} if row.kernel == "lmhead_partials" else {}
            self.programs += launched(row, given, dtype, vocab_size=size, candidates=candidates, **constants)
            values |= {str(value.name): given[name] for name, value in zip(row.outputs, node.outputs, strict=True)}
        return [values[name].numpy() for name in names]


@functools.cache
def nodes_of(graph: GraphPlan, vocab_size: int) -> list[ir.Node]:
    """Return the plugin's nodes of a lowered verification whose logits are the product of `hidden` and `weight`."""
    model = verify_graph(graph, vocab_size)
    if graph.head == "fused":
        logits = next(value for value in model.graph.inputs if value.name == "logits")
        builder = Builder()
        hidden = declared("hidden", graph.compute_dtype, ("B", "R", "H"))
        weight = declared("weight", graph.compute_dtype, ("W", "H"))
        transposed = builder.op("Transpose", weight, name="transposed", perm=[1, 0])
        product = builder.op("MatMul", hidden, transposed, name="head")
        builder.op("Cast", product, name="made", to=ir.DataType.FLOAT)
        model.graph.insert_before(model.graph[0], builder.nodes)
        logits.replace_all_uses_with(builder.nodes[-1].outputs[0])
    apply_passes(model, graph, "tensorrt")
    return list(model.graph)


def factors_of(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return hidden states [B, R, H] and a head [W, H] whose product is exactly these logits: one state a row."""
    batch, rows, width = logits.shape
    hidden_size = -(-batch * rows // 16) * 16
    hidden = torch.eye(hidden_size)[: batch * rows].reshape(batch, rows, hidden_size).to(logits.dtype)
    weight = torch.zeros(width, hidden_size, dtype=logits.dtype)
    weight[:, : batch * rows] = logits.reshape(batch * rows, width).T
    return hidden, weight


def launched(
    row: OperatorRow, tensors: Tensors, dtype: LogitsDtype, *, vocab_size: int, candidates: int, **constants: Any
) -> int:
    """Run one operator, put its outputs beside its inputs, and return how many programs it had."""
    sizes = {"K": candidates, "V": vocab_size}
    for name in row.inputs:
        for letter, size in zip(row.shape_of(name), tensors[name].shape, strict=True):
            assert size == (letter if isinstance(letter, int) else sizes.setdefault(letter, size))
    tile = dict(row.constants).get("BLOCK_V", row.tile) if row.tile else 0
    if row.tile and "NT" not in sizes:
        sizes["NT"] = math.ceil(sizes["V"] / tile)
    sizes["ROWS"] = sizes["B"] * sizes.get("R", 1)
    sizes["ROW_BLOCKS"] = math.ceil(sizes["ROWS"] / 16)
    arguments: dict[str, Any] = {name: tensors[name] for name in row.inputs}
    for name in row.outputs:
        shape = tuple(size if isinstance(size, int) else sizes[size] for size in row.shape_of(name))
        arguments[name] = tensors[name] = torch.full(shape, 77, dtype=TORCH[TENSORS[name].dtype])
    arguments |= {name: sizes[name] for name in row.scalars} | dict(row.constants) | constants
    if row.kernel == "row_thresholds":
        arguments["DIGITS"] = DIGITS[dtype]
    kernel = getattr(importlib.import_module(f"specc.plugin.kernels.{row.kernel}"), row.kernel)
    for name in kernel.arg_names:
        arguments.setdefault(name, 0 if name.isupper() else None)
    grid = tuple(sizes[letter] for letter in row.grid)
    kernel[grid](**arguments)
    return math.prod(grid)
