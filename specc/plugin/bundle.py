"""The kernel bundle: a folder a GPU, with kernels.json and a PTX file a kernel. Read without Triton, torch or a GPU."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.digests import key_from_parts
from specc.bundle.failures import coded_failures
from specc.bundle.record import record_from_file
from specc.errors import SpeccError
from specc.plugin.operators import OPERATORS, OperatorRow
from specc.plugin.ptx import POINTER, SCALAR, PtxHeader, header_from_ptx
from specc.plugin.targets import MOST_SHARED_BYTES, KernelTarget, target_from_capability
from specc.plugin.variants import KernelVariant, source_hash

KERNELS_FILE: Final = "kernels.json"
KERNELS_SCHEMA: Final = 1
_REBUILD: Final = "Build it again: specc kernels build --sm {} --out DIR"


@dataclass(frozen=True)
class KernelSpec:
    """One compiled kernel.

    Attributes:
        operator, dtype, aligned: of the variant.
        file: of PTX, beside kernels.json.
        sha256: of the file.
        entry: name of the kernel in it.
        parameters: kinds of its parameters, in order: what TensorRT passes, no more.
        num_warps: of a block; 32 threads each.
        shared_bytes: dynamic shared memory of a block.
        registers, spill_bytes: of a thread, as the assembler says.
    """

    operator: str
    dtype: str
    aligned: bool
    file: str
    sha256: str
    entry: str
    parameters: tuple[str, ...]
    num_warps: int
    shared_bytes: int
    registers: int
    spill_bytes: int


@dataclass(frozen=True)
class KernelManifest:
    """The whole of kernels.json.

    Attributes:
        source: hash of the kernels' source and of how they are compiled.
        triton: version of the compiler.
        compute_capability, target, ptx_version: what the PTX is for.
        kernels: in the order of their names.
    """

    schema: int
    source: str
    triton: str
    compute_capability: str
    target: str
    ptx_version: int
    kernels: tuple[KernelSpec, ...]


@dataclass(frozen=True)
class Kernel:
    """A kernel that may be handed to TensorRT: its specification and its verified text."""

    spec: KernelSpec
    ptx: str


class KernelBundle:
    """Kernels of one GPU.

    Args:
        folder: of the whole bundle; it has a folder for each compute capability.
        compute_capability: of the GPU, as `9.0`.

    Raises:
        SpeccError: SPC530 there are no kernels for this GPU; SPC531 kernels.json is missing or of another source.
    """

    def __init__(self, folder: Path, compute_capability: str) -> None:
        self.target: Final[KernelTarget] = target_from_capability(compute_capability)
        self.folder: Final = folder / compute_capability
        file = self.folder / KERNELS_FILE
        try:
            self.manifest: Final = record_from_file(KernelManifest, file)
        except SpeccError as error:
            raise self._refused(file, error.got) from error
        wanted = KERNELS_SCHEMA, source_hash(), compute_capability
        if (self.manifest.schema, self.manifest.source, self.manifest.compute_capability) != wanted:
            raise self._refused(
                file,
                f"It is of schema {self.manifest.schema}, source {self.manifest.source[:12]} and SM "
                f"{self.manifest.compute_capability}; wanted are {wanted[0]}, {wanted[1][:12]} and {wanted[2]}.",
            )

    def kernel(self, variant: KernelVariant) -> Kernel:
        """Return a kernel, read and checked.

        Raises:
            SpeccError: SPC531 it is not in the bundle, or its file is not the one that was built.
        """
        wanted = variant.operator, variant.dtype, variant.aligned
        spec = next((k for k in self.manifest.kernels if (k.operator, k.dtype, k.aligned) == wanted), None)
        if spec is None:
            has = ", ".join(k.file.removesuffix(".ptx") for k in self.manifest.kernels)
            raise self._refused(self.folder, f"It lacks {variant.name}; it has {has}.")
        path = self.folder / spec.file
        with coded_failures(path):
            content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != spec.sha256:
            raise self._refused(path, "Its content is not what kernels.json says.")
        text = content.decode("utf-8", errors="replace")
        problem = self._problem(spec, header_from_ptx(text))
        if problem is not None:
            raise self._refused(path, problem)
        return Kernel(spec, text)

    def digest(self, variants: tuple[KernelVariant, ...]) -> str:
        """Return the hash of these kernels, each read and checked; what else is in the bundle does not matter.

        Raises:
            SpeccError: SPC531 as `kernel`.
        """
        files = {variant.name: self.kernel(variant).spec.sha256 for variant in variants}
        return key_from_parts({"compute_capability": self.target.compute_capability, "kernels": files})

    def _problem(self, spec: KernelSpec, header: PtxHeader | None) -> str | None:
        row = OPERATORS[spec.operator]
        expected = PtxHeader(
            row.kernel, parameters_of_row(row), self.target.ptx_version, self.target.target, 32 * row.num_warps
        )
        if header != expected:
            return f"It holds {header}; wanted is {expected}."
        if spec.parameters != expected.parameters or spec.num_warps != row.num_warps or spec.entry != row.kernel:
            return "kernels.json describes another kernel."
        if spec.shared_bytes >= MOST_SHARED_BYTES:
            return f"It wants {spec.shared_bytes} bytes of shared memory; {MOST_SHARED_BYTES} are not reached."
        return None

    def _refused(self, place: Path, got: str) -> SpeccError:
        return SpeccError(
            "SPC531",
            str(place),
            got,
            "TensorRT would build another program, or none, into the engine.",
            _REBUILD.format(self.target.compute_capability),
        )


def parameters_of_row(row: OperatorRow) -> tuple[str, ...]:
    """Return the kinds of a kernel's parameters, in order: what TensorRT passes."""
    return (POINTER,) * len(row.inputs) + (SCALAR,) * len(row.scalars) + (POINTER,) * len(row.outputs)
