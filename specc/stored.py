"""What the stages of a build leave in the store, each under a key of everything that shaped it.

A stage that finds its object there does nothing, and asks no earlier stage for anything; so a killed build resumes, and
a changed gamma writes no weights again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from specc.assembly import WHOLE_STEP
from specc.backends import CHECKPOINT_BACKENDS, ENGINE_BACKENDS
from specc.backends.aids import BuildAids, timings_of_machine
from specc.backends.backend import Calibrated
from specc.backends.engine_list import engines_in_folder, write_checkpoint_list, write_engine_list
from specc.bundle.rounding import rounding_file
from specc.calibrate.cached_range import largest_cached
from specc.calibrate.calibrated import reference_plan, write_calibration
from specc.calibrate.for_checkpoint import calibrated_from_statistics
from specc.calibrate.quantizer import quantizer_from_plan
from specc.calibrate.statistics_file import StatisticsFolder
from specc.checkpoint.folded import TensorFactors
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.tokenizer_files import write_tokenizer
from specc.errors import SpeccBug
from specc.inputs import Inputs
from specc.lower.graphs import lowered_for_engines, lowered_in_folder, write_graphs
from specc.lower.lowered import Lowered
from specc.lower.quantized_weights import kept_or_rounded
from specc.lower.weights import NOTHING_CACHED, weight_bytes, write_weights
from specc.lower.whole_step import write_whole_step
from specc.plan.calibration import calibrated_rule, calibration_of_plan
from specc.plan.plan import Plan


def lowered_from_plan(inputs: Inputs) -> Path:
    """Store what the back end takes: ONNX graphs over their weights, or the checkpoint itself."""
    makes_checkpoint = inputs.plan.backend.name in CHECKPOINT_BACKENDS
    return checkpoint_from_source(inputs) if makes_checkpoint else graphs_from_plan(inputs)


def compiled_from_plan(inputs: Inputs) -> Path:
    """Store what the bundle holds: engines, or the checkpoint, whose engines are built where the GPUs are."""
    makes_checkpoint = inputs.plan.backend.name in CHECKPOINT_BACKENDS
    return checkpoint_from_source(inputs) if makes_checkpoint else engines_from_graphs(inputs)


def checkpoint_from_source(inputs: Inputs) -> Path:
    """Store a checkpoint for another program; each of its big files is an object of its own, so a killed build resumes.

    The files of the source are linked where they serve as they are.
    """
    plan, store = inputs.plan, inputs.store
    backend = CHECKPOINT_BACKENDS[plan.backend.name]

    def produce(folder: Path) -> None:
        calibrated = calibrated_from_texts(inputs)
        for part in backend.parts(plan, inputs.source):
            made = store.obtain(
                inputs.keys.part(part.file),
                partial(backend.write_part, part, plan, inputs.source, calibrated=calibrated, progress=inputs.progress),
                f"{part.file} of {plan.name}",
                part.nbytes,
            )
            store.place(made / part.file, folder / part.file, link_bytes=0)
        checkpoint = backend.write_rest(plan, inputs.source, folder, store.place)
        write_checkpoint_list(checkpoint, folder)

    return store.obtain(inputs.keys.checkpoint, produce, f"checkpoint of {plan.name}")


def head_from_folder(inputs: Inputs, head: HeadFolder) -> Path:
    """Store the files of a drafter's head, linked: another program loads them beside the target's checkpoint."""
    plan, place = inputs.plan, inputs.store.place

    def produce(folder: Path) -> None:
        write_checkpoint_list(CHECKPOINT_BACKENDS[plan.backend.name].place_head(plan, head, folder, place), folder)

    return inputs.store.obtain(inputs.keys.head, produce, f"head of {plan.name}")


def calibrated_from_texts(inputs: Inputs) -> Calibrated | None:
    """Return what texts show of a source whose checkpoint is calibrated; None of all others."""
    rule = calibrated_rule(inputs.plan)
    if rule is None:
        return None
    return calibrated_from_statistics(inputs.source, StatisticsFolder(statistics_from_texts(inputs)), rule)


def weights_from_source(inputs: Inputs) -> Path:
    """Store the weights as external data of graphs: links into the source where its bytes serve, else written once."""
    plan = inputs.plan

    def produce(folder: Path) -> None:
        place, progress = inputs.store.place, inputs.progress
        if not plan.graph.calibrates:
            write_weights(plan, inputs.source, folder, place, progress)
            return
        statistics = StatisticsFolder(statistics_from_texts(inputs))
        source, factors, quantize = inputs.source, dict[str, TensorFactors](), kept_or_rounded
        if plan.graph.calibrated_method is not None:
            quantizer = quantizer_from_plan(source, statistics, plan.graph)
            source, factors, quantize = quantizer.source, quantizer.factors, quantizer.quantized_as
        cached = largest_cached(source.facts, statistics, factors) if plan.graph.int8_caches else NOTHING_CACHED
        write_weights(plan, source, folder, place, progress, quantize=quantize, cached=cached)

    needs = weight_bytes(inputs.plan, inputs.source)
    return inputs.store.obtain(inputs.keys.weights, produce, f"weights of {inputs.plan.name}", needs)


def statistics_from_texts(inputs: Inputs) -> Path:
    """Store what goes into the layers of the float32 model while it reads the texts of calibration."""
    plan, wanted = reference_plan(inputs.plan), calibration_of_plan(inputs.plan)
    if wanted is None:
        raise SpeccBug(f"{inputs.plan.name} is not calibrated")

    def produce(folder: Path) -> None:
        place, progress = inputs.store.place, inputs.progress
        write_calibration(plan, inputs.source, inputs.texts, folder, place=place, wanted=wanted, progress=progress)

    return inputs.store.obtain(inputs.keys.statistics, produce, f"statistics of {plan.name}")


def graphs_from_plan(inputs: Inputs) -> Path:
    """Store the lowered ONNX graphs over their weights."""

    def produce(folder: Path) -> None:
        write_graphs(inputs.plan, weights_from_source(inputs), folder, inputs.store.place)

    return inputs.store.obtain(inputs.keys.graphs, produce, f"graphs of {inputs.plan.name}")


def makes_whole_step(plan: Plan) -> bool:
    """Return whether an engine drafts and verifies in one call."""
    return plan.draft_model is not None and plan.draft_model.graph.whole


def whole_graph_from_graphs(target: Inputs, draft: Inputs) -> Path:
    """Store the graph of a whole step, composed of the target's and the draft's, over the weights of both."""
    plan, place = target.plan, target.store.place

    def produce(folder: Path) -> None:
        write_whole_step(plan, graphs_from_plan(target), graphs_from_plan(draft), folder, place)

    return target.store.obtain(target.keys.whole_graph(draft.keys), produce, f"whole step of {plan.name}")


def engines_from_graphs(inputs: Inputs) -> Path:
    """Store the engines that the back end compiles of a model's own graphs."""
    graph = inputs.plan.graph
    return compiled_graphs(
        inputs, graph.role, inputs.keys.engines, lambda: lowered_for_engines(graphs_from_plan(inputs), graph)
    )


def whole_engine_from_graphs(target: Inputs, draft: Inputs) -> Path:
    """Store the engine of a whole step."""
    key = partial(target.keys.whole_engine, draft.keys)
    return compiled_graphs(target, WHOLE_STEP, key, lambda: lowered_in_folder(whole_graph_from_graphs(target, draft)))


def compiled_graphs(
    inputs: Inputs, name: str, key: Callable[[Mapping[str, str], str], str], lowered: Callable[[], Lowered]
) -> Path:
    """Store the engines of lowered graphs, by the timings of a lock file where it names some.

    Args:
        inputs: of the model whose plan decides.
        name: that a lock file has their timings under.
        key: of the store, from what of the machine shapes the engines and the digest of pinned timings.
        lowered: makes the graphs, where the store has no engines of them.
    """
    plan, store = inputs.plan, inputs.store
    backend = ENGINE_BACKENDS[plan.backend.name]
    here, pinned = backend.here(), inputs.pinned.get(name, "")
    found = store.find(key(here, "")) if pinned else None
    if found is not None and engines_in_folder(found).timing_cache == pinned:
        return found
    timings = timings_of_machine(store, here, pinned or None)

    def produce(folder: Path) -> None:
        aids = BuildAids(inputs.kernels, timings)
        graphs = lowered()
        engines = backend.engines_from_lowered(graphs, plan, folder, store.place, inputs.progress, aids=aids)
        if (graphs.folder / rounding_file(name)).is_file():
            store.place(graphs.folder / rounding_file(name), folder / rounding_file(name))
        write_engine_list(engines, folder, "" if timings is None else timings.digest)

    kind = "engines" if name == plan.graph.role else f"{name} engines"
    return store.obtain(key(here, pinned), produce, f"{kind} of {plan.name}")


def tokenizer_from_source(inputs: Inputs) -> Path:
    """Store the tokenizer's files."""

    def produce(folder: Path) -> None:
        write_tokenizer(inputs.source, folder)

    return inputs.store.obtain(inputs.keys.tokenizer, produce, f"tokenizer of {inputs.plan.name}")
