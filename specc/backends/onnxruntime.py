"""The ONNX Runtime back end: the lowered graphs are the engines; each is run once to prove that it can be."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Final

import numpy as np

from specc.backends.aids import NO_AIDS, BuildAids
from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccError
from specc.lower.lowered import Lowered, LoweredGraph
from specc.lower.place import Place
from specc.plan.plan import Plan
from specc.progress import Progress

PACKAGE: Final = "onnxruntime"
NUMPY_TYPES: Final[dict[str, type[np.generic]]] = {
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i8": np.int8,
    "bool": np.bool_,
}


class OnnxRuntimeBackend:
    """Builds engines for the CPU execution provider."""

    def toolchain(self) -> dict[str, str]:
        """Return the version of ONNX Runtime.

        Raises:
            SpeccError: SPC501 it is not installed.
        """
        try:
            return {PACKAGE: importlib.metadata.version(PACKAGE)}
        except importlib.metadata.PackageNotFoundError as error:
            raise SpeccError(
                "SPC501",
                "backend.name onnxruntime",
                f"The package `{PACKAGE}` is not installed.",
                "This back end proves each engine by running it once.",
                "pip install 'specc[cpu]'",
            ) from error

    def missing(self, plan: Plan) -> tuple[str, ...]:  # noqa: ARG002 - the form of a back end
        """Return nothing: its engines are made anywhere."""
        return ()

    def here(self) -> dict[str, str]:
        """Return nothing: its engines are the same wherever they are made."""
        return {}

    def engines_from_lowered(
        self,
        lowered: Lowered,
        plan: Plan,
        folder: Path,
        place: Place,
        progress: Progress,
        *,
        aids: BuildAids = NO_AIDS,  # noqa: ARG002
    ) -> tuple[EngineSpec, ...]:
        """Place graphs and weights in `folder` and run each graph once on one token.

        Raises:
            SpeccError: SPC501 ONNX Runtime is not installed, SPC502 it refuses a graph, SPC503 the disk refuses a file.
        """
        self.toolchain()
        for file in dict.fromkeys((*(graph.file for graph in lowered.graphs), *lowered.weight_files)):
            _place(lowered.folder / file, folder / file, place)
        specs = []
        for done, graph in enumerate(lowered.graphs):
            progress("prove engines", done, len(lowered.graphs))
            _prove(folder / graph.file, graph, plan)
            specs.append(_engine_spec(graph, plan))
        progress("prove engines", len(specs), len(specs))
        return tuple(specs)


def _engine_spec(graph: LoweredGraph, plan: Plan) -> EngineSpec:
    return EngineSpec(
        role=graph.role,
        variant=graph.variant,
        format="onnx",
        file=graph.file,
        compute_dtype=plan.graph.compute_dtype,
        inputs=graph.inputs,
        outputs=graph.outputs,
        caches=graph.caches,
        capacity=plan.graph.capacity,
        capacity_buckets=plan.graph.capacity_buckets,
        profiles=plan.backend.profiles_of(graph.variant),
        compute_capabilities=(),
        steps=graph.steps,
        scheme=plan.target.scheme,
        spare_rows=1 if plan.graph.attention == "fused" and not plan.graph.int8_caches else 0,
    )


def _prove(path: Path, graph: LoweredGraph, plan: Plan) -> None:
    """Load the engine and run one row of one token, with empty caches of the smallest bucket."""
    import onnxruntime

    rows = plan.graph.capacity_buckets[0]
    sizes = {"B": 1, "S": 1, "R": 1, "Kq": 1, "C": rows, "draft_C": rows}
    ones = ("num_tokens",)
    inputs = {
        spec.name: np.full(
            tuple(n if isinstance(n, int) else sizes[n] for n in spec.shape),
            1 if spec.name in ones else spec.neutral or 0,
            dtype=NUMPY_TYPES[spec.dtype],
        )
        for spec in graph.inputs
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        named = "next_token" if graph.steps == 1 else "drafts"
        token = session.run([named], inputs)[0].flat[0]
    except Exception as error:
        raise _refused(path, str(error)) from error
    if not 0 <= int(token) < plan.target.facts.emitted_vocab_size:
        raise _refused(path, f"it picked the id {int(token)} outside the vocabulary")


def _refused(path: Path, got: str) -> SpeccError:
    return SpeccError(
        "SPC502",
        str(path),
        f"ONNX Runtime cannot run the engine: {got}",
        "An engine that does not run here would not run where the bundle is used.",
        "Use an ONNX Runtime that specc supports (`pip install 'specc[cpu]'`); if it is one, report this message.",
    )


def _place(source: Path, target: Path, place: Place) -> None:
    try:
        place(source, target)
    except OSError as error:
        raise SpeccError(
            "SPC503",
            str(target),
            f"The engine's file cannot be written: {error.strerror or error}.",
            "A bundle carries its graphs and weights.",
            "Free space on that disk, or build elsewhere with `--out DIR`.",
        ) from error
