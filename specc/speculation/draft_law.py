"""The distribution q that a draft was drawn from, as the engine takes it: its support and the probabilities there."""

from __future__ import annotations

import numpy as np

from specc.speculation.noise import Float32Array, Int64Array
from specc.speculation.rules import RealArray


def dense_q(q_ids: Int64Array, q_probs: Float32Array, drafts: Int64Array, vocab_size: int) -> RealArray:
    """Return q over the vocabulary, float64 [...,V].

    Entries whose id is negative or beyond the vocabulary, or whose probability is 0, state nothing. A draft that q does
    not list was not drawn from it: its q is one-hot, so that the neutral fill states deterministic drafts.

    Args:
        q_ids: int64 [...,Kq], distinct ids; -1 is padding.
        q_probs: float32 [...,Kq], sum 1 for drafts that were drawn.
        drafts: int64 [...], the draft of each.
        vocab_size: V.

    Source: docs/engine-abi.md rule 9.
    """
    valid = (q_ids >= 0) & (q_ids < vocab_size) & (q_probs > 0)
    listed = (valid & (q_ids == drafts[..., None])).any(axis=-1)[..., None]
    dense = np.zeros((*drafts.shape, vocab_size + 1))
    slots = np.where(valid & listed, q_ids, vocab_size)
    np.put_along_axis(dense, slots, np.where(valid & listed, q_probs, 0).astype(np.float64), axis=-1)
    one_hot = np.arange(vocab_size) == drafts[..., None]
    return np.asarray(np.where(listed, dense[..., :vocab_size], one_hot))
