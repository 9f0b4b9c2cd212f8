"""The plugin's kernels in Triton's interpreter, chained as the plugin chains them, behind a session's `run`."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import torch
import triton

from specc.plugin.operators import CHAINS, DIGITS, OPERATORS, TENSORS, LogitsDtype, OperatorRow

torch.set_num_threads(1)
assert triton.knobs.runtime.interpret, "tests/conftest.py asks for the interpreter before Triton is imported"

TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32}
Arrays = dict[str, np.ndarray[Any, Any]]
PADDED = 60000.0
Tensors = dict[str, torch.Tensor]


class KernelChain:
    """A verification by the kernels.

    Args:
        mode: a key of CHAINS.
        dtype: of the logits, which `run` takes as float32 and rounds.
        candidates: of truncated sampling.
        padding: ids of the head beyond the vocabulary, with logits larger than any.
    """

    def __init__(self, mode: str, candidates: int, dtype: LogitsDtype = "f32", padding: int = 3) -> None:
        self.rows = [OPERATORS[name] for name in CHAINS[mode]]
        self.dtype, self.candidates, self.padding, self.programs = dtype, candidates, padding, 0

    def run(self, names: list[str], feeds: Arrays) -> list[np.ndarray[Any, Any]]:
        """Return outputs by name, as a session of ONNX Runtime does."""
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in feeds.items()}
        size = tensors["logits"].shape[2]
        logits = torch.nn.functional.pad(tensors["logits"], (0, self.padding), value=PADDED)
        tensors["logits"] = logits.to(TORCH[self.dtype])
        for row in self.rows:
            self.programs += launched(row, tensors, self.dtype, vocab_size=size, candidates=self.candidates)
        return [tensors[name].numpy() for name in names]


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
