"""Whether a token's logits depend on how many tokens a call computes: the same positions one a call, and several.

Each way writes its own caches, as AR decoding and verification do. Where weights are floats, the difference is that of
float32 sums in another order. Where activations are rounded to 8 bits inside a product, such a difference can turn a
rounding, and the logits move by whole steps.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from specc.bundle.certificate import RowsCheck
from specc.bundle.manifest import LimitsSpec
from specc.certify.logits import LogitsEngine
from specc.certify.parity import Ids

POSITIONS: Final = 40


def check_rows(logits: LogitsEngine, ids: Ids, limits: LimitsSpec) -> RowsCheck:
    """Compare the logits of the last positions of a text, one token a call and max_gamma + 1 tokens a call.

    Args:
        logits: of the bundle.
        ids: at least two.
        limits: of the bundle.
    """
    first = max(1, len(ids) - POSITIONS)
    tokens = min(limits.max_gamma + 1, limits.prefill_chunk)
    alone, among = logits.after(ids, first, 1), logits.after(ids, first, tokens)
    two = np.sort(np.partition(alone, -2, axis=1)[:, -2:], axis=1)
    flipped = alone.argmax(axis=1) != among.argmax(axis=1)
    return RowsCheck(
        positions=len(alone),
        tokens=tokens,
        differing=int((alone != among).any(axis=1).sum()),
        difference=float(np.abs(alone - among).max()),
        flips=int(flipped.sum()),
        flip_margin=float((two[:, 1] - two[:, 0])[flipped].max(initial=0.0)),
    )
