"""Products of matrices on the card, by torch, over memory that the driver allocated."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Protocol, TypeAlias

from gpu_checks.driver import CudaDriver
from gpu_checks.launches import Buffer
from gpu_checks.outcome import LackingError

# The module torch and its objects.
Vendor: TypeAlias = Any


class Product(Protocol):
    """hidden [1,rows,H] by weight [V,H] to logits [1,rows,V], all bfloat16, on the driver's stream."""

    def __call__(self, hidden: Buffer, weight: Buffer, logits: Buffer) -> None:
        """Put the product on the stream."""


class TorchProduct:
    """The product of the library that torch calls."""

    def __init__(self, torch: Vendor, driver: CudaDriver) -> None:
        self._torch = torch
        self._stream = torch.cuda.ExternalStream(driver.stream.value)
        self._tensors: dict[Buffer, Vendor] = {}

    def __call__(self, hidden: Buffer, weight: Buffer, logits: Buffer) -> None:
        """Put the product on the stream."""
        with self._torch.cuda.stream(self._stream):
            self._torch.matmul(self._tensor(hidden)[0], self._tensor(weight).T, out=self._tensor(logits)[0])

    def _tensor(self, buffer: Buffer) -> Vendor:
        if buffer not in self._tensors:
            raw = self._torch.as_tensor(_Memory(buffer), device="cuda")
            self._tensors[buffer] = raw.view(self._torch.bfloat16)
        return self._tensors[buffer]


class _Memory:
    """Device memory as torch takes it; the interface has no bfloat16."""

    def __init__(self, buffer: Buffer) -> None:
        self.__cuda_array_interface__ = {
            "shape": buffer.shape,
            "typestr": "<i2",
            "data": (buffer.address, False),
            "version": 3,
        }


def torch_product(driver: CudaDriver) -> TorchProduct:
    """Return torch's product.

    Raises:
        LackingError: torch is not here, or not for CUDA.
    """
    if importlib.util.find_spec("torch") is None:
        raise LackingError("torch is not installed")
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise LackingError("torch finds no GPU")
    return TorchProduct(torch, driver)
