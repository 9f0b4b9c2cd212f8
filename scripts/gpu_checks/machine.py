"""What sections look at: the card, the kernels for it, and the sizes and the time that they may use.

Everything is made when a section first asks for it; what this machine lacks is `LackingError`, said in one sentence.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from gpu_checks.card_bundles import CardBundles, card_bundles
from gpu_checks.driver import Card, CudaDriver, cuda_driver
from gpu_checks.outcome import LackingError
from gpu_checks.products import Product, torch_product
from gpu_checks.scale import Scale
from specc.bundle.store import Store
from specc.catalog.capabilities import BackendName
from specc.errors import SpeccError
from specc.plugin.bundle import KERNELS_FILE, KernelBundle
from specc.plugin.bundle_from_source import place_kernels
from specc.plugin.compiled_from_variant import assembler_path
from specc.plugin.targets import KERNEL_TARGETS, KernelTarget, target_from_capability
from specc.plugin.variants import all_variants
from specc.progress import silent

# Environment variables would not tell which folder belongs to a run; `gpu_check.py` writes the choice here.
KERNELS_CHOICE: Final = "kernels.txt"
# What every card since Ampere runs.
PORTABLE: Final = "8.0"


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution, None where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def assembled(ptx: str, target: KernelTarget) -> bytes:
    """Return a kernel assembled for one GPU.

    Raises:
        LackingError: neither Triton nor a CUDA toolkit is here.
    """
    program = assembler_path(target) if importlib.util.find_spec("triton") else shutil.which("ptxas")
    if program is None:
        raise LackingError("no assembler: neither Triton nor ptxas of a CUDA toolkit is here")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "kernel.cubin"
        command = [str(program), f"--gpu-name={target.target}", "-o", str(out), "-"]
        subprocess.run(command, input=ptx, text=True, check=True, capture_output=True)
        return out.read_bytes()


@dataclass
class Machine:
    """A card and its software.

    Attributes:
        out: folder of the run.
        seconds: that the section may take.
        kernels: folder of kernels that were compiled elsewhere; None compiles them here, with Triton.
        scale: sizes.
        backend: whose engines the section runs; None where it runs none of a back end.
        new_driver: makes the driver.
        torch_device: where torch puts tensors.
        assemble: an assembled kernel from PTX text and its GPU.
        new_product: makes the product of matrices that a fused head is compared with.
        new_bundles: builds the bundles of the card and of the reference.
    """

    out: Path
    seconds: float
    kernels: Path | None = None
    scale: Scale = field(default_factory=Scale)
    backend: BackendName | None = None
    new_driver: Callable[[], CudaDriver] = cuda_driver
    torch_device: str = "cuda"
    assemble: Callable[[str, KernelTarget], bytes] = assembled
    new_product: Callable[[CudaDriver], Product] = torch_product
    new_bundles: Callable[[Path, BackendName, str, Path | None], CardBundles] = card_bundles
    _start: float = field(default_factory=time.monotonic)

    @cached_property
    def driver(self) -> CudaDriver:
        """The CUDA driver."""
        return self.new_driver()

    @cached_property
    def card(self) -> Card:
        """Facts of the card."""
        return self.driver.card()

    def card_bundles(self) -> CardBundles:
        """Return the bundles of the card and of the reference, built where they are not there.

        Raises:
            LackingError: nothing here builds or runs them.
        """
        assert self.backend is not None, "a section of engines has a back end"
        return self.new_bundles(self.out, self.backend, self.card.compute_capability, self.kernels)

    def product(self) -> Product:
        """Return the product of matrices.

        Raises:
            LackingError: nothing here makes it.
        """
        return self.new_product(self.driver)

    def left(self) -> float:
        """Return the seconds that the section still has."""
        return self.seconds - (time.monotonic() - self._start)

    def bundle(self, compute_capability: str | None = None) -> KernelBundle:
        """Return the kernels for a compute capability; None is the card's.

        Raises:
            LackingError: there are none for it, or nothing here compiles them.
        """
        sm = compute_capability or self.card.compute_capability
        if sm not in KERNEL_TARGETS:
            raise LackingError(f"the plugin has no kernels for SM {sm}")
        folder = self.kernels or self.out / "kernels"
        if self.kernels is None and not (folder / sm / KERNELS_FILE).is_file():
            try:
                with Store() as store:
                    place_kernels(target_from_capability(sm), all_variants(), folder, store, silent)
            except SpeccError as error:
                raise LackingError(f"no kernels: {error.got} --kernels takes some compiled elsewhere.") from error
        return KernelBundle(folder, sm)


def machine_here(out: Path, seconds: float, backend: BackendName | None = None) -> Machine:
    """Return this machine."""
    choice = out / KERNELS_CHOICE
    kernels = Path(choice.read_text(encoding="utf-8")) if choice.is_file() else None
    return Machine(out, seconds, kernels, backend=backend)
