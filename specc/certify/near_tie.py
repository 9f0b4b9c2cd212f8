"""How near to a tie an AR step was, by the logits variant of the target engine and the NumPy oracle."""

from __future__ import annotations

from math import isfinite

import numpy as np

from specc.certify.logits import LogitsEngine
from specc.certify.parity import Ids, Judge, Narrowness, ParityCell
from specc.speculation.noise import Float32Array
from specc.speculation.sampling import near_ties, sampling_rows, target_picks


def judge_from_logits(logits: LogitsEngine | None, candidates: int, epsilon: float) -> Judge:
    """Return the judge of AR steps, which computes their logits anew.

    Args:
        logits: of the bundle; without them nothing is known and nothing is ever near a tie.
        candidates: of truncated sampling (manifest).
        epsilon: gap of the two best values under which a step is near a tie.
    """
    if logits is None:
        return unknown_narrowness

    def judge(ids: Ids, cell: ParityCell) -> Narrowness:
        return narrowness(logits.after(ids, len(ids) - 1), ids, cell, candidates, epsilon)

    return judge


def narrowness(logits: Float32Array, ids: Ids, cell: ParityCell, candidates: int, epsilon: float) -> Narrowness:
    """Return how narrowly the step after `ids` was decided; `logits` are its own, float32 [1,V]."""
    rows = sampling_rows(np.array([cell.seed]), cell.temperature, cell.top_k, cell.top_p, cell.min_p)
    position = np.array([[len(ids)]])
    margin = float(target_picks(logits[None], rows, position, candidates).gaps[0, 0])
    near = bool(near_ties(logits[None], rows, position, candidates, epsilon)[0, 0])
    return Narrowness(margin if isfinite(margin) else None, near)


def unknown_narrowness(_ids: Ids, _cell: ParityCell) -> Narrowness:
    """Excuse nothing: the judge for bundles without logits, where no gap can be known."""
    return Narrowness(None, near_tie=False)
