"""The TensorRT-LLM back end: checkpoints and serving files, up to where NVIDIA's own programs and the GPUs begin."""

from __future__ import annotations
