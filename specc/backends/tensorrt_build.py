"""From a parsed network to the bytes of an engine: targets, profiles, limits, and the builder's refusals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.backends.aids import Timings
from specc.backends.tensorrt_monitor import BuildWatch, build_monitor, interrupts_noted
from specc.backends.tensorrt_network import TensorRt, Vendor
from specc.backends.tensorrt_rows import TensorRtLibraryRow
from specc.backends.tensorrt_timings import attached_timings, keep_timings
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
        row: which of the two it is.
        builder: that made the network.
        logger: the builder's, see `collecting_logger`.
        target: the file the engine will become, for messages.
        progress: told the builder's own top-level steps.
        timings: of earlier builds; None for a library that times nothing.
    """

    trt: TensorRt
    row: TensorRtLibraryRow
    builder: Vendor
    logger: Vendor
    target: Path
    progress: Progress
    timings: Timings | None


def built_engine(setup: BuildSetup, network: Vendor, graph: LoweredGraph, plan: BackendPlan) -> Vendor:
    """Return the engine as the library's host memory, readable as a buffer.

    Args:
        setup: library, builder and where they report to.
        network: checked.
        graph: names the inputs that profiles are for.
        plan: profiles, compute capabilities, and what the builder may take.

    Raises:
        SpeccError: SPC506 it took too long, SPC523 the builder refused, SPC524 a GPU lacks an element type, SPC525 the
            library knows no such GPU.
        KeyboardInterrupt: the user stopped the build.
    """
    config = config_from_plan(setup, graph, plan)
    timed = None if setup.timings is None else attached_timings(config, setup.timings)
    watch = BuildWatch(f"build {setup.target.name}", setup.progress, plan.builder.seconds)
    monitor = build_monitor(setup.trt, watch)  # lives as long as the build
    config.progress_monitor = monitor
    with interrupts_noted(watch):
        engine = setup.builder.build_serialized_network(network, config)
    if watch.stopped is not None:
        raise watch.stopped
    if engine is None:
        raise _refusal(setup.trt, setup.logger.messages, setup.target, plan.compute_capabilities)
    if setup.timings is not None and timed is not None:
        keep_timings(config, setup.timings, timed)
    return engine


def config_from_plan(setup: BuildSetup, graph: LoweredGraph, plan: BackendPlan) -> Vendor:
    """Return the builder's configuration; what the plan leaves to the library is not touched.

    Raises:
        SpeccError: SPC525 the library knows no such GPU.
    """
    trt, config = setup.trt, setup.builder.create_builder_config()
    if setup.row.ahead:
        set_targets(trt, config, plan.compute_capabilities)
    if plan.builder.hardware_compatibility != "none":
        level = plan.builder.hardware_compatibility.replace("-", "_").upper()
        config.hardware_compatibility_level = trt.HardwareCompatibilityLevel.__members__[level]
    if plan.builder.memory_bytes is not None:
        for pool in setup.row.memory_pools:
            config.set_memory_pool_limit(trt.MemoryPoolType.__members__[pool], plan.builder.memory_bytes)
    for spec in plan.profiles:
        config.add_optimization_profile(_profile(setup.builder, graph, spec))
    return config


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
