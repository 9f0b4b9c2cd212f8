"""The TensorRT back ends: engines from lowered graphs, by either of two libraries with the same builder.

TensorRT-RTX builds ahead of time, for GPUs that are named, on any machine; TensorRT on the GPU that will run the
engine, with specc's own kernels inside. What differs between them stands in `tensorrt_rows.py`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import replace
from pathlib import Path

from specc.backends.aids import NO_AIDS, BuildAids
from specc.backends.tensorrt_build import BuildSetup, built_engine, collecting_logger
from specc.backends.tensorrt_file import write_engine
from specc.backends.tensorrt_gpu import gpu_here
from specc.backends.tensorrt_network import TensorRt, check_network, network_from_file
from specc.backends.tensorrt_rows import TENSORRT_RTX, TensorRtLibraryRow
from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccBug, SpeccError
from specc.lower.lowered import Lowered, LoweredGraph
from specc.lower.place import Place
from specc.plan.plan import Plan
from specc.plugin.bundle import KernelBundle
from specc.plugin.operators import chain_of
from specc.plugin.registration import plugin_library
from specc.progress import Progress


class TensorRtBackend:
    """Builds TensorRT engines from ONNX files."""

    def __init__(self, library: TensorRtLibraryRow = TENSORRT_RTX) -> None:
        self._library = library

    def toolchain(self) -> dict[str, str]:
        """Return the library's version; nothing where engines cannot be built here, which `missing` says.

        Raises:
            SpeccError: SPC501 it is not installed, and would be all that is needed.
        """
        try:
            return {self._library.format: importlib.metadata.version(self._library.package)}
        except importlib.metadata.PackageNotFoundError as error:
            if not self._library.ahead:
                return {}
            raise self._not_installed() from error

    def missing(self, plan: Plan) -> tuple[str, ...]:
        """Return what this machine lacks to build the engines of a plan, in words; nothing where it lacks nothing."""
        if self._library.ahead:
            return ()
        lacks = []
        try:
            importlib.import_module(self._library.module)
        except ImportError as error:
            lacks.append(f"the package `{self._library.package}` cannot be imported ({error})")
        try:
            gpu = gpu_here()
        except SpeccError as error:
            return (*lacks, error.got)
        wanted = plan.backend.compute_capabilities
        if gpu.compute_capability not in wanted:
            found = f"{gpu.title} (SM {gpu.compute_capability})"
            lacks.append(f"its GPU is {found}, and the engines are for SM {', '.join(wanted)}")
        return tuple(lacks)

    def here(self) -> dict[str, str]:
        """Return the GPU and the version that engines hang on beside their input; nothing where they are built ahead.

        Raises:
            SpeccError: SPC527 there is no GPU.
        """
        if self._library.ahead:
            return {}
        gpu = gpu_here()
        return {"gpu": f"{gpu.title} (SM {gpu.compute_capability})", **self.toolchain()}

    def engines_from_lowered(
        self,
        lowered: Lowered,
        plan: Plan,
        folder: Path,
        place: Place,  # noqa: ARG002 - the form of a back end
        progress: Progress,
        *,
        aids: BuildAids = NO_AIDS,
    ) -> tuple[EngineSpec, ...]:
        """Build one engine per graph into `folder`, each under its name as soon as it is whole.

        Raises:
            SpeccError: SPC501 the library is not installed, SPC503 the disk refuses a file, SPC506 it took too long,
                SPC520 the parser refuses the graph, SPC523 the builder does, SPC524 a GPU lacks an element type, SPC525
                the library knows no such GPU, SPC531 a kernel is not the one that was compiled.
            SpeccBug: the parsed network is not what the lowered graph says.
        """
        try:
            trt: TensorRt = importlib.import_module(self._library.module)
        except ImportError as error:
            raise self._not_installed() from error
        _register_kernels(plan, aids)
        specs = []
        for graph in lowered.graphs:
            file = f"{graph.role}.engine" if graph.variant == "main" else f"{graph.role}.{graph.variant}.engine"
            path = lowered.folder / graph.file
            self._build(trt, path, graph, plan=plan, target=folder / file, progress=progress, aids=aids)
            spec = spec_from_lowered(graph, plan, self._library, file)
            kernels = "" if aids.kernels is None else aids.kernels.digest
            gpu = self.here().get("gpu", "")
            specs.append(replace(spec, library=str(trt.__version__), kernels=kernels, built_on=gpu))
        return tuple(specs)

    def _build(
        self,
        trt: TensorRt,
        path: Path,
        graph: LoweredGraph,
        *,
        plan: Plan,
        target: Path,
        progress: Progress,
        aids: BuildAids,
    ) -> None:
        logger = collecting_logger(trt)
        builder = trt.Builder(logger)
        network = network_from_file(trt, builder, logger, path, self._library.page)
        facts = plan.target.facts
        check_network(
            trt, network, graph, (facts.vocab_size, facts.emitted_vocab_size), plugins=operators_of_plan(plan)
        )
        setup = BuildSetup(trt, self._library, builder, logger, target, progress, aids.timings)
        backend = replace(plan.backend, profiles=plan.backend.profiles_of(graph.variant))
        engine = built_engine(setup, network, graph, backend)
        write_engine(memoryview(engine), target, progress)

    def _not_installed(self) -> SpeccError:
        return SpeccError(
            "SPC501",
            f"backend.name {self._library.format}",
            f"The package `{self._library.package}` is not installed.",
            "It is the builder of these engines.",
            f"pip install 'specc[{self._library.extra}]'",
        )


def spec_from_lowered(graph: LoweredGraph, plan: Plan, library: TensorRtLibraryRow, file: str) -> EngineSpec:
    """Return what a manifest says of the engine of a graph, but for what hangs on the machine that builds it."""
    return EngineSpec(
        role=graph.role,
        variant=graph.variant,
        format=library.format,
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
        batch_buckets=plan.backend.batch_buckets,
        head=plan.graph.head,
    )


def operators_of_plan(plan: Plan) -> int:
    """Return how many of specc's operators the network of a plan has."""
    graph = plan.graph
    return len(chain_of(graph.acceptance, graph.head)) if graph.verification == "plugin" else 0


def _register_kernels(plan: Plan, aids: BuildAids) -> None:
    """Put the operators into TensorRT's registry, before a graph that names them is parsed."""
    if plan.graph.verification == "native":
        return
    if aids.kernels is None:
        raise SpeccBug(f"{plan.name} verifies with kernels, and the build has none")
    plugin_library().use(KernelBundle(aids.kernels.folder, aids.kernels.compute_capability))
