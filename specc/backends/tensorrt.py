"""The TensorRT back ends: engines built ahead of time from lowered graphs, for one or several GPUs, on any machine.

TensorRT-RTX is the one registered. `tensorrt_network` and `tensorrt_build` take the library as a module, because full
TensorRT has the same builder; it lacks only targets other than the GPU at hand.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from specc.backends.tensorrt_build import BuildSetup, built_engine, collecting_logger
from specc.backends.tensorrt_file import write_engine
from specc.backends.tensorrt_network import TensorRt, check_network, network_from_file
from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccError
from specc.lower.lowered import Lowered, LoweredGraph
from specc.lower.place import Place
from specc.plan.plan import Plan
from specc.progress import Progress


@dataclass(frozen=True)
class TensorRtLibraryRow:
    """One of the two libraries.

    Attributes:
        format: what its engines are called in a manifest.
        module: the Python module.
        package: the distribution that has the module.
        extra: of specc, that brings it.
    """

    format: Literal["tensorrt-rtx", "tensorrt"]
    module: str
    package: str
    extra: str


TENSORRT_RTX: Final = TensorRtLibraryRow("tensorrt-rtx", "tensorrt_rtx", "tensorrt_rtx", "rtx")


class TensorRtBackend:
    """Builds TensorRT engines from ONNX files."""

    def __init__(self, library: TensorRtLibraryRow = TENSORRT_RTX) -> None:
        self._library = library

    def toolchain(self) -> dict[str, str]:
        """Return the library's version.

        Raises:
            SpeccError: SPC501 it is not installed.
        """
        try:
            return {self._library.format: importlib.metadata.version(self._library.package)}
        except importlib.metadata.PackageNotFoundError as error:
            raise self._missing() from error

    def engines_from_lowered(
        self,
        lowered: Lowered,
        plan: Plan,
        folder: Path,
        place: Place,  # noqa: ARG002 - the form of a back end
        progress: Progress,
    ) -> tuple[EngineSpec, ...]:
        """Build one engine per graph into `folder`, each under its name as soon as it is whole.

        Raises:
            SpeccError: SPC501 the library is not installed, SPC503 the disk refuses a file, SPC520 the parser refuses
                the graph, SPC523 the builder does, SPC524 a GPU lacks an element type, SPC525 the library knows no
                such GPU.
            SpeccBug: the parsed network is not what the lowered graph says.
        """
        try:
            trt: TensorRt = importlib.import_module(self._library.module)
        except ImportError as error:
            raise self._missing() from error
        specs = []
        for graph in lowered.graphs:
            file = f"{graph.role}.engine" if graph.variant == "main" else f"{graph.role}.{graph.variant}.engine"
            self._build(trt, lowered.folder / graph.file, graph, plan=plan, target=folder / file, progress=progress)
            specs.append(self._spec(graph, plan, file))
        return tuple(specs)

    def _build(
        self, trt: TensorRt, path: Path, graph: LoweredGraph, *, plan: Plan, target: Path, progress: Progress
    ) -> None:
        logger = collecting_logger(trt)
        builder = trt.Builder(logger)
        network = network_from_file(trt, builder, logger, path)
        facts = plan.target.facts
        check_network(trt, network, graph, (facts.vocab_size, facts.emitted_vocab_size))
        setup = BuildSetup(trt, builder, logger, target, progress)
        backend = replace(plan.backend, profiles=plan.backend.profiles_of(graph.variant))
        engine = built_engine(setup, network, graph, backend)
        write_engine(memoryview(engine), target, progress)

    def _spec(self, graph: LoweredGraph, plan: Plan, file: str) -> EngineSpec:
        return EngineSpec(
            role=graph.role,
            variant=graph.variant,
            format=self._library.format,
            file=file,
            compute_dtype=plan.graph.compute_dtype,
            inputs=graph.inputs,
            outputs=graph.outputs,
            caches=graph.caches,
            capacity=plan.graph.capacity,
            capacity_buckets=plan.graph.capacity_buckets,
            profiles=plan.backend.profiles_of(graph.variant),
            compute_capabilities=plan.backend.compute_capabilities,
            steps=graph.steps,
            scheme=plan.target.scheme,
            verification=plan.graph.verification,
        )

    def _missing(self) -> SpeccError:
        return SpeccError(
            "SPC501",
            f"backend.name {self._library.format}",
            f"The package `{self._library.package}` is not installed.",
            "It is the builder of these engines; it needs no GPU.",
            f"pip install 'specc[{self._library.extra}]'",
        )
