"""One kernel from its source to assembled PTX, by Triton's compiler and no GPU. Runs in processes of its own."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from specc.errors import SpeccBug, SpeccError
from specc.plugin.bundle import parameters_of_row
from specc.plugin.operators import DIGITS, OPERATORS, TENSORS, ElementDtype, OperatorRow
from specc.plugin.ptx import header_from_ptx, without_hidden_parameters
from specc.plugin.targets import MOST_SHARED_BYTES, TRITON_VERSION, KernelTarget
from specc.plugin.variants import KernelVariant

_POINTERS: Final[dict[ElementDtype, str]] = {
    "f32": "*fp32",
    "f16": "*fp16",
    "bf16": "*bf16",
    "i64": "*i64",
    "i32": "*i32",
}
_DIVISIBLE: Final = [["tt.divisibility", 16]]
_REGISTERS: Final = re.compile(r"Used (\d+) registers")
_SPILLS: Final = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
# Set in the compiling process: line tables would name this machine's paths.
COMPILER_SETTINGS: Final = {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_INTERPRET": "0"}


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel.

    Attributes:
        ptx: its text, with exactly the parameters that TensorRT passes.
        shared_bytes: dynamic shared memory of a block.
        registers: of a thread.
        spill_bytes: stored and loaded by a thread because registers ran out.
    """

    ptx: str
    shared_bytes: int
    registers: int
    spill_bytes: int


def check_compiler() -> None:
    """Check that kernels can be compiled here.

    Raises:
        SpeccError: SPC532 Triton is not installed, or in another version.
    """
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version != TRITON_VERSION:
        raise SpeccError(
            "SPC532",
            "triton",
            f"Triton {version} is installed." if version else "The package `triton` is not installed.",
            f"Kernels are compiled with Triton {TRITON_VERSION} exactly: another version gives other code under the "
            "same name.",
            "pip install 'specc[kernels]' on this machine, or build with `--kernels DIR`, a folder that `specc kernels "
            "build` made elsewhere.",
        )


def compiled_from_variant(variant: KernelVariant, target: KernelTarget) -> CompiledKernel:
    """Compile a kernel.

    Raises:
        SpeccBug: it needs what TensorRT does not give: other parameters, more shared memory, several launches at once.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    row = OPERATORS[variant.operator]
    kernel = vars(importlib.import_module(f"specc.plugin.kernels.{row.kernel}"))[row.kernel]
    signature, constants, hints = _signature(row, variant, kernel.arg_names)
    compiled = triton.compile(
        ASTSource(kernel, signature=signature, constexprs=constants, attrs=hints),
        target=GPUTarget("cuda", target.number, 32),
        # No fused multiply-add: the oracle rounds each product.
        options={"num_warps": row.num_warps, "num_stages": 2, "ptx_version": target.ptx_version,
                 "enable_fp_fusion": False},
    )  # fmt: skip
    made = compiled.metadata
    scratch = made.global_scratch_size, made.profile_scratch_size
    if any(scratch) or made.num_ctas != 1 or made.shared >= MOST_SHARED_BYTES:
        raise SpeccBug(f"{variant.name} needs scratch {scratch}, {made.num_ctas} blocks, {made.shared} bytes shared")
    text = without_hidden_parameters(compiled.asm["ptx"], parameters_of_row(row))
    header = header_from_ptx(text)
    if header is None or (header.target, header.version) != (target.target, target.ptx_version):
        raise SpeccBug(f"{variant.name} was compiled for {header}, not for {target}")
    registers, spills = _assembled(text, target)
    return CompiledKernel(text, made.shared, registers, spills)


def assembler_path(target: KernelTarget) -> Path:
    """Return the assembler that comes with Triton; Triton itself is not imported."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        raise SpeccBug("Triton was there when its version was asked for")
    return Path(spec.origin).parent / "backends" / "nvidia" / "bin" / target.assembler


def _signature(row: OperatorRow, variant: KernelVariant, names: list[str]) -> tuple[Any, Any, Any]:
    """Return types by name, fixed values by place and alignment hints by place, as Triton wants them."""
    fixed: dict[str, int] = dict(row.constants)
    if variant.dtype != "any":
        fixed["DIGITS"] = DIGITS[variant.dtype]
    signature: dict[str, str] = {}
    constants: dict[tuple[int], int | None] = {}
    hints: dict[tuple[int], list[list[Any]]] = {}
    for place, name in enumerate(names):
        if name in (*row.inputs, *row.outputs):
            dtype = TENSORS[name].dtype or ("f32" if variant.dtype == "any" else variant.dtype)
            signature[name] = _POINTERS[dtype]
            hints[place,] = _DIVISIBLE  # TensorRT's buffers begin at multiples of 256 bytes
        elif name in row.scalars:
            signature[name] = "i32"
            if name in ("W", "H") and variant.aligned and variant.dtype != "any":
                hints[place,] = _DIVISIBLE
        else:
            signature[name] = "constexpr"
            constants[place,] = fixed.get(name, 0 if name.isupper() else None)
    return signature, constants, hints


def _assembled(text: str, target: KernelTarget) -> tuple[int, int]:
    """Return registers and spilled bytes of a thread.

    Raises:
        SpeccBug: the assembler refuses the text.
    """
    command = [str(assembler_path(target)), f"--gpu-name={target.target}", "--verbose", "-o", os.devnull, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    registers, spills = _REGISTERS.search(done.stderr), _SPILLS.search(done.stderr)
    if done.returncode != 0 or registers is None or spills is None:
        raise SpeccBug(f"the assembler refuses a kernel: {done.stderr.strip()[-2000:]}")
    return int(registers[1]), int(spills[1]) + int(spills[2])
