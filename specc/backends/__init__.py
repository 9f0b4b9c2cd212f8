"""Builders of engines; the registry is a literal dict."""

from __future__ import annotations

from typing import Final

from specc.backends.backend import Backend
from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.backends.tensorrt import TensorRtBackend

BACKENDS: Final[dict[str, Backend]] = {
    "onnxruntime": OnnxRuntimeBackend(),
    "tensorrt-rtx": TensorRtBackend(),
}
