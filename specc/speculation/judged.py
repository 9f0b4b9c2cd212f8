"""The tail of a target graph that judges by probabilities (`rules.py`): the oracle that compiled engines must equal.

Greedy rows are as in every mode: a draft passes iff it equals the largest logit's lowest id, and that id is emitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from specc.speculation.acceptance import NO_TOKEN, AcceptedChain, Array, Inputs, sampling_from_inputs, token_logprobs
from specc.speculation.draft_law import dense_q
from specc.speculation.noise import Float32Array, Int64Array, Stream, noise_bits, uniform
from specc.speculation.rules import (
    JudgedChain,
    RealArray,
    Rule,
    num_accepted_from_passes,
    odds_from_chain,
    own_law,
)
from specc.speculation.sampling import (
    BoolArray,
    SamplingRows,
    greedy_pick,
    greedy_rows,
    kept_candidates,
    scaled_logits,
)


@dataclass(frozen=True, eq=False)
class JudgedStep:
    """The oracle's outputs of a call, and where rounding decides.

    Attributes:
        outputs: every output of the ABI except the caches, by name, `token_logprobs` included.
        near: bool [B], rows whose result an engine may miss by rounding alone; such a row is counted, not wrong.
    """

    outputs: dict[str, Array]
    near: BoolArray


def processed_probabilities(logits: Float32Array, sampling: SamplingRows, candidates: int) -> RealArray:
    """Return the distributions that AR decoding draws from, float64 [B,R,V]; one-hot in greedy rows.

    Args:
        logits: float32 [B,R,V].
        sampling: settings of the B rows.
        candidates: truncated sampling is defined on this many largest logits (manifest).

    Source: docs/engine-abi.md rule 6.
    """
    weights = np.exp(scaled_logits(logits, sampling.temperature).astype(np.float64))
    kept = np.where(kept_candidates(logits, sampling, candidates), weights, 0)
    sampled = kept / kept.sum(axis=-1, keepdims=True)
    one_hot = np.arange(logits.shape[-1]) == greedy_pick(logits)[..., None]
    return np.asarray(np.where(greedy_rows(sampling)[:, None, None], one_hot, sampled), dtype=np.float64)


def judged_step(
    logits: Float32Array, inputs: Inputs, candidates: int, rule: Rule, *, epsilon: float = 0.0
) -> JudgedStep:
    """Return what a target engine must give for the logits of its logit rows.

    Args:
        logits: float32 [B,R,V].
        inputs: the engine's inputs by ABI name; absent optional ones take their neutral fill, caches are ignored.
        candidates: truncated sampling is defined on this many largest logits (manifest).
        rule: the acceptance mode.
        epsilon: relative error of a probability or a threshold for which a row is marked as `near`.

    Source: docs/engine-abi.md rules 5 to 7 and 9.
    Checked by: tests/unit/speculation/test_judged.py, tests/numerics/test_judged_graph.py
    """
    sampling = sampling_from_inputs(inputs, len(inputs["num_tokens"]))
    call = _Call(logits, inputs, candidates, rule)
    chain = call.judged(sampling)
    near = np.zeros(len(inputs["num_tokens"]), dtype=np.bool_)
    for sign in (-1, 1) if epsilon else ():
        step = np.float32(sign * epsilon)
        settings = (
            sampling,
            replace(sampling, top_p=np.where(sampling.top_p < 1, sampling.top_p + step, sampling.top_p)),
            replace(sampling, min_p=np.where(sampling.min_p > 0, sampling.min_p + step, sampling.min_p)),
        )
        for moved in settings:
            for passed_by, scale in ((step, 1), (0, 1 + step)):
                other = call.judged(moved, moved_odds=float(passed_by), scale=float(scale), gap=epsilon)
                near |= (other.tokens != chain.tokens).any(axis=1)
    outputs: dict[str, Array] = dict(vars(chain)) | {"token_logprobs": token_logprobs(logits, chain.tokens)}
    return JudgedStep(outputs, near & ~greedy_rows(sampling))


@dataclass(frozen=True, eq=False)
class _Call:
    logits: Float32Array
    inputs: Inputs
    candidates: int
    rule: Rule

    def judged(
        self, sampling: SamplingRows, *, moved_odds: float = 0.0, scale: float = 1.0, gap: float = 0.0
    ) -> AcceptedChain:
        """Return the chain; a nonzero `moved_odds`, `scale` or `gap` says what rounding of that size could give."""
        logit_rows, past = self.inputs["logit_rows"], self.inputs["past_lengths"]
        num_tokens = self.inputs["num_tokens"]
        batch, rows, width = self.logits.shape
        num_draft = self.inputs.get("num_draft", np.zeros(batch, dtype=np.int64))
        drafts = np.take_along_axis(self.inputs["input_ids"], logit_rows, axis=1)[:, 1:]
        p = processed_probabilities(self.logits, sampling, self.candidates) * scale
        chain = JudgedChain(p, self._q(drafts, width), drafts, num_draft)
        odds = odds_from_chain(self.rule, chain)
        position = past[:, None] + logit_rows + 1
        u = accept_uniforms(self.rule, sampling.seed, position)
        passes = u * odds.denominator < odds.numerator + moved_odds * odds.denominator
        greedy = greedy_rows(sampling)[:, None]
        picks = greedy_pick(self.logits)
        right = drafts == picks[:, : rows - 1]
        accepted = np.where(
            greedy[:, 0],
            np.cumprod(right & (np.arange(rows - 1) < num_draft[:, None]), axis=1, dtype=np.int64).sum(axis=1),
            num_accepted_from_passes(self.rule, passes, num_draft),
        )
        at = np.take_along_axis(position, accepted[:, None], axis=1)
        bits = noise_bits(sampling.seed[:, None], Stream.RESIDUAL, at, np.arange(width, dtype=np.int64))
        drawn = race_winners(own_law(self.rule, chain, odds, accepted), bits, gap)
        own = np.where(greedy[:, 0], np.take_along_axis(picks, accepted[:, None], axis=1)[:, 0], drawn)
        return emitted_chain(self.inputs, drafts, np.where(num_tokens == 0, 0, accepted), own)

    def _q(self, drafts: Int64Array, width: int) -> RealArray:
        batch, rows = self.inputs["logit_rows"].shape
        q_ids = self.inputs.get("q_ids", np.full((batch, rows, 1), -1, dtype=np.int64))
        q_probs = self.inputs.get("q_probs", np.zeros((batch, rows, 1), dtype=np.float32))
        stated = dense_q(q_ids[:, : rows - 1], q_probs[:, : rows - 1], drafts, width)
        return np.concatenate([stated, np.zeros((batch, 1, width))], axis=1)


def race_winners(weights: RealArray, bits: Int64Array, gap: float = 0.0) -> Int64Array:
    """Return draws from weights, [B,V], by an exponential race: the largest weight / E, E = -log(u), lowest id on ties.

    Args:
        weights: [B,V], not negative, not all 0.
        bits: int64 [B,V], the noise.
        gap: where the winner is not ahead by this part, -2 is returned, which is no id.
    """
    race = weights / -np.log(uniform(bits)).astype(np.float64)
    winners = np.asarray(np.argmax(race, axis=-1), dtype=np.int64)
    if not gap or weights.shape[-1] == 1:
        return winners
    two = np.partition(race, -2, axis=-1)[:, -2:]
    return np.where(two[:, 0] > two[:, 1] * (1 - gap), -2, winners)


def accept_uniforms(rule: Rule, seed: Int64Array, position: Int64Array) -> Float32Array:
    """Return the uniform of each draft, float32 [B,R-1].

    In the block rule a draft that fails says something of the round that goes on being known, so that its uniforms
    belong to the round: they are keyed by the round's first position and the draft's place in it.

    Args:
        rule: the acceptance mode.
        seed: int64 [B].
        position: int64 [B,R], absolute position of the token that each row may emit.
    """
    places = np.arange(position.shape[1] - 1, dtype=np.int64)
    if rule.mode == "block":
        bits = noise_bits(seed[:, None], Stream.ACCEPT, position[:, :1], places)
    else:
        bits = noise_bits(seed[:, None], Stream.ACCEPT, position[:, :-1], np.zeros(1, dtype=np.int64))
    return uniform(bits)


def emitted_chain(inputs: Inputs, drafts: Int64Array, accepted: Int64Array, own: Int64Array) -> AcceptedChain:
    """Return the outputs of a call that accepts `accepted` drafts (int64 [B]) and then emits `own` (int64 [B])."""
    logit_rows, past, idle = inputs["logit_rows"], inputs["past_lengths"], inputs["num_tokens"] == 0
    column = np.arange(logit_rows.shape[1])
    emitted = (column <= accepted[:, None]) & ~idle[:, None]
    padded = np.concatenate([drafts, np.zeros((len(own), 1), dtype=np.int64)], axis=1)
    ids = np.where(column < accepted[:, None], padded, own[:, None])
    return AcceptedChain(
        tokens=np.where(emitted, ids, NO_TOKEN),
        num_accepted=np.where(idle, 0, accepted),
        next_token=np.where(idle, NO_TOKEN, own),
        next_past=np.where(idle, past, past + logit_rows[:, 0] + accepted + 1),
        accepted_rows=np.where(emitted, past[:, None] + logit_rows, NO_TOKEN),
    )
