"""Lowering: from the Plan and a source checkpoint to ONNX files over shared weights, by an ordered list of passes."""

from __future__ import annotations
