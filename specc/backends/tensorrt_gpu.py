"""The GPU at hand, for builders that need one. The runtime has its own view of it and ships without this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from specc.errors import SpeccError

# The module cuda.bindings.runtime; it ships without type hints.
Cuda: TypeAlias = Any


@dataclass(frozen=True)
class GpuHere:
    """The current CUDA device.

    Attributes:
        compute_capability: SM as `9.0`.
        title: the maker's name, as the driver says it.
    """

    compute_capability: str
    title: str


def gpu_here() -> GpuHere:
    """Return the current CUDA device; CUDA_VISIBLE_DEVICES chooses among several.

    Raises:
        SpeccError: SPC527 cuda-python is not installed, or the driver finds no GPU.
    """
    try:
        from cuda.bindings import runtime
    except ImportError as error:
        raise _no_gpu("the package `cuda-python` is not installed") from error
    cuda: Cuda = runtime
    index = _checked(cuda, cuda.cudaGetDevice())
    attributes = cuda.cudaDeviceAttr
    major, minor = (
        _checked(cuda, cuda.cudaDeviceGetAttribute(attribute, index))
        for attribute in (attributes.cudaDevAttrComputeCapabilityMajor, attributes.cudaDevAttrComputeCapabilityMinor)
    )
    name = _checked(cuda, cuda.cudaGetDeviceProperties(index)).name
    return GpuHere(f"{major}.{minor}", name.decode().rstrip("\0") if isinstance(name, bytes) else str(name))


def _checked(cuda: Cuda, answer: tuple[Any, Any]) -> Any:  # noqa: ANN401 - a value of the vendor
    status, value = answer
    if status != cuda.cudaError_t.cudaSuccess:
        raise _no_gpu(f"CUDA finds no GPU ({status.name})")
    return value


def _no_gpu(got: str) -> SpeccError:
    return SpeccError(
        "SPC527",
        "CUDA",
        got,
        "the builder of TensorRT times its kernels on the GPU that will run them",
        "build on the machine with the GPU; pip install 'specc[tensorrt]' there",
    )
