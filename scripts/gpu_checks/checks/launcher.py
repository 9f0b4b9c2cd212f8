"""The kernels through Triton's own launcher and torch's memory: what is wrong here as well is the kernels' own."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np

from gpu_checks.launches import sizes_of_call
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding, LackingError
from gpu_checks.verification import MODES, Arrays, Call, agreement, random_call
from specc.graph.verify import VERIFY_OUTPUTS
from specc.plugin.operators import CHAINS, DIGITS, OPERATORS, TENSORS

# The modules torch and triton, and their objects.
Vendor: TypeAlias = Any
_TYPES: Final = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32"}


def check(machine: Machine) -> Iterator[Finding]:
    """Yield for each mode how many sequences differ from the oracle."""
    if machine.torch_device == "cuda":
        _ = machine.card  # without one there is nothing to launch on
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            raise LackingError(f"{name} is not installed")
    torch = importlib.import_module("torch")
    for mode in MODES:
        sizes = machine.scale.call(machine.scale.vocabularies[0])
        call = random_call(np.random.default_rng(6), mode, "bf16", sizes)
        found = agreement(call, results_of_launcher(torch, machine.torch_device, call))
        yield Finding(
            f"{mode}: sequences that differ", found.wrong, f"of {found.rows}", met=found.wrong == 0,
            note=f"{found.near} near",
        )  # fmt: skip


def results_of_launcher(torch: Vendor, device: str, call: Call) -> Arrays:
    """Return the outputs of a call, its chain launched by Triton."""
    tensors: dict[str, Vendor] = {
        name: torch.from_numpy(np.ascontiguousarray(value)).to(device) for name, value in call.inputs.items()
    }
    tensors["logits"] = torch.from_numpy(call.logits).to(device, vars(torch)[_TYPES[call.dtype]])
    for name in CHAINS[call.mode]:
        row = OPERATORS[name]
        shapes = {tensor: tuple(tensors[tensor].shape) for tensor in row.inputs}
        sizes = sizes_of_call(row, shapes, call.sizes.vocab_size, call.sizes.candidates)
        for output in row.outputs:
            shape = tuple(size if isinstance(size, int) else sizes[size] for size in row.shape_of(output))
            element = TENSORS[output].dtype
            assert element is not None
            tensors[output] = torch.full(shape, 77, dtype=vars(torch)[_TYPES[element]], device=device)
        given: dict[str, Vendor] = {tensor: tensors[tensor] for tensor in (*row.inputs, *row.outputs)}
        given |= {letter: sizes[letter] for letter in row.scalars} | dict(row.constants)
        if row.kernel == "row_thresholds":
            given["DIGITS"] = DIGITS[call.dtype]
        kernel = vars(importlib.import_module(f"specc.plugin.kernels.{row.kernel}"))[row.kernel]
        for argument in kernel.arg_names:
            given.setdefault(argument, 0 if argument.isupper() else None)
        # No fused multiply-add: the oracle rounds each product.
        options = {} if device == "cpu" else {"num_warps": row.num_warps, "enable_fp_fusion": False}
        kernel[tuple(sizes[letter] for letter in row.grid)](**given, **options)
    return {name: tensors[name].cpu().numpy() for name in VERIFY_OUTPUTS}
