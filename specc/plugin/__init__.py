"""The verification plugin of TensorRT engines: kernels, their bundle compiled ahead, registration."""

from __future__ import annotations
