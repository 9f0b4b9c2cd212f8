"""A head with a vocabulary of its own: its size, and the map into the target's ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from specc.checkpoint.source import TensorHeader
from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Evidence, Finding, Fix
from specc.doctor.head_kind import head_kind, tensor_named
from specc.doctor.rule import Rule

INTEGERS: Final[dict[str, npt.DTypeLike]] = {"i64": "<i8", "i32": "<i4"}
FIX: Final = Fix("take the head's config.json and weights from one release, made for this target")


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    draft = pair.draft
    if draft is None or draft.config is None or head_kind(draft) is None:
        return
    place = pair.recipe.place("draft", "model")
    head, offsets = tensor_named(draft, "lm_head.weight"), tensor_named(draft, "d2t")
    if head is None or len(head.shape) != 2:
        return
    rows = head.shape[0]
    yield from _stated_size(draft, head, rows, place)
    if offsets is not None and offsets.shape != (rows,):
        yield _map(place, offsets, f"{list(offsets.shape)} entries", (f"{rows} rows of lm_head", str(head.file)))
    elif offsets is not None and pair.target.sizes is not None and offsets.encoding in INTEGERS:
        yield from _mapped(place, offsets, pair.target.sizes.vocab_size, pair.target.config_place)


def _stated_size(draft: ModelEvidence, head: TensorHeader, rows: int, place: str) -> Iterator[Finding]:
    assert draft.config is not None
    stated = draft.config.mapping.get("draft_vocab_size")
    implied = stated if stated is not None else draft.config.mapping.get("vocab_size")
    if implied == rows:
        return
    key = "draft_vocab_size" if stated is not None else "vocab_size, without draft_vocab_size"
    evidence = ((str(implied), f"{draft.config.path} {key}"), (f"{rows} rows of lm_head", str(head.file)))
    message = "The head's own vocabulary is what its tensor says; the configuration contradicts it."
    fix = Fix(f'"draft_vocab_size": {rows} in the head\'s config.json, if it belongs to these weights')
    yield Finding("SPC340", "error", place, evidence, message, fix)


def _mapped(place: str, header: TensorHeader, vocab_size: int, target: str) -> Iterator[Finding]:
    """Check where the map leads: id + offset must be an id of the target. It is an index, a few hundred kilobytes."""
    with header.file.open("rb") as file:
        file.seek(header.offset)
        offsets = np.frombuffer(file.read(header.nbytes), INTEGERS[header.encoding])
    ids = np.arange(offsets.shape[0]) + offsets.astype(np.int64)
    outside = np.flatnonzero((ids < 0) | (ids >= vocab_size))
    if outside.size:
        first = int(outside[0])
        got = f"{outside.size} ids lead outside, as {first} to {ids[first]}"
        yield _map(place, header, got, (f"{vocab_size} ids", f"{target} vocab_size"))
    elif np.unique(ids).size != ids.size:
        got = f"{ids.size - np.unique(ids).size} ids lead to one that another leads to"
        yield _map(place, header, got, (f"{ids.size} ids", str(header.file)))


def _map(place: str, header: TensorHeader, got: str, other: tuple[str, str]) -> Finding:
    evidence: Evidence = ((got, f"d2t in {header.file}"), other)
    message = "The map from the head's ids to the target's would propose wrong tokens, or none that exist."
    return Finding("SPC340", "error", place, evidence, message, FIX)


RULE: Final = Rule("draft_vocabulary", ("draft headers", "draft config"), _findings)
