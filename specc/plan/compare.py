"""Variants of a recipe side by side: one key varied, the rest as it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from specc.catalog.gpus import GB, gigabytes_text
from specc.errors import SpeccError
from specc.plan.cost import Interval
from specc.plan.prediction import Prediction
from specc.plan.preview import Preview
from specc.recipe.schema import Recipe

AXES: Final[dict[str, str]] = {"gpus": "gpu.name", "schemes": "target.scheme", "gamma": "gamma", "drafts": "draft.kind"}
"""What can be varied, and the recipe's key behind it."""

MODEL_KINDS: Final = ("model", "self")
"""Kinds that only a recipe can describe; a comparison keeps what it says of them."""

COLUMNS: Final = ("GB", "AR/s", "best", "batch 1", "max batch", "pays", "builds")


@dataclass(frozen=True)
class Variant:
    """One row of a comparison.

    Attributes:
        label: the varied value.
        overrides: `key=value` over the recipe.
        drafter: a drafter that a recipe cannot name; None: the recipe's.
        fixed_gamma: the row is about this gamma, not about the best one; None: the best.
    """

    label: str
    overrides: tuple[str, ...]
    drafter: Literal["eagle3"] | None = None
    fixed_gamma: int | None = None


def variants_from_text(text: str, own: Recipe) -> tuple[Variant, ...]:
    """Return the variants that `--compare` names.

    Args:
        text: `gpus=a,b`, `schemes=a,b`, `gamma=1..12` or `gamma=2,4`, `drafts=a,b`.
        own: the recipe: what only it describes, a draft model or a GPU of its own, can be compared as it stands there.

    Raises:
        SpeccError: SPC308 no such axis or value.
    """
    axis, _, values = text.partition("=")
    names = _gammas(text, values) if axis == "gamma" else [name.strip() for name in values.split(",")]
    if axis not in AXES or not all(names):
        got = f"unknown axis {axis!r}" if axis not in AXES else "a value is empty"
        raise _wrong(text, got, f"compare {', '.join(f'{known}=...' for known in AXES)}")
    if axis == "drafts":
        return tuple(_draft_variant(text, name, own.draft.kind) for name in names)
    if axis == "gamma":
        return tuple(
            Variant(name, (f"gamma={{max: {name}, default: {name}}}",), fixed_gamma=int(name)) for name in names
        )
    if axis == "gpus":
        return tuple(_gpu_variant(name, own) for name in names)
    return tuple(Variant(name, (f"{AXES[axis]}={json.dumps(name)}",)) for name in names)


def _gpu_variant(name: str, own: Recipe) -> Variant:
    if not own.gpu.own:
        return Variant(name, (f"gpu.name={json.dumps(name)}",))
    # the facts of the recipe's own GPU must not stay behind under another name
    return Variant(name, () if name == own.gpu.name else (f"gpu={{name: {json.dumps(name)}, count: {own.gpu.count}}}",))


def _gammas(text: str, values: str) -> list[str]:
    first, dots, last = values.partition("..")
    parts = [first, last] if dots else values.split(",")
    if not all(part.strip().isdecimal() and 1 <= int(part) <= 256 for part in parts):
        raise _wrong(text, f"{values!r} are not numbers of drafts from 1 to 256", "write gamma=1..12 or gamma=2,4,8")
    if dots and int(first) > int(last):
        raise _wrong(text, f"{values!r} ends before it begins", f"write gamma={last}..{first}")
    return [str(gamma) for gamma in range(int(first), int(last) + 1)] if dots else [part.strip() for part in parts]


def _draft_variant(text: str, name: str, own: str) -> Variant:
    if name == "eagle3":
        return Variant(name, (), drafter="eagle3")
    if name == own:
        return Variant(name, ())
    if name in MODEL_KINDS:
        got = f"drafts of kind {name}, which only a recipe can describe; the draft of this one is of kind {own}"
        raise _wrong(text, got, f"put `draft: {{kind: {name}, ..}}` into the recipe")
    if name == "none":
        return Variant(name, (f"draft={{kind: {json.dumps(name)}}}", "gamma=auto"))
    return Variant(name, (f"draft={{kind: {json.dumps(name)}}}",))


def _wrong(text: str, got: str, fix: str) -> SpeccError:
    return SpeccError("SPC308", f"--compare {text}", got, "a comparison varies one key of the recipe", fix)


def comparison_row(variant: Variant, preview: Preview) -> list[str]:
    """Return the cells of a variant: its label, then those of `COLUMNS`.

    A variant of one gamma is about batch 1 alone: elsewhere another gamma may be the best.
    """
    amount = preview.memory_bytes / GB
    gigabytes = f"{amount:.1f}" if amount >= 1 else f"{amount:.2g}"
    builds = "yes" if preview.refused is None else preview.refused.split(" ", 1)[0]
    if preview.available is not None and preview.memory_bytes > preview.available:
        gigabytes += f" > {gigabytes_text(preview.available).removesuffix(' GB')}"
    outlook = preview.prediction
    if not isinstance(outlook, Prediction):
        return [variant.label, gigabytes, "-", "-", "not predicted", "-", "-", builds]
    first, last = outlook.at_batch(1), outlook.at_batch(preview.limits.max_batch)
    if variant.fixed_gamma is not None:
        only = _short(outlook.gammas[-1].speedup)
        gamma = str(variant.fixed_gamma)
        return [variant.label, gigabytes, f"{first.ar_user_tokens:.0f}", gamma, only, "-", "-", builds]
    return [
        variant.label, gigabytes, f"{first.ar_user_tokens:.0f}", str(first.gamma), _short(first.speedup),
        _short(last.speedup), _paying(outlook), builds,
    ]  # fmt: skip


def _paying(outlook: Prediction) -> str:
    """Return the batches at which drafts gain: `1-168`, `96+`, or `none`."""
    if not outlook.gammas:
        return "-"
    if outlook.pays_from is None:
        return "none"
    ends = outlook.crossover_batch
    return f"{outlook.pays_from}+" if ends is None else f"{outlook.pays_from}-{ends - 1}"


def _short(interval: Interval) -> str:
    if interval.low == interval.high:
        return f"{interval.mid:.2f}"
    return f"{interval.mid:.2f} {interval.low:.1f}-{interval.high:.1f}"


def interval_text(interval: Interval) -> str:
    """Return an interval as `1.83 1.21-2.90`; a point alone where it is known exactly."""
    if interval.low == interval.high:
        return f"{interval.mid:.2f}"
    return f"{interval.mid:.2f} {interval.low:.2f}-{interval.high:.2f}"


def rate_text(interval: Interval) -> str:
    """Return tokens a second with their interval, as `87.3 71.0-104.0` or `1240 980-1510`."""
    digits = 1 if interval.high < 100 else 0
    if interval.low == interval.high:
        return f"{interval.mid:.{digits}f}"
    return f"{interval.mid:.{digits}f} {interval.low:.{digits}f}-{interval.high:.{digits}f}"
