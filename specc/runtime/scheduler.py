"""Continuous batching over slots: each step serves every active row, each at its own pace.

A slot is a row of the engine's caches. Waiting requests enter free slots, the lowest first; a row feeds its prompt in
chunks, then decodes one token a step or verifies drafts. Rejected drafts are rolled back by `next_past` alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from specc.bundle.manifest import LimitsSpec
from specc.bundle.policies import RuntimeSpec
from specc.errors import SpeccBug
from specc.runtime.call_costs import CallCosts, DraftCosts
from specc.runtime.detokenize import Decoder
from specc.runtime.drafters import Ask, BatchDrafter, Drafter, Proposal
from specc.runtime.grouping import CallPlan, CallPlanner, Need
from specc.runtime.policy import FREE_DRAFTS, SpeculationPolicy
from specc.runtime.request import Request, Sampling
from specc.runtime.rounds import Rounds
from specc.runtime.routing import route_from_request
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.sequence import Sequence
from specc.runtime.target_call import IdleRow, Row, RowResult, check_inputs, inputs_from_rows, results_from_outputs
from specc.runtime.throttle import Candidate, draft_cap
from specc.speculation.noise import round_seed


@dataclass(frozen=True)
class StepRow:
    """A sequence's row of the current step.

    Attributes:
        ends_prompt: the call's token is the sequence's next one; False in the middle of a prompt.
        asked: the drafter was asked for drafts.
        context: of the proposal.
        throttled: it had some, and they were dropped for the good of the batch.
    """

    sequence: Sequence
    row: Row
    ends_prompt: bool
    asked: bool
    context: int = 0
    throttled: bool = False


class Scheduler:
    """Executes requests on one target engine; not safe for use from several threads at once.

    Args:
        runner: the loaded engine; the scheduler alone steps it.
        limits, runtime: of the manifest.
        new_drafter: makes the drafter of a request, None where the bundle has none of that form.
        costs: of target calls.
        vocab_size: ids that a draft may have.
        tokenizer: decodes text, None without.
        batch_drafter: drafts for all requests, None where the bundle has none of that form.
        draft_costs: of drafting.
        redraws: the acceptance mode must not draw a draft twice from the same noise (`ModeRow.redraws`).
        rounds: drafts and verifies in one call where all rows speculate; None where nothing does.
    """

    def __init__(
        self,
        *,
        runner: TargetRunner,
        limits: LimitsSpec,
        runtime: RuntimeSpec,
        new_drafter: Callable[[], Drafter | None],
        costs: CallCosts,
        vocab_size: int,
        tokenizer: Decoder | None,
        batch_drafter: BatchDrafter | None = None,
        draft_costs: DraftCosts = FREE_DRAFTS,
        redraws: bool = False,
        rounds: Rounds | None = None,
    ) -> None:
        check_inputs(runner.spec)
        self._runner = runner
        self._limits = limits
        self._runtime = runtime
        self.new_drafter = new_drafter
        self._costs = costs
        self._planner = CallPlanner(costs)
        self._vocab_size = vocab_size
        self._tokenizer = tokenizer
        self._batch_drafter = batch_drafter
        self._draft_costs = draft_costs
        self._redraws = redraws
        self._rounds = rounds
        self._slots: list[Sequence | None] = [None] * limits.max_batch
        self._waiting: deque[Sequence] = deque()

    @property
    def idle(self) -> bool:
        """Whether no request is active or waiting."""
        return not self._waiting and not any(self._slots)

    def submit(self, request: Request) -> Sequence:
        """Queue a request and return its sequence, which later steps advance."""
        drafter = self.new_drafter()
        has_drafter = drafter is not None or self._batch_drafter is not None
        route = route_from_request(request, self._runtime.routing, has_drafter=has_drafter)
        policy = SpeculationPolicy(request, self._runtime, self._limits, self._costs, self._draft_costs)
        sequence = Sequence(request, route, drafter, policy, self._tokenizer)
        self._waiting.append(sequence)
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """Forget a request; its slot is free. One that is finished or unknown is left alone."""
        self._slots = [None if held is sequence else held for held in self._slots]
        self._waiting = deque(held for held in self._waiting if held is not sequence)

    def step(self) -> None:
        """Advance every active row by one chunk, token or round; does nothing when idle."""
        self._admit()
        active = {slot: held for slot, held in enumerate(self._slots) if held is not None}
        if not active:
            return
        if not self._round(active):
            proposals = self._proposals(active)
            rows = self._throttle({slot: self._row(held, proposals.get(slot)) for slot, held in active.items()})
            needs = tuple(Need(slot, step.row.tokens, step.row.logit_rows) for slot, step in rows.items())
            for call in self._planner.plan(needs):
                self._call(call, rows)
        self._slots = [None if held is None or held.finish_reason is not None else held for held in self._slots]

    def _admit(self) -> None:
        for slot, held in enumerate(self._slots):
            if held is None and self._waiting:
                self._slots[slot] = self._waiting.popleft()
                if self._batch_drafter is not None:
                    self._batch_drafter.begin(slot)

    def _round(self, active: dict[int, Sequence]) -> bool:
        """Run a round where one serves all active rows, and return whether it did."""
        limits = {slot: held.draft_limit() for slot, held in active.items() if held.cached == len(held.ids) - 1}
        if self._rounds is None or len(limits) < len(active) or not all(limits.values()):
            return False
        asks = {slot: Ask(held.ids, limits[slot], self._draft_sampling(held)) for slot, held in active.items()}
        cached = {slot: held.cached for slot, held in active.items()}
        plan = self._rounds.planned(asks, cached)
        if plan is None:
            return False
        sampling = {slot: held.request.sampling for slot, held in active.items()}
        results = self._rounds.run(plan, asks, sampling, cached)
        now = time.perf_counter()
        for slot, (row, result) in results.items():
            self._take(StepRow(active[slot], row, ends_prompt=True, asked=True), result, len(active), now)
        return True

    def _proposals(self, active: dict[int, Sequence]) -> dict[int, Proposal]:
        """Return what is proposed for the rows whose drafter is asked: those that hold all but their anchor."""
        ready = {slot: held for slot, held in active.items() if held.cached == len(held.ids) - 1}
        if self._batch_drafter is None:
            return {slot: made for slot, held in ready.items() if (made := held.proposal(len(active))) is not None}
        limits = {slot: held.draft_limit() for slot, held in active.items()}
        asks = {
            slot: Ask(held.ids, limits[slot] if slot in ready else 0, self._draft_sampling(held))
            for slot, held in active.items()
            if limits[slot] > 0
        }
        return self._batch_drafter.propose(asks, {slot: held.cached for slot, held in active.items()})

    def _draft_sampling(self, sequence: Sequence) -> Sampling:
        sampling = sequence.request.sampling
        if not self._redraws:
            return sampling
        seed = round_seed(np.array(sampling.seed, dtype=np.int64), np.array(len(sequence.ids), dtype=np.int64))
        return replace(sampling, seed=int(seed))

    def _row(self, sequence: Sequence, proposal: Proposal | None) -> StepRow:
        pending = sequence.ids[sequence.cached :]
        chunk = tuple(pending[: self._limits.prefill_chunk])
        made = proposal or Proposal(())
        row = Row(chunk, made.tokens, sequence.cached, sequence.request.sampling, made.q)
        for draft in row.drafts:
            if not 0 <= draft < self._vocab_size:
                raise SpeccBug(f"the drafter proposed id {draft}, the vocabulary has {self._vocab_size}")
        ends_prompt = len(chunk) == len(pending)
        return StepRow(sequence, row, ends_prompt, asked=proposal is not None, context=made.context)

    def _throttle(self, rows: dict[int, StepRow]) -> dict[int, StepRow]:
        drafting = {slot for slot, step in rows.items() if step.row.drafts and step.sequence.policy.adapts}
        if len(rows) == 1 or not drafting:
            return rows
        needs = {slot: Need(slot, step.row.tokens, step.row.logit_rows) for slot, step in rows.items()}
        candidates = [Candidate(needs[slot], _expected_acceptance(rows[slot])) for slot in sorted(drafting)]
        cap = draft_cap(candidates, [need for slot, need in needs.items() if slot not in drafting], self._planner)
        return {slot: _cut(step, cap) if slot in drafting else step for slot, step in rows.items()}

    def _call(self, plan: CallPlan, rows: dict[int, StepRow]) -> None:
        last = plan.first_slot + plan.shape.batch
        served = set(plan.slots)
        call_rows: list[Row | IdleRow] = [
            rows[slot].row if slot in served else IdleRow(self._cached(slot)) for slot in range(plan.first_slot, last)
        ]
        slots = max(last, self._used_slots())
        written = max(row.past for row in call_rows) + plan.shape.tokens
        self._runner.reserve(slots, max(written, *(self._cached(slot) for slot in range(slots))))
        now = time.perf_counter()
        for slot in plan.slots:
            rows[slot].sequence.start(now)
        outputs = self._runner.step(plan.first_slot, inputs_from_rows(self._runner.spec, plan.shape, call_rows))
        now = time.perf_counter()
        for slot, result in enumerate(results_from_outputs(outputs, call_rows), start=plan.first_slot):
            if result is not None:
                self._take(rows[slot], result, len(rows), now)

    def _take(self, step: StepRow, result: RowResult, batch: int, now: float) -> None:
        """Take what a call gave a row, `batch` rows being active."""
        step.sequence.cached = result.next_past
        if step.ends_prompt:
            _count(step, result.num_accepted, batch=batch)
            step.sequence.commit(result.tokens, now)

    def _cached(self, slot: int) -> int:
        held = self._slots[slot]
        return 0 if held is None else held.cached

    def _used_slots(self) -> int:
        return max((slot + 1 for slot, held in enumerate(self._slots) if held is not None), default=0)


def _expected_acceptance(step: StepRow) -> tuple[float, ...]:
    return tuple(step.sequence.policy.expected_acceptance(len(step.row.drafts), step.context))


def _cut(step: StepRow, cap: int) -> StepRow:
    q = None if step.row.q is None else step.row.q.cut(cap)
    row = replace(step.row, drafts=step.row.drafts[:cap], q=q)
    return replace(step, row=row, throttled=cap == 0)


def _count(step: StepRow, num_accepted: int, batch: int) -> None:
    sequence, proposed = step.sequence, len(step.row.drafts)
    if proposed:
        sequence.counter.count_round(proposed, num_accepted)
        sequence.policy.count_round(
            proposed, num_accepted, batch=batch, at_token=sequence.generated, context=step.context
        )
        return
    sequence.counter.count_ar_step(asked=step.asked and not step.throttled)
    if step.throttled:
        sequence.policy.count_throttled_step(at_token=sequence.generated)
    else:
        sequence.policy.count_ar_step()
