"""Speculative rounds on a toy pair, many seeds at once; the oracle, a mutant of it or an engine judges the drafts.

Target and draft are Markov chains over a few ids, so that the law of a text is known in closed form. What the exact
enumeration cannot see is seen here: noise that two draws, two positions or two rounds share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.speculation.judged import judged_step
from specc.speculation.modes import MODES
from specc.speculation.noise import Stream, gumbel, noise_bits, round_seed
from specc.speculation.rules import Rule
from specc.speculation.sampling import sampling_rows
from tests.acceptance_law import Pair
from tests.judged_calls import Arrays, inputs_of
from tests.sampling_law import Setting, law_p

Ids: TypeAlias = npt.NDArray[np.int64]
Judge: TypeAlias = Callable[[Any, Arrays], Arrays]
"""(logits [B,R,V], inputs of the call) -> at least `tokens` and `num_accepted`."""

GAMMA = 3
TOKENS = 3
SEEDS = np.random.default_rng(11).integers(0, 1 << 32, 20_000)
FIRST = 40  # position of the first token


@dataclass(frozen=True)
class Toy:
    """Logits of the next id after each id, float32 [V,V]."""

    target: npt.NDArray[np.float32]
    draft: npt.NDArray[np.float32]


def toy(size: int = 4, spread: float = 0.5, noise: float = 2.5) -> Toy:
    """Return a target and a draft that is the target plus noise."""
    rng = np.random.default_rng(12)
    target = rng.normal(0, spread, (size, size)).astype(np.float32)
    return Toy(target, (target + rng.normal(0, noise, target.shape)).astype(np.float32))


@dataclass(frozen=True)
class Drafter:
    """How drafts are drawn; the defaults are right, the rest are mutants.

    Attributes:
        stream: of the noise that draws them.
        own_rounds: each round has noise of its own where the mode asks for it.
        greedy: the likeliest id is proposed while q is stated as a softmax.
        every_other: every second round is an AR step.
        determined: the likeliest id is proposed, and q says so.
        temperature: of q; the requests' own by default.
        known: [N,TOKENS+GAMMA], texts that are proposed, whatever was generated; None drafts.
    """

    stream: Stream = Stream.DRAFT
    own_rounds: bool = True
    greedy: bool = False
    every_other: bool = False
    determined: bool = False
    temperature: float | None = None
    known: Ids | None = None


RIGHT = Drafter()


def oracle_judge(rule: Rule, candidates: int = 64) -> Judge:
    """Return the NumPy oracle as a judge."""
    return lambda logits, inputs: judged_step(logits, inputs, candidates, rule).outputs


def session_judge(session: Any, rule: Rule, support: int = 0) -> Judge:
    """Return a compiled verification as a judge; with `support` it takes q of that many entries."""

    def judge(logits: Any, inputs: Arrays) -> Arrays:
        names = ["tokens", "num_accepted"]
        feeds = inputs_of(rule, padded_q(inputs, support)) | {"logits": logits}
        return dict(zip(names, session.run(names, feeds), strict=True))

    return judge


def padded_q(inputs: Arrays, support: int) -> Arrays:
    """Return the inputs with q of at least `support` entries."""
    missing = max(support - inputs["q_ids"].shape[2], 0)
    widths = ((0, 0), (0, 0), (0, missing))
    q_ids = np.pad(inputs["q_ids"], widths, constant_values=-1)
    return inputs | {"q_ids": q_ids, "q_probs": np.pad(inputs["q_probs"], widths)}


@dataclass(frozen=True)
class Played:
    """What the rounds gave: ids [N,TOKENS], and how many drafts the first round accepted, [N]."""

    ids: Ids
    accepted: Ids

    def p_value(self, law: npt.NDArray[np.float64]) -> float:
        """Return the chi-square p-value of the texts under their law, [V]*TOKENS."""
        size = law.shape[0]
        return law_p(self.ids @ size ** np.arange(TOKENS)[::-1], law.ravel())


def toy_pair(pair: Toy, setting: Setting, candidates: int = 64) -> Pair:
    """Return the laws of the first round, for the exact enumeration."""
    target = np.stack([setting.law(row, candidates) for row in pair.target])
    draft = np.stack([Setting(setting.temperature).law(row, candidates) for row in pair.draft])
    size = len(target)
    levels = [np.broadcast_to(law, (size,) * k + law.shape) for law in (target, draft) for k in range(GAMMA)]
    drawn = (draft[0], *levels[GAMMA : 2 * GAMMA - 1])
    return Pair((target[0], *levels[:GAMMA]), drawn, drawn)


def text_law(pair: Toy, setting: Setting, candidates: int = 64) -> npt.NDArray[np.float64]:
    """Return the law of TOKENS tokens of AR decoding after id 0, [V]*TOKENS."""
    step = np.stack([setting.law(row, candidates) for row in pair.target])
    law = step[0]
    for _ in range(TOKENS - 1):
        law = law[..., None] * step
    return law


def play(judge: Judge, rule: Rule, pair: Toy, setting: Setting, drafter: Drafter = RIGHT) -> Played:
    """Generate TOKENS tokens for each seed, each at its own pace."""
    count = len(SEEDS)
    ids, length = np.zeros((count, TOKENS + GAMMA + 1), dtype=np.int64), np.zeros(count, dtype=np.int64)
    anchor, first, rounds = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64), 0
    while (length < TOKENS).any():
        active = np.flatnonzero(length < TOKENS)
        past = FIRST - 1 + length[active]
        gamma = 0 if drafter.every_other and rounds % 2 else GAMMA
        drafts, q_ids, q_probs = _drafts(rule, pair, setting, drafter, SEEDS[active], anchor[active], past, gamma)
        if drafter.known is not None:
            places = length[active][:, None] + np.arange(gamma)
            drafts, q_ids = drafter.known[active[:, None], places], np.full_like(q_ids, -1)
        outputs = judge(
            pair.target[np.concatenate([anchor[active][:, None], drafts], axis=1)],
            _inputs(setting, SEEDS[active], past, np.concatenate([anchor[active][:, None], drafts], axis=1))
            | {"q_ids": q_ids, "q_probs": q_probs},
        )
        taken = outputs["num_accepted"]
        for j in range(gamma + 1):
            rows = active[taken >= j]
            ids[rows, length[rows] + j] = outputs["tokens"][taken >= j, j]
        anchor[active] = np.take_along_axis(outputs["tokens"], taken[:, None], axis=1)[:, 0]
        length[active] += taken + 1
        first, rounds = taken if rounds == 0 else first, rounds + 1
    return Played(ids[:, :TOKENS], first)


def _inputs(setting: Setting, seeds: Ids, past: Ids, row: Ids) -> Arrays:
    sampling = sampling_rows(seeds, setting.temperature, setting.top_k, setting.top_p, setting.min_p)
    batch, tokens = row.shape
    return {
        "input_ids": row,
        "num_tokens": np.full(batch, tokens),
        "past_lengths": past,
        "logit_rows": np.tile(np.arange(tokens), (batch, 1)),
        "num_draft": np.full(batch, tokens - 1),
        **vars(sampling),
    }


def _drafts(rule, pair, setting, drafter, seeds, last, past, gamma):  # noqa: PLR0917 - a test's own helper
    size, batch = len(pair.draft), len(last)
    drafts = np.zeros((batch, gamma), dtype=np.int64)
    q_ids = np.full((batch, gamma + 1, size), -1)
    q_probs = np.zeros(q_ids.shape, dtype=np.float32)
    if MODES[rule.mode].redraws and drafter.own_rounds:
        seeds = round_seed(seeds, past + 1)
    temperature = drafter.temperature or setting.temperature
    for j in range(gamma):
        z = pair.draft[last] / temperature
        weights = np.exp(z - z.max(axis=1, keepdims=True))
        noise = gumbel(noise_bits(seeds[:, None], drafter.stream, past[:, None] + j + 1, np.arange(size)))
        picks = z.argmax(axis=1) if drafter.greedy or drafter.determined else (z + noise).argmax(axis=1)
        q = weights / weights.sum(axis=1, keepdims=True)
        q_probs[:, j] = np.arange(size) == picks[:, None] if drafter.determined else q
        q_ids[:, j], drafts[:, j], last = np.arange(size), picks, picks
    return drafts, q_ids, q_probs
