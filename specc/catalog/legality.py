"""From which SM on TensorRT-LLM runs a scheme; what is built for it, and for the others, stands in `capabilities.py`.

Source, looked up on 2026-11-30: its support matrix of 0.18.2 (Ampere: f32, f16, bf16, int8, int4; Ada and Hopper: fp8
besides) and its page on quantization of 1.0 (fp4 on Blackwell).
"""

from __future__ import annotations

from typing import Final

from specc.catalog.capabilities import BACKENDS
from specc.catalog.gpus import sm_number

FIRST_SM: Final[dict[str, dict[str, str]]] = {
    "tensorrt-llm": {
        "f32": "8.0", "f16": "8.0", "bf16": "8.0", "w8a16": "8.0", "w4a16": "8.0", "w8a8": "8.0", "fp8": "8.9",
        "fp8a16": "8.9", "nvfp4": "10.0", "nvfp4a16": "10.0", "int8": "8.0",
    },
}  # fmt: skip
"""By back end, scheme or cache dtype: the first SM. All of them are here."""

FAST_CACHE_SCHEMES: Final[dict[str, tuple[str, ...]]] = {"fp8": ("fp8", "nvfp4"), "int8": ()}
"""Weights beside which TensorRT-LLM keeps paged-context attention with a cache of this dtype.

Source: TensorRT-LLM 1.2, the builder's checks of its plugins.
"""


def scheme_runs(backend: str, scheme: str, compute_capabilities: tuple[str, ...]) -> bool:
    """Return whether a back end runs a scheme on all of these SMs; on none of them where it has no such scheme."""
    if backend in BACKENDS:
        row = BACKENDS[backend].schemes.get(scheme)
        return row is not None and set(compute_capabilities) <= set(row.compute_capabilities)
    first = FIRST_SM[backend][scheme]
    return all(sm_number(sm) >= sm_number(first) for sm in compute_capabilities)


def cache_runs(backend: str, scheme: str, cache_dtype: str, compute_capabilities: tuple[str, ...]) -> bool:
    """Return whether a back end keeps caches of a dtype beside weights of a scheme, without losing speed silently."""
    if backend not in FIRST_SM:
        row = BACKENDS[backend].schemes.get(scheme)
        return row is not None and row.compute_dtype == cache_dtype
    if backend == "tensorrt-llm" and scheme not in FAST_CACHE_SCHEMES.get(cache_dtype, (scheme,)):
        return False
    first = FIRST_SM[backend][cache_dtype]
    return all(sm_number(sm) >= sm_number(first) for sm in compute_capabilities)
