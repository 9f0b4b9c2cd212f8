"""Acceptance of a chain of drafts, and the whole tail of the target graph: the oracle that compiled engines must equal.

A draft is accepted iff all before it were and it equals the target's own pick at its row (docs/engine-abi.md rule 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.speculation.noise import Float32Array, Int64Array
from specc.speculation.sampling import Picks, SamplingRows, target_picks

Array: TypeAlias = npt.NDArray[Any]
Inputs: TypeAlias = Mapping[str, Array]

NO_TOKEN: Final = -1


@dataclass(frozen=True, eq=False)
class AcceptedChain:
    """The outputs of a target call; the names are those of the ABI.

    Attributes:
        tokens: int64 [B,R], accepted drafts, then the target's own next token, then -1.
        num_accepted: int64 [B].
        next_token: int64 [B], the next anchor.
        next_past: int64 [B], valid cache rows after the call.
        accepted_rows: int64 [B,R], cache rows of the anchor and the accepted drafts, then -1.
    """

    tokens: Int64Array
    num_accepted: Int64Array
    next_token: Int64Array
    next_past: Int64Array
    accepted_rows: Int64Array


@dataclass(frozen=True, eq=False)
class VerifiedStep:
    """The oracle's outputs of a call, and the picks they came from.

    Attributes:
        outputs: every output of the ABI except the caches, by name, `token_logprobs` included.
        picks: the target's pick of each logit row with its gap, for counting near ties.
        positions: int64 [B,R], absolute position of the token that each row may emit.
    """

    outputs: dict[str, Array]
    picks: Picks
    positions: Int64Array


def accept_chain(
    *,
    picks: Int64Array,
    drafts: Int64Array,
    num_draft: Int64Array,
    num_tokens: Int64Array,
    past_lengths: Int64Array,
    logit_rows: Int64Array,
) -> AcceptedChain:
    """Return what a call emits and keeps.

    Args:
        picks: int64 [B,R], the target's own pick of each logit row.
        drafts: int64 [B,R-1] or wider, draft j stands in column j; columns from num_draft on are ignored.
        num_draft: int64 [B], at most R-1.
        num_tokens: int64 [B]; 0 makes the row idle.
        past_lengths: int64 [B], valid cache rows before the call.
        logit_rows: int64 [B,R], index of the anchor, then of each draft.

    Returns:
        The accepted chain. An idle row has tokens, next_token and accepted_rows -1, num_accepted 0 and next_past
        unchanged.

    Source: docs/engine-abi.md, "Outputs of the target".
    Checked by: tests/unit/speculation/test_acceptance.py
    """
    rows = picks.shape[1]
    column = np.arange(rows, dtype=np.int64)
    equal = (drafts[:, : rows - 1] == picks[:, : rows - 1]) & (column[: rows - 1] < num_draft[:, None])
    accepted = np.cumprod(equal, axis=1, dtype=np.int64).sum(axis=1)  # [B], length of the leading run
    idle = num_tokens == 0
    emitted = (column <= accepted[:, None]) & ~idle[:, None]
    own = np.take_along_axis(picks, accepted[:, None], axis=1)[:, 0]
    return AcceptedChain(
        tokens=np.where(emitted, picks, NO_TOKEN),
        num_accepted=np.where(idle, 0, accepted),
        next_token=np.where(idle, NO_TOKEN, own),
        next_past=np.where(idle, past_lengths, past_lengths + logit_rows[:, 0] + accepted + 1),
        accepted_rows=np.where(emitted, past_lengths[:, None] + logit_rows, NO_TOKEN),
    )


def verify_step(logits: Float32Array, inputs: Inputs, candidates: int) -> VerifiedStep:
    """Return what a target engine must give for the logits of its logit rows.

    Args:
        logits: float32 [B,R,V].
        inputs: the engine's inputs by ABI name; absent optional ones take their neutral fill, caches are ignored.
        candidates: truncated sampling is defined on this many largest logits (manifest).

    Returns:
        Outputs by ABI name, picks and positions.
    """
    logit_rows, past_lengths = inputs["logit_rows"], inputs["past_lengths"]
    batch = logit_rows.shape[0]
    positions = past_lengths[:, None] + logit_rows + 1
    picks = target_picks(logits, sampling_from_inputs(inputs, batch), positions, candidates)
    row_tokens = np.take_along_axis(inputs["input_ids"], logit_rows, axis=1)  # [B,R]: the anchor, then the drafts
    chain = accept_chain(
        picks=picks.ids,
        drafts=row_tokens[:, 1:],
        num_draft=inputs.get("num_draft", np.zeros(batch, dtype=np.int64)),
        num_tokens=inputs["num_tokens"],
        past_lengths=past_lengths,
        logit_rows=logit_rows,
    )
    outputs: dict[str, Array] = {
        "tokens": chain.tokens,
        "num_accepted": chain.num_accepted,
        "next_token": chain.next_token,
        "next_past": chain.next_past,
        "accepted_rows": chain.accepted_rows,
        "token_logprobs": token_logprobs(logits, chain.tokens),
    }
    return VerifiedStep(outputs=outputs, picks=picks, positions=positions)


def token_logprobs(logits: Float32Array, tokens: Int64Array) -> Float32Array:
    """Return the log-probability of each token under the unprocessed logits; 0 where the token is -1.

    Args:
        logits: float32 [B,R,V].
        tokens: int64 [B,R].

    Returns:
        float32 [B,R].
    """
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(shifted).sum(axis=-1))
    own = np.take_along_axis(shifted, np.maximum(tokens, 0)[..., None], axis=-1)[..., 0]
    return np.where(tokens == NO_TOKEN, 0.0, own - log_total).astype(np.float32)


def sampling_from_inputs(inputs: Inputs, batch: int) -> SamplingRows:
    """Return the sampling inputs of a call of `batch` rows, absent ones with their neutral fill."""
    zeros = np.zeros(batch)
    return SamplingRows(
        temperature=inputs.get("temperature", zeros).astype(np.float32),
        top_k=inputs.get("top_k", zeros).astype(np.int64),
        top_p=inputs.get("top_p", zeros + 1).astype(np.float32),
        min_p=inputs.get("min_p", zeros).astype(np.float32),
        seed=inputs.get("seed", zeros).astype(np.int64),
    )
