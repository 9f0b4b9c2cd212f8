"""What a plan says of its weights: which keep their codes, which are rounded, and how far that moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Final

from specc.catalog.schemes import PLAIN
from specc.catalog.weight_formats import CALIBRATED_METHODS, WeightFormat, typical_error
from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.tensor_set import shapes_from_facts
from specc.plan.plan import GraphPlan, WeightRow
from specc.quantize.same_matrix import means_the_same

GPTQ_MOVES: Final = (
    "which moves them further than rounding to nearest, so that outputs move less: SmolLM2-135M's attention and MLP in "
    "groups of 32 by 11.6% and 11.2% of their size, where mse moves them by 8.7% and 8.5%"
)


def quantization_notes(source: SourceCheckpoint, graph: GraphPlan) -> tuple[str, ...]:
    """Return what is done to the weights, and in what their products are computed, in words."""
    stored = source.facts.stored_dtype
    rows = {name: graph.weight_row(name) for name, _ in shapes_from_facts(source.facts)}
    forms = {name: row.format for name, row in rows.items() if row is not None and row.format is not None}
    formats = source.quantized_formats
    looked = {name for name in forms if _method(rows[name]) in CALIBRATED_METHODS}
    exact = {
        name: form
        for name, form in forms.items()
        if name in formats and name not in looked and means_the_same(formats[name], form)
    }
    compensated = {name: form for name, form in forms.items() if _method(rows[name]) == "gptq"}
    rounded = {name: form for name, form in forms.items() if name not in exact and name not in compensated}
    notes = []
    if exact:
        titles = _titles(exact)
        notes.append(f"weights: {_matrices(exact)} the checkpoint's codes, as {titles}: nothing is rounded again.")
    coarse = "" if stored in PLAIN else " The checkpoint's own blocks are expanded first, so its error adds to this."
    if rounded:
        count = _matrices(rounded, "are rounded", "is rounded")
        notes.append(f"weights: {count} from {stored} to {_titles(rounded)}{_usual_error(rounded)}.{coarse}")
    if compensated:
        count = _matrices(compensated, "are rounded", "is rounded")
        notes.append(f"weights: {count} from {stored} to {_titles(compensated)} by gptq, {GPTQ_MOVES}.{coarse}")
    if graph.calibrated_method is not None:
        notes.append(
            f"method {graph.calibrated_method}: the build runs the float32 target over calibration texts first."
        )
    if graph.compute_dtype == "f32":
        kinds = {row.activations for row in rows.values() if row is not None}
        floats = "activations are" if graph.int8_caches else "activations and caches are"
        notes.append(
            f"{floats} f32 on CPUs; ONNX Runtime rounds each block of a token's activations to 8 bits "
            "inside a product."
            + (" In products of w8a8 a token's activations are one block." if "int8" in kinds else "")
        )
    return (*notes, *source.quantization_notes)


def cache_scale_notes(source: SourceCheckpoint) -> tuple[str, ...]:
    """Return what becomes of a checkpoint's scales of 8-bit caches in engines of specc's own, in words."""
    if not source.cache_scales:
        return ()
    first, count = next(iter(source.cache_scales)), len(source.cache_scales)
    return (f"{count} scales of the checkpoint for an 8-bit cache, the first {first}, are not used.",)


def _method(row: WeightRow | None) -> str | None:
    return None if row is None else row.method


def _titles(forms: Mapping[str, WeightFormat]) -> str:
    return " and ".join(dict.fromkeys(form.title for form in forms.values()))


def _usual_error(forms: Mapping[str, WeightFormat]) -> str:
    """Return how far rounding to these formats usually moves a matrix, in words; a build measures it."""
    known = dict.fromkeys(f"{error:.1%}" for form in forms.values() if (error := typical_error(form)) is not None)
    return f", which usually moves them by {' and '.join(known)} of their size" if known else ""


def _matrices(named: Sized, several: str = "keep", one: str = "keeps") -> str:
    return f"1 matrix {one}" if len(named) == 1 else f"{len(named)} matrices {several}"
