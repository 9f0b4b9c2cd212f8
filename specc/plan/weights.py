"""From a recipe's schemes to how each matrix is stored: rows of a pattern and a format, the first that fits holds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from specc.catalog.capabilities import BackendRow, SchemeSupport
from specc.catalog.dtypes import DTYPES
from specc.catalog.schemes import PLAIN, SCHEMES, WeightClass, bits_by_class
from specc.catalog.weight_formats import CALIBRATED_METHODS, ELEMENT_BITS, WeightFormat
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import EMBEDDING, head_name, shapes_from_facts
from specc.errors import SpeccError
from specc.plan.elements import WEIGHT_CLASSES, weight_class
from specc.plan.plan import GraphPlan, WeightRow, is_quantizable, weight_row
from specc.quantize.same_matrix import means_the_same
from specc.recipe.models import ModelChoice, SchemeChoice
from specc.recipe.schema import Recipe

LAYERS: Final = "model.layers.*_proj.weight"
"""Every matrix of a layer but the router of experts."""

FEW_BITS: Final = 4
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class QuantizedModel:
    """One model of a recipe whose weights are to be decided.

    Attributes:
        recipe: for the place of an error.
        role: `target` or `draft`.
        choice: of the recipe.
        backend, support: how the model's scheme is run.
        capabilities: SMs to build for; empty on the CPU.
        facts: names and shapes.
        stored: formats of the matrices that the checkpoint stores quantized.
    """

    recipe: Recipe
    role: str
    choice: ModelChoice
    backend: BackendRow
    support: SchemeSupport
    capabilities: tuple[str, ...]
    facts: ModelFacts
    stored: Mapping[str, WeightFormat]


def weights_from_choice(model: QuantizedModel) -> tuple[WeightRow, ...]:
    """Return how the matrices of a model are stored; nothing where all of them are floats.

    Raises:
        SpeccError: SPC302 the back end does not run what is asked for, SPC309 groups that do not divide a matrix,
            SPC310 an override that fits no matrix.
    """
    shapes = {name: shape for name, shape in shapes_from_facts(model.facts) if is_quantizable(name)}
    rows: list[WeightRow] = []
    for key, choice in model.choice.overrides.items():
        rows.append(_overridden(model, key, choice, shapes))
    stated = model.choice.scheme
    open_shapes = {name: shape for name, shape in shapes.items() if weight_row(tuple(rows), name) is None}
    if model.support.heads and head_name(model.facts) in open_shapes:
        rows.append(_head_row(model, open_shapes))
    if model.support.formats and stated is not None:
        rows.append(_row(model, LAYERS, stated, open_shapes, ("scheme",)))
    elif stated is not None and model.backend.makes == "engines":
        _refuse_details(model, stated)
    used = {weight_row(tuple(rows), name) for name in shapes}
    kept = tuple(row for row in dict.fromkeys(rows) if row in used)
    _check_embedding(model, kept)
    _check_methods(model, kept)
    return kept if any(row.format is not None for row in kept) else ()


def stored_bits(facts: ModelFacts, graph: GraphPlan, scheme: str) -> dict[WeightClass, float]:
    """Return the bits of one weight of each class, scales included, the mean where matrices of a class differ.

    Where a program other than specc's graphs holds the weights, they are those of the scheme as it is usually stored.
    """
    if not graph.weights:
        return bits_by_class(scheme)
    plain = 8.0 * DTYPES[graph.compute_dtype].nbytes
    counts, bits = dict.fromkeys(WEIGHT_CLASSES, 0), dict.fromkeys(WEIGHT_CLASSES, 0.0)
    for name, shape in shapes_from_facts(facts):
        kind, row, count = weight_class(name, shape), graph.weight_row(name), math.prod(shape)
        counts[kind] += count
        bits[kind] += count * (plain if row is None or row.format is None else row.format.bits)
    return {kind: bits[kind] / counts[kind] if counts[kind] else plain for kind in WEIGHT_CLASSES}


def _overridden(model: QuantizedModel, key: str, choice: SchemeChoice, shapes: Shapes) -> WeightRow:
    last = model.facts.num_hidden_layers - 1
    classes = {
        "head": head_name(model.facts),
        "embedding": EMBEDDING,
        "first_layer": LAYERS.replace(".*", ".0.*"),
        "last_layer": LAYERS.replace(".*", f".{last}.*"),
    }
    pattern = classes.get(key, key if key.endswith(".weight") else f"{key}.weight")
    if not any(fnmatchcase(name, pattern) for name in shapes):
        raise SpeccError(
            "SPC310",
            model.recipe.place(model.role, "overrides", key),
            f"{key!r} fits no matrix of {model.facts.family}",
            f"its matrices are {', '.join(_folded(shapes))}",
            f"one of {', '.join(classes)}, or a pattern that fits some of these names",
        )
    return _row(model, pattern, choice, shapes, ("overrides", key))


def _head_row(model: QuantizedModel, shapes: Shapes) -> WeightRow:
    head, schemes = head_name(model.facts), model.backend.schemes
    stored = model.stored.get(head)
    keeping = (name for name in model.support.heads if any(_keeps(stored, form) for form in schemes[name].formats))
    choice = SchemeChoice(name=next(keeping, model.support.heads[0]))
    return _row(model, head, choice, shapes, ("scheme",))


def _row(model: QuantizedModel, pattern: str, choice: SchemeChoice, shapes: Shapes, path: tuple[str, ...]) -> WeightRow:
    place = model.recipe.place(model.role, *path)
    support = model.backend.schemes.get(choice.name)
    dtype = model.support.compute_dtype
    if choice.name in PLAIN and choice.name == dtype:
        return WeightRow(pattern, choice.name, None, "rtn")
    missing = () if support is None else tuple(set(model.capabilities) - set(support.compute_capabilities))
    if support is None or support.compute_dtype != dtype or missing or not support.formats:
        others = [
            name
            for name, row in model.backend.schemes.items()
            if row.compute_dtype == dtype and set(model.capabilities) <= set(row.compute_capabilities)
        ]
        got = f"scheme {choice.name} for `{pattern}` among activations of {dtype}"
        why = f"{model.backend.name} has no product of such weights with them there"
        raise SpeccError("SPC302", place, got, why, " or ".join(others))
    matched = {name: shape for name, shape in shapes.items() if fnmatchcase(name, pattern)}
    form = _format(support, choice, matched, place, model)
    method = choice.method or ("mse" if ELEMENT_BITS[form.element] == FEW_BITS else "rtn")
    return WeightRow(pattern, choice.name, form, method, SCHEMES[choice.name].activations)


def _format(
    support: SchemeSupport, choice: SchemeChoice, matched: Shapes, place: str, model: QuantizedModel
) -> WeightFormat:
    """Return a format that the recipe's words fit and whose groups divide the matrices.

    The smallest that holds what the checkpoint stores of them exactly; else the first, in the back end's order.
    """
    asked = {
        "group_size": choice.group_size,
        "zero_point": choice.zero_point,
        "granularity": choice.granularity,
    }
    fitting = [
        form
        for form in support.formats
        if choice.group_size in (None, form.group_size)
        and choice.zero_point in (None, form.zero_point)
        and choice.granularity in (None, form.granularity)
    ]
    if not fitting:
        words = ", ".join(f"{key} {value}" for key, value in asked.items() if value is not None)
        runs = "; ".join(form.title for form in support.formats)
        raise SpeccError(
            "SPC302",
            place,
            f"{choice.name} with {words}",
            f"{model.backend.name} runs it as {runs}",
            "state one of these, or leave the choice to the plan",
        )
    dividing = [form for form in fitting if not _undivided(form, matched)]
    if not dividing:
        raise _undivided_error(model, choice, fitting[0], matched, place)
    kept = [form for form in dividing if all(_keeps(model.stored.get(name), form) for name in matched)]
    return min(kept, key=lambda form: form.bits, default=dividing[0])


def _keeps(stored: WeightFormat | None, form: WeightFormat) -> bool:
    return stored is not None and means_the_same(stored, form)


def _undivided(form: WeightFormat, matched: Shapes) -> list[str]:
    size = form.group_size
    return [] if size is None else [name for name, shape in matched.items() if shape[1] % size]


def _undivided_error(
    model: QuantizedModel, choice: SchemeChoice, form: WeightFormat, matched: Shapes, place: str
) -> SpeccError:
    names = _undivided(form, matched)
    width = matched[names[0]][1]
    alike = [name for name in names if matched[name][1] == width]
    sizes, dtype = dict.fromkeys(_dividing_sizes(model, choice.name, matched)), model.support.compute_dtype
    fixes = [f"group_size: {size}" for size in sizes if size is not None]
    others = [name for name, row in model.backend.schemes.items() if row.compute_dtype == dtype and name != choice.name]
    fit = next((name for name in others if _dividing_sizes(model, name, matched)), dtype)
    fixes.append(f"an override of these matrices to another scheme, as `{_folded(alike)[0]}: {fit}`")
    return SpeccError(
        "SPC309",
        place,
        f"{form.group_size} does not divide in_features {width} of `{'`, `'.join(_folded(alike))}` "
        f"({len(alike)} matrices)",
        f"{choice.name} stores one scale for each whole group along in_features",
        ", or ".join(fixes),
    )


def _dividing_sizes(model: QuantizedModel, scheme: str, matched: Shapes) -> list[int | None]:
    """Return the group sizes of a scheme's formats that hold these matrices; None: a scale a channel or a matrix."""
    formats = model.backend.schemes[scheme].formats
    return [form.group_size for form in formats if not _undivided(form, matched)]


def _folded(names: Shapes | list[str]) -> list[str]:
    """Return names with layers and experts as `*`, each once."""
    return list(dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name.removesuffix(".weight")) for name in names))


def _refuse_details(model: QuantizedModel, stated: SchemeChoice) -> None:
    words = {"group_size", "zero_point", "granularity", "method"} & stated.model_fields_set
    if words:
        raise SpeccError(
            "SPC302",
            model.recipe.place(model.role, "scheme"),
            f"{stated.name} with {', '.join(sorted(words))}",
            f"{stated.name} stores floats: there is nothing to group or to round",
            f"scheme: {stated.name}, or a scheme of integers",
        )


def _check_embedding(model: QuantizedModel, rows: tuple[WeightRow, ...]) -> None:
    row = weight_row(rows, EMBEDDING)
    if row is None or row.format is None:
        return
    tied = ", which is also the head" if model.facts.tie_word_embeddings else ""
    if not model.backend.quantized_embedding or row.format.zero_point:
        raise SpeccError(
            "SPC302",
            model.recipe.place(model.role, "overrides"),
            f"an embedding{tied} of {row.format.title} on {model.backend.name}",
            "rows of an embedding are looked up, and that back end looks up "
            + ("symmetric codes and floats only" if model.backend.quantized_embedding else "floats only"),
            "another scheme for `embedding` or `head`, or no override of them",
        )


def _check_methods(model: QuantizedModel, rows: tuple[WeightRow, ...]) -> None:
    """Check that one method at most looks at activations: each would need factors or codes of its own."""
    methods = tuple(dict.fromkeys(row.method for row in rows if row.method in CALIBRATED_METHODS))
    if len(methods) > 1:
        raise SpeccError(
            "SPC302",
            model.recipe.place(model.role, "overrides"),
            f"methods {' and '.join(methods)} in one model",
            "they change the same weights in different ways before rounding",
            f"method: {methods[0]} for all, or rtn or mse in overrides",
        )
