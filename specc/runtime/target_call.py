"""Arrays of a target call from its rows, and what it gave back, as docs/engine-abi.md states them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccBug, SpeccError
from specc.runtime.call_costs import CallShape
from specc.runtime.draft_law import DraftLaw
from specc.runtime.request import NEUTRAL, Sampling
from specc.runtime.runners.runner import DTYPES, Array, Arrays, neutral_inputs

KNOWN_INPUTS: Final = (
    "input_ids",
    "num_tokens",
    "past_lengths",
    "logit_rows",
    "num_draft",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
)
Q_INPUTS: Final = ("q_ids", "q_probs")


@dataclass(frozen=True)
class Row:
    """One row with work: committed tokens that are not in the cache yet, the anchor last, then drafts.

    `q` is what the drafts were drawn from, None when they were determined.
    """

    committed: tuple[int, ...]
    drafts: tuple[int, ...]
    past: int
    sampling: Sampling
    q: DraftLaw | None = None

    @property
    def tokens(self) -> int:
        """Valid tokens of the row."""
        return len(self.committed) + len(self.drafts)

    @property
    def logit_rows(self) -> int:
        """Logit rows that the row needs."""
        return len(self.drafts) + 1


@dataclass(frozen=True)
class IdleRow:
    """A row without work; its cache of `past` valid rows stays as it is."""

    past: int


@dataclass(frozen=True)
class RowResult:
    """What a call gave a row: the emitted tokens, how many drafts are among them, the valid cache rows."""

    tokens: list[int]
    num_accepted: int
    next_past: int


def check_inputs(spec: EngineSpec, more: tuple[str, ...] = ()) -> None:
    """Refuse an engine that requires an input this runtime does not know.

    Args:
        spec: the engine.
        more: inputs that are known of engines of its variant.

    Raises:
        SpeccError: SPC711.
    """
    known = {*KNOWN_INPUTS, *Q_INPUTS, *more, *(cache.input for cache in spec.caches)}
    for tensor in spec.inputs:
        if tensor.required and tensor.name not in known:
            raise SpeccError(
                "SPC711",
                f"{spec.file} {tensor.name}",
                f"the engine requires the input {tensor.name} {list(tensor.shape)}",
                f"this runtime knows {', '.join((*KNOWN_INPUTS, *more))} and the caches",
                "run the bundle with the version of specc that built it",
            )


def inputs_from_rows(spec: EngineSpec, shape: CallShape, rows: list[Row | IdleRow]) -> Arrays:
    """Return every non-cache input of the engine for the rows of one call.

    Args:
        spec: the target engine.
        shape: B, S and R of the call; every row fits.
        rows: row b of the call, idle ones included.
    """
    columns = [_columns_from_row(row) for row in rows]
    given: Arrays = {}
    for tensor in spec.plain_inputs:
        if tensor.name == "input_ids":
            given[tensor.name] = _ids(shape, rows)
        elif tensor.name == "logit_rows":
            given[tensor.name] = _logit_rows(shape, rows)
        elif tensor.name in columns[0]:
            given[tensor.name] = np.array([column[tensor.name] for column in columns], dtype=DTYPES[tensor.dtype])
    return neutral_inputs(spec, shape.batch, given | _q_arrays(spec, shape, rows))


def results_from_outputs(outputs: Arrays, rows: list[Row | IdleRow]) -> list[RowResult | None]:
    """Return the result of each row of a call, None for idle rows.

    Raises:
        SpeccBug: the outputs contradict the ABI.
    """
    tokens, accepted = outputs["tokens"].tolist(), outputs["num_accepted"].tolist()
    next_past = outputs["next_past"].tolist()
    results: list[RowResult | None] = []
    for b, row in enumerate(rows):
        if isinstance(row, IdleRow):
            results.append(None)
            continue
        a = int(accepted[b])
        result = RowResult(tokens=[int(t) for t in tokens[b][: a + 1]], num_accepted=a, next_past=int(next_past[b]))
        expected_past = row.past + len(row.committed) + a
        agreed = tuple(result.tokens[:a]) == row.drafts[:a]
        if not (0 <= a <= len(row.drafts) and agreed and min(result.tokens) >= 0 and result.next_past == expected_past):
            raise SpeccBug(f"the engine gave row {b} tokens {result.tokens}, {a} accepted, next_past {next_past[b]}")
        results.append(result)
    return results


def _ids(shape: CallShape, rows: list[Row | IdleRow]) -> Array:
    ids = np.zeros((shape.batch, shape.tokens), dtype=np.int64)
    for b, row in enumerate(rows):
        if isinstance(row, Row):
            ids[b, : row.tokens] = row.committed + row.drafts
    return ids


def _logit_rows(shape: CallShape, rows: list[Row | IdleRow]) -> Array:
    asked = [[0] * shape.logit_rows for _ in rows]
    for b, row in enumerate(rows):
        if isinstance(row, Row):
            anchor, last = len(row.committed) - 1, row.tokens - 1
            asked[b] = [min(anchor + index, last) for index in range(shape.logit_rows)]
    return np.array(asked, dtype=np.int64)


def _q_arrays(spec: EngineSpec, shape: CallShape, rows: list[Row | IdleRow]) -> Arrays:
    """Return q_ids and q_probs where a row's drafts were drawn; the neutral fill says of the others that they were not.

    Entry j of a row is the distribution of the draft that is judged at its logit row j.
    """
    drawn = {b: row.q for b, row in enumerate(rows) if isinstance(row, Row) and row.q is not None}
    widths = {tensor.name: tensor.shape[2] for tensor in spec.plain_inputs if tensor.name in Q_INPUTS}
    if not drawn or not widths:
        return {}
    stated = widths["q_ids"]
    width = stated if isinstance(stated, int) else max(q.ids.shape[1] for q in drawn.values())
    ids = np.full((shape.batch, shape.logit_rows, width), -1, dtype=np.int64)
    probs = np.zeros(ids.shape, dtype=np.float32)
    for b, q in drawn.items():
        count, support = q.ids.shape
        ids[b, :count, :support], probs[b, :count, :support] = q.ids, q.probs
    return {"q_ids": ids, "q_probs": probs}


def _columns_from_row(row: Row | IdleRow) -> dict[str, float]:
    if isinstance(row, IdleRow):
        sampling, tokens, drafts = NEUTRAL, 0, 0
    else:
        sampling, tokens, drafts = row.sampling, row.tokens, len(row.drafts)
    return {"num_tokens": tokens, "past_lengths": row.past, "num_draft": drafts, **sampling.columns()}
