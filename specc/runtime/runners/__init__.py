"""What executes an engine, one vendor a file; the registry is a literal dict and loads no vendor library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccBug, SpeccError
from specc.runtime.runners.runner import NO_COMPANIONS, Companions, TargetRunner

__all__ = ["ROUNDS", "RUNNERS", "Companions", "TargetRunner", "round_from_runners", "runner_from_engine"]


def _onnxruntime(bundle: Path, spec: EngineSpec, threads: int | None, beside: Companions) -> TargetRunner:
    from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner, onnxruntime_runner
    from specc.runtime.runners.onnxruntime_whole import onnxruntime_whole_runner

    for runner in (beside.caches_of, beside.draft_caches_of):
        if runner is not None and not isinstance(runner, OnnxRuntimeRunner):
            raise SpeccBug(f"{spec.file} cannot share the caches of a {type(runner).__name__}")
    target, draft = beside.caches_of, beside.draft_caches_of
    if spec.variant != "whole":
        assert target is None or isinstance(target, OnnxRuntimeRunner)
        return onnxruntime_runner(bundle, spec, threads=threads, caches_of=target)
    if not isinstance(target, OnnxRuntimeRunner) or not isinstance(draft, OnnxRuntimeRunner):
        raise SpeccBug(f"{spec.file} works over the caches of a target and a draft")
    return onnxruntime_whole_runner(bundle, spec, threads=threads, target=target, draft=draft)


def _tensorrt(bundle: Path, spec: EngineSpec, _threads: int | None, beside: Companions) -> TargetRunner:
    from specc.runtime.runners.tensorrt import Beside, TensorRtRunner, tensorrt_runner

    given: dict[str, TensorRtRunner] = {}
    for name, runner in vars(beside).items():
        if isinstance(runner, TensorRtRunner):
            given[name] = runner
        elif runner is not None:
            raise SpeccBug(f"{spec.file} cannot work beside a {type(runner).__name__}")
    return tensorrt_runner(bundle, spec, Beside(**given))


def _tensorrt_round(target: TargetRunner, draft: TargetRunner, steps: int) -> TargetRunner:
    from specc.runtime.runners.tensorrt import TensorRtRunner
    from specc.runtime.runners.tensorrt_round import TensorRtRound

    if not isinstance(target, TensorRtRunner) or not isinstance(draft, TensorRtRunner):
        raise SpeccBug(f"no rounds over {type(target).__name__} and {type(draft).__name__}")
    return TensorRtRound(target, draft, steps)


NewRunner: TypeAlias = Callable[[Path, EngineSpec, int | None, Companions], TargetRunner]
RUNNERS: Final[dict[str, NewRunner]] = {
    "onnx": _onnxruntime,
    "tensorrt-rtx": _tensorrt,
    "tensorrt": _tensorrt,
}
# Formats whose calls are put on a stream, so that a round of several is waited for once.
ROUNDS: Final[dict[str, Callable[[TargetRunner, TargetRunner, int], TargetRunner]]] = {
    "tensorrt-rtx": _tensorrt_round,
    "tensorrt": _tensorrt_round,
}


def runner_from_engine(
    bundle: Path, spec: EngineSpec, threads: int | None, beside: Companions = NO_COMPANIONS
) -> TargetRunner:
    """Load an engine of a bundle with the runner of its format.

    Args:
        bundle: folder that `spec.file` is relative to.
        spec: the engine.
        threads: of runners on the CPU; None leaves it to them.
        beside: runners whose caches or stream it shares.

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
    return RUNNERS[spec.format](bundle, spec, threads, beside)


def round_from_runners(target: TargetRunner, draft: TargetRunner, steps: int) -> TargetRunner | None:
    """Return what runs whole rounds over two loaded engines with one wait for all their calls; None: nothing does.

    Args:
        target: loaded.
        draft: loaded, on the stream of the target.
        steps: most drafts of a round.
    """
    new_round = ROUNDS.get(target.spec.format)
    return None if new_round is None else new_round(target, draft, steps)
