"""From which SM on the back ends that this version only plans for run a scheme.

Source: the support matrices of TensorRT-LLM 0.18 (precision by architecture; Blackwell's fp4 came later) and of
TensorRT-RTX 1.4 (precision by compute capability), whose core TensorRT shares.
"""

from __future__ import annotations

from typing import Final

FIRST_SM: Final[dict[str, dict[str, str]]] = {
    "tensorrt": {
        "f32": "7.5", "f16": "7.5", "bf16": "8.0", "w8a16": "8.0", "w4a16": "8.0", "w8a8": "7.5", "fp8": "8.9",
        "nvfp4": "10.0", "int8": "7.5",
    },
    "tensorrt-llm": {
        "f32": "8.0", "f16": "8.0", "bf16": "8.0", "w8a16": "8.0", "w4a16": "8.0", "w8a8": "8.0", "fp8": "8.9",
        "nvfp4": "10.0", "int8": "8.0",
    },
}  # fmt: skip
"""By back end, scheme or cache dtype: the first SM. All of them are here."""


def sm_number(compute_capability: str) -> tuple[int, int]:
    """Return `8.9` as a pair that orders like versions do; what is no such number comes before all of them."""
    major, _, minor = compute_capability.partition(".")
    return (int(major), int(minor or 0)) if major.isdecimal() else (0, 0)
