"""What executes an engine, one vendor a file; the registry is a literal dict and loads no vendor library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccError
from specc.runtime.runners.runner import TargetRunner

__all__ = ["RUNNERS", "TargetRunner", "runner_from_engine"]


def _onnxruntime(bundle: Path, spec: EngineSpec, threads: int | None) -> TargetRunner:
    from specc.runtime.runners.onnxruntime import onnxruntime_runner

    return onnxruntime_runner(bundle, spec, threads=threads)


def _tensorrt_rtx(bundle: Path, spec: EngineSpec, _threads: int | None) -> TargetRunner:
    from specc.runtime.runners.tensorrt import tensorrt_runner

    return tensorrt_runner(bundle, spec)


RUNNERS: Final[dict[str, Callable[[Path, EngineSpec, int | None], TargetRunner]]] = {
    "onnx": _onnxruntime,
    "tensorrt-rtx": _tensorrt_rtx,
}


def runner_from_engine(bundle: Path, spec: EngineSpec, threads: int | None) -> TargetRunner:
    """Load an engine of a bundle with the runner of its format.

    Args:
        bundle: folder that `spec.file` is relative to.
        spec: the engine.
        threads: of runners on the CPU; None leaves it to them.

    Raises:
        SpeccError: SPC713 no runner loads the format; others as the runner says.
    """
    if spec.format not in RUNNERS:
        raise SpeccError(
            "SPC713",
            f"{bundle / spec.file}",
            f"an engine of format {spec.format}",
            f"this runtime loads {', '.join(RUNNERS)}",
            "run the bundle where its back end is installed, or build for another back end",
        )
    return RUNNERS[spec.format](bundle, spec, threads)
