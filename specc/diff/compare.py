"""Two sides held against each other: what both have is compared, the rest is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from specc.bundle.lock import RecipeLock
from specc.bundle.manifest import Manifest
from specc.bundle.record import Json, json_from_record
from specc.diff.comparison import Change, Changes, Comparison, Effects, Quantity, SideName
from specc.diff.measured import measured_effects, measured_notes
from specc.diff.predicted import predicted_effects, prediction_without_tables
from specc.diff.side import Side
from specc.diff.values import changes_of_values
from specc.errors import SpeccError
from specc.plan.plan import Plan
from specc.plan.prediction import Prediction

# Parts of the plan that are compared elsewhere, or say nothing of their own.
ELSEWHERE: Final = frozenset({"recipe", "memory", "notes", "schema", "name"})


def comparison_from_sides(a: Side, b: Side) -> Comparison:
    """Compare two sides.

    Raises:
        SpeccError: SPC908 they have nothing in common.
    """
    changes = tuple(_changes(a, b))
    if not changes:
        raise SpeccError(
            "SPC908",
            f"{a.path} and {b.path}",
            f"a {a.kind} and a {b.kind}",
            "a recipe or a plan holds choices, a lock holds digests, and only a bundle holds both",
            "compare things of one kind, or with a bundle",
        )
    return Comparison(
        a=SideName(str(a.path), a.kind),
        b=SideName(str(b.path), b.kind),
        changes=changes,
        effects=tuple(_effects(a, b)),
        notes=(*a.notes, *b.notes, *measured_notes(a.certificate, b.certificate)),
    )


def _changes(a: Side, b: Side) -> Iterator[Changes]:
    said: tuple[Change, ...] = ()
    if a.recipe is not None and b.recipe is not None:
        said = changes_of_values(a.recipe, b.recipe)
        yield Changes("recipe", said)
    if a.plan is not None and b.plan is not None:
        left_out = ELSEWHERE | ({"prediction"} if _both_measured(a, b) else set())
        predicted = all(isinstance(plan.prediction, Prediction) for plan in (a.plan, b.plan))
        decisions = [_decisions(plan, left_out, tables=not predicted) for plan in (a.plan, b.plan)]
        decided = changes_of_values(*decisions)
        yield Changes("plan", tuple(change for change in decided if change not in said))
    if a.lock is not None and b.lock is not None:
        yield Changes("sources", changes_of_values(_sources(a.lock), _sources(b.lock)))
        yield Changes("toolchain", changes_of_values(_toolchain(a.lock), _toolchain(b.lock)))
    if a.manifest is not None and b.manifest is not None:
        yield Changes("engines", changes_of_values(_engines(a.manifest), _engines(b.manifest)))


def _effects(a: Side, b: Side) -> Iterator[Effects]:
    if a.manifest is not None and b.manifest is not None:
        yield Effects("size", measured=False, quantities=tuple(_sizes(a.manifest, b.manifest)))
    if a.plan is not None and b.plan is not None:
        yield Effects("memory", measured=False, quantities=tuple(_memory(a.plan, b.plan)))
        if not _both_measured(a, b):
            yield from predicted_effects(a.plan, b.plan)
    if a.measurements is not None and b.measurements is not None:
        yield from measured_effects(a.measurements, b.measurements)


def _both_measured(a: Side, b: Side) -> bool:
    """Return whether measured step costs stand in the place of both cost models."""
    return all(side.measurements is not None and side.measurements.costs is not None for side in (a, b))


def _decisions(plan: Plan, left_out: frozenset[str], *, tables: bool) -> Json:
    """Return what a plan decides; without `tables`, of its prediction what is not compared as an effect."""
    value = json_from_record(plan)
    assert isinstance(value, dict)
    if not tables and isinstance(plan.prediction, Prediction):
        value["prediction"] = prediction_without_tables(plan.prediction)
    return {key: part for key, part in value.items() if key not in left_out}


def _sources(lock: RecipeLock) -> Json:
    return {
        role: {
            "uri": source.uri,
            "revision": source.revision,
            "files": {file.name: f"sha256 {file.sha256}, {file.size} bytes" for file in source.files},
        }
        for role, source in lock.sources.items()
    }


def _toolchain(lock: RecipeLock) -> Json:
    kernels = {"kernels": lock.kernels} if lock.kernels else {}
    return {"specc": lock.specc_version, **lock.toolchain, **kernels}


def _engines(manifest: Manifest) -> Json:
    """Return what tells engines apart, without the list of their tensors but for its length."""
    return {
        engine.file if engine.role in engine.file else f"{engine.file} as {engine.role}": {
            "role": engine.role,
            "variant": engine.variant,
            "format": engine.format,
            "compute_dtype": engine.compute_dtype,
            "inputs": len(engine.inputs),
            "outputs": len(engine.outputs),
            "caches": len(engine.caches),
            "compute_capabilities": list(engine.compute_capabilities),
            "sha256": manifest.files[engine.file].sha256,
        }
        for engine in manifest.engines
    }


def _sizes(a: Manifest, b: Manifest) -> Iterator[Quantity]:
    sizes = [Counter[str](), Counter[str]()]
    for sums, manifest in zip(sizes, (a, b), strict=True):
        for name, spec in manifest.files.items():
            sums[name.split("/")[0]] += spec.size
    for name in sorted({*sizes[0], *sizes[1]}):
        yield Quantity(name, "bytes", sizes[0].get(name), sizes[1].get(name))
    yield Quantity("total", "bytes", sizes[0].total(), sizes[1].total())


def _memory(a: Plan, b: Plan) -> Iterator[Quantity]:
    items = [{item.name: item.bytes for item in plan.memory} for plan in (a, b)]
    for name in dict.fromkeys([*items[0], *items[1]]):
        yield Quantity(name, "bytes", items[0].get(name), items[1].get(name))
    yield Quantity("total", "bytes", sum(items[0].values()), sum(items[1].values()))
