"""Back ends; the registries are literal dicts: those that build engines, and those that write checkpoints."""

from __future__ import annotations

from typing import Final

from specc.backends.backend import Backend, CheckpointBackend, EngineBackend
from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_llm.backend import TensorRtLlmBackend
from specc.backends.tensorrt_rows import TENSORRT, TENSORRT_RTX

ENGINE_BACKENDS: Final[dict[str, EngineBackend]] = {
    "onnxruntime": OnnxRuntimeBackend(),
    "tensorrt-rtx": TensorRtBackend(TENSORRT_RTX),
    "tensorrt": TensorRtBackend(TENSORRT),
}
CHECKPOINT_BACKENDS: Final[dict[str, CheckpointBackend]] = {
    "tensorrt-llm": TensorRtLlmBackend(),
}
BACKENDS: Final[dict[str, Backend]] = {**ENGINE_BACKENDS, **CHECKPOINT_BACKENDS}
