"""What executes an engine, one vendor a file; the registry is a literal dict and loads no vendor library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccBug, SpeccError
from specc.runtime.runners.runner import TargetRunner

__all__ = ["RUNNERS", "TargetRunner", "runner_from_engine"]


def _onnxruntime(bundle: Path, spec: EngineSpec, threads: int | None, caches_of: TargetRunner | None) -> TargetRunner:
    from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner, onnxruntime_runner

    if caches_of is not None and not isinstance(caches_of, OnnxRuntimeRunner):
        raise SpeccBug(f"{spec.file} cannot share the caches of a {type(caches_of).__name__}")
    return onnxruntime_runner(bundle, spec, threads=threads, caches_of=caches_of)


def _tensorrt_rtx(bundle: Path, spec: EngineSpec, _threads: int | None, caches_of: TargetRunner | None) -> TargetRunner:
    from specc.runtime.runners.tensorrt import TensorRtRunner, tensorrt_runner

    if caches_of is None:
        return tensorrt_runner(bundle, spec)
    if not isinstance(caches_of, TensorRtRunner):
        raise SpeccBug(f"{spec.file} cannot share the caches of a {type(caches_of).__name__}")
    return tensorrt_runner(bundle, spec, caches_of)


NewRunner: TypeAlias = Callable[[Path, EngineSpec, int | None, TargetRunner | None], TargetRunner]
RUNNERS: Final[dict[str, NewRunner]] = {
    "onnx": _onnxruntime,
    "tensorrt-rtx": _tensorrt_rtx,
}


def runner_from_engine(
    bundle: Path, spec: EngineSpec, threads: int | None, caches_of: TargetRunner | None = None
) -> TargetRunner:
    """Load an engine of a bundle with the runner of its format.

    Args:
        bundle: folder that `spec.file` is relative to.
        spec: the engine.
        threads: of runners on the CPU; None leaves it to them.
        caches_of: a runner whose caches this engine shares, as early calls of a target and an unrolled draft do;
            None gives it its own.

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
    return RUNNERS[spec.format](bundle, spec, threads, caches_of)
