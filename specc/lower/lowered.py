"""What lowering hands to a back end: ONNX files over shared weights, and the tensors of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specc.bundle.manifest import CacheSpec, EngineRole, EngineVariant, TensorSpec


@dataclass(frozen=True)
class LoweredGraph:
    """One ONNX graph.

    Attributes:
        file: the .onnx file, relative to the folder; its external data is relative to the same folder.
        inputs, outputs, caches, steps: as the manifest will state them.
    """

    role: EngineRole
    variant: EngineVariant
    file: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    caches: tuple[CacheSpec, ...]
    steps: int = 1


@dataclass(frozen=True)
class Lowered:
    """All graphs of a plan.

    Attributes:
        folder: where the files lie; nothing outside it is referred to.
        graphs: the ONNX graphs.
        weight_files: files of external data, relative to the folder, shared by the graphs.
    """

    folder: Path
    graphs: tuple[LoweredGraph, ...]
    weight_files: tuple[str, ...]
