"""Bundles of kernels without a compiler: texts with true headers that name the operator which a double runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specc.bundle.digests import sha256_from_text
from specc.bundle.record import text_from_record
from specc.plugin.bundle import KERNELS_FILE, KERNELS_SCHEMA, KernelManifest, KernelSpec, parameters_of_row
from specc.plugin.operators import OPERATORS
from specc.plugin.targets import KERNEL_TARGETS, TRITON_VERSION
from specc.plugin.variants import all_variants, source_hash

ASSEMBLED = b"\x7fELF"


def kernel_text(operator: str, dtype: str, target: str, version: int) -> str:
    """Return what stands for a kernel's text: a header that says what the true one says, and the operator's name."""
    row = OPERATORS[operator]
    parameters = ",\n".join(f"\t.param .{kind} p_{i}" for i, kind in enumerate(parameters_of_row(row)))
    return (
        f"// {operator} {dtype}\n.version {version // 10}.{version % 10}\n.target {target}\n"
        f".visible .entry {row.kernel}(\n{parameters}\n)\n.reqntid {32 * row.num_warps}\n{{ ret; }}\n"
    )


def fake_kernels(folder: Path, *compute_capabilities: str) -> Path:
    """Write kernel bundles whose texts the double runs."""
    for name in compute_capabilities:
        target = KERNEL_TARGETS[name]
        specs = []
        (folder / name).mkdir(parents=True)
        for variant in all_variants():
            row = OPERATORS[variant.operator]
            text = kernel_text(variant.operator, variant.dtype, target.target, target.ptx_version)
            (folder / name / f"{variant.name}.ptx").write_text(text)
            specs.append(
                KernelSpec(
                    variant.operator,
                    variant.dtype,
                    variant.aligned,
                    f"{variant.name}.ptx",
                    sha256_from_text(text),
                    row.kernel,
                    parameters_of_row(row),
                    row.num_warps,
                    1024,
                    64,
                    0,
                )
            )
        manifest = KernelManifest(
            KERNELS_SCHEMA, source_hash(), TRITON_VERSION, name, target.target, target.ptx_version, tuple(specs)
        )
        (folder / name / KERNELS_FILE).write_text(text_from_record(manifest))
    return folder


def fake_assembled(ptx: str, target: Any) -> bytes:
    """Return what stands for an assembled kernel."""
    return ASSEMBLED + ptx.encode() + b"\0"
