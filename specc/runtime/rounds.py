"""Steps whose rows all speculate, in one call: drafts and their verification, with nothing of the host between them.

What executes a round is an engine of the variant `whole`, or on GPUs the two engines on one stream. Steps with other
rows (prompts, rows that decode autoregressively or are far behind) take the engines one by one, as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from specc.bundle.manifest import EngineSpec
from specc.runtime.call_costs import CallCosts, DraftCosts
from specc.runtime.drafters import Ask, EngineDrafter
from specc.runtime.drafters.engine import LONGEST_START, Burst
from specc.runtime.request import NEUTRAL, Sampling
from specc.runtime.runners.runner import Arrays, TargetRunner, neutral_inputs
from specc.runtime.target_call import KNOWN_INPUTS, IdleRow, Row, RowResult, check_inputs, results_from_outputs

ROUND_INPUTS: Final = ("draft_past_lengths", "draft_seed")


@dataclass(frozen=True)
class RoundPlan:
    """A round that can be run: the range of slots from `first_slot`, and what the draft is fed of each served one."""

    first_slot: int
    batch: int
    bursts: dict[int, Burst]


class Rounds:
    """Runs whole rounds.

    Args:
        runner: of the variant `whole`.
        target: the target engine's runner, for its caches.
        drafter: over the draft engine; it knows what the draft's caches hold.
        costs: of the target's calls, which say how B is padded.
        draft_costs: of drafting, in a round and apart.

    Raises:
        SpeccError: SPC711 the engine requires an input that this runtime does not know.
    """

    def __init__(
        self,
        runner: TargetRunner,
        target: TargetRunner,
        drafter: EngineDrafter,
        costs: CallCosts,
        draft_costs: DraftCosts,
    ) -> None:
        check_inputs(runner.spec, ROUND_INPUTS)
        self._runner = runner
        self._target = target
        self._drafter = drafter
        self._costs = costs
        self._draft_costs = draft_costs

    def planned(self, asks: Mapping[int, Ask], cached: Mapping[int, int]) -> RoundPlan | None:
        """Return the round that serves all rows of a step; None where one of them does not fit into it.

        Args:
            asks: of every active row, each for at least one draft.
            cached: valid rows of the target's caches, of every slot that holds a request.
        """
        steps = self._runner.spec.steps
        if any(ask.limit > steps for ask in asks.values()):
            return None
        bursts = self._drafter.starts(asks, cached)
        if bursts is None:
            return None
        batch = self._costs.rows(max(bursts) - min(bursts) + 1)
        first = max(0, min(*bursts, self._costs.most_rows - batch))
        idle = [self._drafter.rows(slot) for slot in range(first, first + batch) if slot not in bursts]
        longest = max(*idle, *(burst.past for burst in bursts.values()), 0)
        if longest + LONGEST_START + steps - 1 > self._drafter.capacity:
            return None
        pays = self._draft_costs.whole_pays(batch, max(burst.limit for burst in bursts.values()))
        return RoundPlan(first, batch, bursts) if pays else None

    def run(
        self, plan: RoundPlan, asks: Mapping[int, Ask], sampling: Mapping[int, Sampling], cached: Mapping[int, int]
    ) -> dict[int, tuple[Row, RowResult]]:
        """Run a planned round and return each served row with its drafts, and what became of it.

        Args:
            plan: of `planned`.
            asks: as there.
            sampling: of the requests, by slot; that of an ask may have a round's own seed.
            cached: as there.
        """
        slots = range(plan.first_slot, plan.first_slot + plan.batch)
        used = max(max(cached) + 1, slots[-1] + 1)
        steps = self._runner.spec.steps
        self._target.reserve(used, max(cached.values()) + steps + 1)
        self._drafter.reserve(used, max(self._drafter.rows(slot) for slot in range(used)) + LONGEST_START + steps - 1)
        outputs = self._runner.step(plan.first_slot, self._inputs(plan, asks, sampling, cached))
        rows: list[Row | IdleRow] = []
        for b, slot in enumerate(slots):
            burst = plan.bursts.get(slot)
            if burst is None:
                rows.append(IdleRow(cached.get(slot, 0)))
                continue
            self._drafter.drafted(slot, burst, b, outputs["drafts"])
            rows.append(Row((asks[slot].ids[-1],), tuple(burst.drafts), cached[slot], sampling[slot]))
        results = results_from_outputs(outputs, rows)
        return {
            slot: (row, result)
            for slot, row, result in zip(slots, rows, results, strict=True)
            if isinstance(row, Row) and result is not None
        }

    def _inputs(
        self, plan: RoundPlan, asks: Mapping[int, Ask], sampling: Mapping[int, Sampling], cached: Mapping[int, int]
    ) -> Arrays:
        """Return every input of the call but the caches."""
        width = max(len(burst.pending) for burst in plan.bursts.values())
        ids = np.zeros((plan.batch, width), dtype=np.int64)
        columns: dict[str, list[float]] = {name: [] for name in (*KNOWN_INPUTS, *ROUND_INPUTS)}
        for b, slot in enumerate(range(plan.first_slot, plan.first_slot + plan.batch)):
            burst, ask = plan.bursts.get(slot), asks.get(slot)
            fed = () if burst is None else burst.pending
            ids[b, : len(fed)] = fed
            own = sampling[slot] if burst is not None else NEUTRAL
            row = {
                "num_tokens": len(fed),
                "past_lengths": cached.get(slot, 0),
                "draft_past_lengths": self._drafter.rows(slot) if burst is None else burst.past,
                "num_draft": 0 if burst is None else burst.limit,
                "draft_seed": 0 if burst is None or ask is None else ask.sampling.seed,
                **own.columns(),
            }
            for name, value in row.items():
                columns[name].append(value)
        return _arrays(self._runner.spec, ids, columns)


def _arrays(spec: EngineSpec, ids: np.ndarray, columns: Mapping[str, list[float]]) -> Arrays:
    given: Arrays = {"input_ids": ids}
    taken = {tensor.name: tensor.dtype for tensor in spec.inputs}
    for name, column in columns.items():
        if column and name in taken:
            given[name] = np.array(column, dtype=np.float32 if taken[name] == "f32" else np.int64)
    return neutral_inputs(spec, len(ids), given)
