"""From a parsed network to the bytes of an engine: targets, profiles, progress, and the builder's refusals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.backends.tensorrt_network import TensorRt, Vendor
from specc.bundle.manifest import Dimension, ProfileSpec
from specc.errors import SpeccError
from specc.lower.lowered import LoweredGraph
from specc.plan.plan import BackendPlan
from specc.progress import Progress

_HARDWARE_TYPES: Final = re.compile(
    r"Cannot compile for target\(s\) (?P<targets>.+?), because .*datatypes: (?P<types>[\w, ]+)"
)
# Notes of the parser that repeat what the graph says; all else at warning level and above is kept for error texts.
_IDLE_TALK: Final = ("Int64 binding", "already exists, the output tensors")
_SHOWN_MESSAGES: Final = 5


def collecting_logger(trt: TensorRt) -> Vendor:
    """Return a logger that prints nothing and keeps warnings and errors in its `messages`."""

    class CollectingLogger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.messages: list[str] = []

        def log(self, severity: Vendor, message: str) -> None:
            if severity <= trt.ILogger.Severity.WARNING and not any(part in message for part in _IDLE_TALK):
                self.messages.append(message)

    return CollectingLogger()


@dataclass(frozen=True)
class BuildSetup:
    """What a build works with beside its input.

    Attributes:
        trt: the library.
        builder: that made the network.
        logger: the builder's, see `collecting_logger`.
        target: the file the engine will become, for messages.
        progress: told the builder's own top-level steps.
    """

    trt: TensorRt
    builder: Vendor
    logger: Vendor
    target: Path
    progress: Progress


def built_engine(setup: BuildSetup, network: Vendor, graph: LoweredGraph, plan: BackendPlan) -> Vendor:
    """Return the engine as the library's host memory, readable as a buffer.

    Args:
        setup: library, builder and where they report to.
        network: checked.
        graph: names the inputs that profiles are for.
        plan: profiles and compute capabilities.

    Raises:
        SpeccError: SPC523 the builder refused, SPC524 a GPU lacks an element type, SPC525 the library knows no such
            GPU.
        KeyboardInterrupt: the user stopped the build.
    """
    trt, builder = setup.trt, setup.builder
    config = builder.create_builder_config()
    set_targets(trt, config, plan.compute_capabilities)
    for spec in plan.profiles:
        config.add_optimization_profile(_profile(builder, graph, spec))
    monitor = _monitor(trt, f"build {setup.target.name}", setup.progress)
    config.progress_monitor = monitor
    engine = builder.build_serialized_network(network, config)
    if monitor.interrupted:
        raise KeyboardInterrupt
    if engine is None:
        raise _refusal(trt, setup.logger.messages, setup.target, plan.compute_capabilities)
    return engine


def set_targets(trt: TensorRt, config: Vendor, compute_capabilities: tuple[str, ...]) -> None:
    """Set the GPUs that the engine holds machine code for.

    Raises:
        SpeccError: SPC525 with the GPUs that the library knows.
    """
    members = {
        _dotted(name): value for name, value in trt.ComputeCapability.__members__.items() if name.startswith("SM")
    }
    config.num_compute_capabilities = len(compute_capabilities)
    for index, name in enumerate(compute_capabilities):
        if name not in members:
            raise SpeccError(
                "SPC525",
                "backend.compute_capabilities",
                f"SM {name} is not among the GPUs of {trt.__name__} {trt.__version__}: {', '.join(members)}.",
                "TensorRT-RTX is for graphics cards and their kin; data-centre GPUs of SM 9.0 and 10.0 are not.",
                "Choose a GPU of that list, or the back end `tensorrt` or `tensorrt-llm`.",
            )
        config.set_compute_capability(members[name], index)


def _dotted(member: str) -> str:
    """Return `8.9` for SM89 and `12.0` for SM120."""
    digits = member.removeprefix("SM")
    return f"{digits[:-1]}.{digits[-1]}"


def _profile(builder: Vendor, graph: LoweredGraph, spec: ProfileSpec) -> Vendor:
    profile = builder.create_optimization_profile()
    sizes = {"B": spec.batch, "S": spec.tokens, "R": spec.logit_rows}

    def shape(dimensions: tuple[Dimension, ...], which: int) -> tuple[int, ...]:
        return tuple(size if isinstance(size, int) else sizes[size][which] for size in dimensions)

    for tensor in graph.inputs:
        profile.set_shape(tensor.name, *(shape(tensor.shape, which) for which in range(3)))
    return profile


def _monitor(trt: TensorRt, what: str, progress: Progress) -> Vendor:
    """Return a monitor that passes on the steps of the outermost phase and ends the build on an interrupt.

    An exception must not travel through the builder, and its callbacks are the only Python that runs during a build.
    """

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self.interrupted = False
            self._outermost: tuple[str, int] | None = None

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            if parent_phase is None:
                self._outermost = phase_name, num_steps
                self._report(0)

        def phase_finish(self, phase_name: str) -> None:
            if self._outermost is not None and phase_name == self._outermost[0]:
                self._report(self._outermost[1])

        def step_complete(self, phase_name: str, step: int) -> bool:
            if self._outermost is not None and phase_name == self._outermost[0]:
                self._report(step + 1)
            return not self.interrupted

        def _report(self, done: int) -> None:
            assert self._outermost is not None
            try:
                progress(what, done, self._outermost[1])
            except KeyboardInterrupt:
                self.interrupted = True

    return Monitor()


def _refusal(trt: TensorRt, messages: list[str], target: Path, compute_capabilities: tuple[str, ...]) -> SpeccError:
    for message in messages:
        found = _HARDWARE_TYPES.search(message)
        if found:
            return SpeccError(
                "SPC524",
                str(target),
                f"The graph uses {found['types'].strip()}, which {found['targets']} has no arithmetic for.",
                "An engine for several GPUs can use only what each of them has.",
                f"Take that GPU from backend.compute_capabilities ({', '.join(compute_capabilities)}), or choose a "
                "scheme that all of them run (`specc list schemes`).",
            )
    said = " | ".join(messages[-_SHOWN_MESSAGES:]) or "nothing"
    return SpeccError(
        "SPC523",
        str(target),
        f"The builder of {trt.__name__} {trt.__version__} made no engine; it said: {said}",
        "Without an engine there is nothing to run.",
        "If it speaks of memory, build on a machine with more (about three times the weights); else report this.",
    )
