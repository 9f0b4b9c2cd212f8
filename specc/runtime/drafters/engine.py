"""Drafts from a draft engine: a small model, or the first layers of the target over the target's own caches.

A round feeds each row what its draft cache lacks, the anchor last, which gives the first draft; then every draft but
the last is fed for the next one. All rows of a step share these calls. The committed tokens tell how much of the cache
still holds: rows of the tokens fed before, then of the drafts that were accepted, min(L + a, L - 1 + gamma) in all. So
a full acceptance leaves two tokens to feed, and whatever was decoded autoregressively in between is fed in chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from specc.bundle.manifest import LimitsSpec
from specc.errors import SpeccBug
from specc.runtime.call_costs import BurstCosts, CallCosts
from specc.runtime.draft_law import DraftLaw
from specc.runtime.drafters.drafter import Ask, Proposal
from specc.runtime.grouping import CallPlanner, Need
from specc.runtime.runners.runner import Array, Arrays, TargetRunner
from specc.runtime.target_call import Q_INPUTS, IdleRow, Row, check_inputs, inputs_from_rows

# Tokens that an unrolled call takes of a row: the anchor, and the last draft after a full acceptance.
LONGEST_START: Final = 2


@dataclass
class Fed:
    """What the draft's cache holds of one slot.

    Attributes:
        rows: cache rows of committed tokens.
        drafts: tokens of the rows after them, as they were drafted.
    """

    rows: int = 0
    drafts: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Cache rows in all."""
        return self.rows + len(self.drafts)

    def kept(self, ids: Sequence[int]) -> int:
        """Return how many rows hold for these committed tokens; the anchor is to be fed in any case."""
        accepted = 0
        for draft, token in zip(self.drafts, ids[self.rows :], strict=False):
            if draft != token:
                break
            accepted += 1
        return min(self.rows + accepted, len(ids) - 1)


@dataclass
class Burst:
    """One row while it drafts.

    Attributes:
        ask: of the row.
        limit: drafts that it gets: what it asks for, as far as the draft's context reaches.
        past: valid rows of its draft cache.
        pending: tokens to feed in the next call.
        drafts: so far.
        laws: what they were drawn from, each (ids, probabilities); empty when they were not drawn.
    """

    ask: Ask
    limit: int
    past: int
    pending: tuple[int, ...]
    drafts: list[int]
    laws: list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class BurstEngine:
    """An unrolled draft engine, over the caches of the single-step one, and the costs of its calls."""

    runner: TargetRunner
    costs: BurstCosts


class EngineDrafter:
    """A `BatchDrafter` over a loaded draft engine.

    Args:
        runner: the draft engine; this alone steps it.
        limits: of the manifest.
        context: most tokens of a sequence that the draft reads.
        vocab_size: ids that a draft may have.
        costs: of draft calls.
        burst: the engine's unrolled variant, which takes the rows that want most of its drafts; None without one.
        shares_caches: its caches are those of the target's first layers, so that the target feeds them.

    Raises:
        SpeccError: SPC711 the engine requires an input that this runtime does not know.
    """

    def __init__(
        self,
        runner: TargetRunner,
        limits: LimitsSpec,
        *,
        context: int,
        vocab_size: int,
        costs: CallCosts,
        shares_caches: bool,
        burst: BurstEngine | None = None,
    ) -> None:
        for engine in (runner, *(() if burst is None else (burst.runner,))):
            check_inputs(engine.spec)
        self._runner = runner
        self._chunk = max(limits.prefill_chunk, 2)  # as its profiles
        self._context = context
        self._vocab_size = vocab_size
        self._costs = costs
        self._planner = CallPlanner(costs)
        self._burst_engine = burst
        self._burst_planner = None if burst is None else CallPlanner(burst.costs.calls)
        self._shares_caches = shares_caches
        self._fed: dict[int, Fed] = {}

    def begin(self, slot: int) -> None:
        """Forget what the slot held."""
        self._fed.pop(slot, None)

    def propose(self, asks: Mapping[int, Ask], cached: Mapping[int, int]) -> dict[int, Proposal]:
        """Return the proposal of every row that asks for drafts, see BatchDrafter.

        A row that is more than one chunk behind is fed one chunk, and proposes nothing yet.
        """
        self._fed = {slot: fed for slot, fed in self._fed.items() if slot in cached}
        valid = dict(cached) if self._shares_caches else {slot: fed.end for slot, fed in self._fed.items()}
        bursts = {slot: burst for slot, ask in sorted(asks.items()) if (burst := self._burst(slot, ask, cached))}
        if bursts:
            valid |= {slot: burst.past for slot, burst in bursts.items()}
            self._reserve(bursts, valid, slots=self._costs.slots(max(cached) + 1))
        waiting = bursts
        while waiting:
            bursting = {slot: burst for slot, burst in waiting.items() if self._bursts(burst)}
            if self._burst_engine is not None and self._burst_planner is not None:
                self._feed(self._burst_engine.runner, self._burst_planner, bursting, valid)
            single = {slot: burst for slot, burst in waiting.items() if slot not in bursting}
            self._feed(self._runner, self._planner, single, valid)
            waiting = {slot: burst for slot, burst in waiting.items() if burst.pending}
        return {slot: _proposal(bursts.get(slot)) for slot, ask in asks.items() if ask.limit > 0}

    @property
    def capacity(self) -> int:
        """Most rows of the draft's caches."""
        return self._runner.spec.capacity_buckets[-1]

    def rows(self, slot: int) -> int:
        """Return how many rows of the draft's cache the slot uses."""
        fed = self._fed.get(slot)
        return 0 if fed is None else fed.end

    def reserve(self, slots: int, length: int) -> None:
        """Make room in the draft's caches for a call that another engine makes over them."""
        self._runner.reserve(slots, length)

    def starts(self, asks: Mapping[int, Ask], cached: Mapping[int, int]) -> dict[int, Burst] | None:
        """Return what each row feeds at the start of a round; None where a row drafts nothing, or lacks more than that.

        Args:
            asks: of all rows of a round, each for at least one draft.
            cached: as in `propose`.
        """
        self._fed = {slot: fed for slot, fed in self._fed.items() if slot in cached}
        bursts = {}
        for slot, ask in asks.items():
            burst = self._burst(slot, ask, cached)
            if burst is None or burst.limit < 1 or len(burst.pending) > LONGEST_START:
                return None
            bursts[slot] = burst
        return bursts

    def drafted(self, slot: int, burst: Burst, row: int, drafts: Array) -> None:
        """Take the drafts that another engine made over the draft's caches, int64 [B, steps], each but the last fed."""
        self._take(burst, row, {"drafts": drafts})
        self._record(slot, burst)

    def _burst(self, slot: int, ask: Ask, cached: Mapping[int, int]) -> Burst | None:
        """Return what the row feeds first; None where the draft has nothing to do."""
        limit = min(ask.limit, self._context + 1 - len(ask.ids))  # rows of the anchor and all drafts but the last
        if limit < 1 and (ask.limit > 0 or len(ask.ids) > self._context or self._shares_caches):
            return None
        past = cached[slot] if self._shares_caches else self._fed.setdefault(slot, Fed()).kept(ask.ids)
        rest = tuple(ask.ids[past : past + self._chunk + 1])
        if len(rest) > self._chunk:
            limit = 0
        return Burst(ask, limit, past, rest[: self._chunk], [], [])

    def _reserve(self, bursts: Mapping[int, Burst], valid: Mapping[int, int], slots: int) -> None:
        """Make room for every call of the round at once: capacity that follows each call would move the caches.

        A row that waits while others are fed is padded as far as the widest of them.
        """
        ends = [burst.past + len(burst.pending) + max(burst.limit - 1, 0) for burst in bursts.values()]
        widest = max(len(burst.pending) for burst in bursts.values())
        if self._burst_engine is not None:
            widest = max(widest, LONGEST_START) + self._burst_engine.costs.steps - 1
        length = max(*ends, *valid.values()) + widest
        self._runner.reserve(slots, length)
        if self._burst_engine is not None:
            self._burst_engine.runner.reserve(slots, length)

    def _bursts(self, burst: Burst) -> bool:
        """Return whether the row's next call is an unrolled one."""
        engine, wanted = self._burst_engine, burst.limit - len(burst.drafts)
        return engine is not None and len(burst.pending) <= LONGEST_START and engine.costs.pays(wanted)

    def _feed(
        self, runner: TargetRunner, planner: CallPlanner, rows: Mapping[int, Burst], valid: dict[int, int]
    ) -> None:
        """Feed each row its pending tokens, and take the drafts that follow as far as the row wants them."""
        needs = tuple(Need(slot, len(burst.pending), 1) for slot, burst in rows.items())
        for plan in planner.plan(needs) if needs else ():
            slots = range(plan.first_slot, plan.first_slot + plan.shape.batch)
            served = {slot: rows[slot] for slot in plan.slots}
            call_rows: list[Row | IdleRow] = [
                Row(served[slot].pending, (), served[slot].past, served[slot].ask.sampling)
                if slot in served
                else IdleRow(valid.get(slot, 0))
                for slot in slots
            ]
            inputs = inputs_from_rows(runner.spec, plan.shape, call_rows)
            outputs = _columns(runner.step(plan.first_slot, inputs))
            for slot, burst in served.items():
                self._take(burst, slot - plan.first_slot, outputs)
                valid[slot] = burst.past
                self._record(slot, burst)

    def _take(self, burst: Burst, row: int, outputs: Arrays) -> None:
        """Take the drafts that the row wants; each but the last was fed, here or by the call itself."""
        burst.past += len(burst.pending)
        burst.pending = ()
        taken = outputs["drafts"][row][: max(burst.limit - len(burst.drafts), 0)].tolist()
        for column, token in enumerate(taken):
            if not 0 <= token < self._vocab_size:
                raise SpeccBug(f"the draft engine drafted id {token}, the vocabulary has {self._vocab_size}")
            burst.drafts.append(token)
            if "q_ids" in outputs:
                burst.laws.append((outputs["q_ids"][row, column], outputs["q_probs"][row, column]))
        burst.past += max(len(taken) - 1, 0)
        if taken and len(burst.drafts) < burst.limit:
            burst.pending = (taken[-1],)

    def _record(self, slot: int, burst: Burst) -> None:
        """Note what the slot's cache holds now: every draft but the last was fed."""
        if not self._shares_caches:
            committed = min(burst.past, len(burst.ask.ids))
            self._fed[slot] = Fed(committed, tuple(burst.drafts[: burst.past - committed]))


def _columns(outputs: Arrays) -> Arrays:
    """Return drafts [B, steps] and their laws [B, steps, Kq] of a call; a single step is one column.

    An early call of the target gives its laws as `draft_q_ids` and `draft_q_probs`: it has inputs of the shorter names.
    """
    if "drafts" in outputs:
        return outputs
    columns = {"drafts": outputs["next_token"][:, None]}
    for name in Q_INPUTS:
        law = outputs.get(name, outputs.get(f"draft_{name}"))
        if law is not None:
            columns[name] = law[:, None]
    return columns


def _proposal(burst: Burst | None) -> Proposal:
    if burst is None or not burst.drafts:
        return Proposal(())
    q = DraftLaw(*(np.stack(arrays) for arrays in zip(*burst.laws, strict=True))) if burst.laws else None
    return Proposal(tuple(burst.drafts), q)
