"""cuda-python without a GPU: what its runtime bindings say of the device at hand."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any


def cuda_modules(gpu: Callable[[], tuple[str, str] | None]) -> dict[str, ModuleType]:
    """Return the modules of cuda-python as far as they tell of a GPU: its name and SM; None for a machine without."""
    package, bindings, runtime = (ModuleType(name) for name in ("cuda", "cuda.bindings", "cuda.bindings.runtime"))
    success = SimpleNamespace(name="cudaSuccess")
    attributes = SimpleNamespace(cudaDevAttrComputeCapabilityMajor=0, cudaDevAttrComputeCapabilityMinor=1)

    def device() -> tuple[Any, Any]:
        return (SimpleNamespace(name="cudaErrorNoDevice"), None) if gpu() is None else (success, 0)

    def attribute(which: int, index: int) -> tuple[Any, Any]:
        found = gpu()
        assert found is not None
        return success, int(found[1].split(".")[which])

    def properties(index: int) -> tuple[Any, Any]:
        found = gpu()
        assert found is not None
        return success, SimpleNamespace(name=found[0].encode() + b"\0")

    runtime.__dict__.update(
        cudaError_t=SimpleNamespace(cudaSuccess=success), cudaDeviceAttr=attributes, cudaGetDevice=device,
        cudaDeviceGetAttribute=attribute, cudaGetDeviceProperties=properties,
    )  # fmt: skip
    bindings.__dict__["runtime"], package.__dict__["bindings"] = runtime, bindings
    return {"cuda": package, "cuda.bindings": bindings, "cuda.bindings.runtime": runtime}
