"""Device memory that a back end takes before the first tensor: contexts, kernels, workspaces of its libraries.

None of it follows from a model, so each row is a stated estimate from a published log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20


@dataclass(frozen=True)
class RuntimeMemory:
    """What one back end takes of a GPU.

    Attributes:
        nbytes: with one GPU.
        link_bytes: more of it where several GPUs share a model: buffers of the sums between them.
        source: where it was read.
    """

    nbytes: int
    link_bytes: int
    source: str


_TENSORRT: Final = RuntimeMemory(
    nbytes=519 * MIB + 32 * MIB,
    link_bytes=0,
    source="519 MiB of a T4 in use once TensorRT 10.0 had its kernels (NVIDIA/TensorRT issue 3834, log of 2024-04-29), "
    "and the 32 MiB that cuBLAS recommends as its workspace from SM 9.0 on (pytorch/pytorch pull request 120925)",
)
_TRTLLM: Final = RuntimeMemory(
    nbytes=round(1.79 * 1024) * MIB,
    link_bytes=round((3.58 - 1.79) * 1024) * MIB,
    source="1.79 GiB outside PyTorch's allocator with one H100 and 3.58 GiB with two, in a server of the same "
    "libraries (vllm-project/vllm pull request 10511, logs of 2024-12-13); TensorRT-LLM's own log was not found",
)

RUNTIME_MEMORY: Final[dict[str, RuntimeMemory]] = {
    "onnxruntime": RuntimeMemory(21 * MIB, 0, "resident memory that loading ONNX Runtime 1.32.0 adds, measured"),
    "tensorrt-rtx": _TENSORRT,
    "tensorrt": _TENSORRT,
    "tensorrt-llm": _TRTLLM,
}
"""By back end; all of them are here."""
