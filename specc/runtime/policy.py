"""Whether and how far one request speculates: gamma from live acceptance, fallback to AR and the way back.

Drafts of an engine. Where costs were measured, the first rounds of a request and of a trial have the gamma that pays at
an acceptance of a half: a trial that fails then costs little where long calls cost much. From there gamma follows what
was accepted. Fallback: the speed-up that the acceptance of the last `window` rounds (3 at least) and the step costs
predict is below `min_speedup`. The request then decodes autoregressively for `probe_after` tokens and tries again with
an empty window; a trial must promise a little more than what it came from, so that the two do not alternate. Each trial
that fails doubles the tokens until the next, eightfold at most.

Drafts copied from the text cost nothing until they are verified, and how much of the text before them agrees tells how
likely they are right. Where costs were measured, every step verifies as many as pay by that, often none, and no more
than the request can afford (`copied_drafts`). Fallback: after a round it can afford none, until tokens have passed.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from specc.bundle.manifest import LimitsSpec
from specc.bundle.policies import RuntimeSpec
from specc.bundle.statistics import Fallback
from specc.runtime.acceptance_window import AcceptanceWindow
from specc.runtime.call_costs import CallCosts, DraftCosts
from specc.runtime.copied_drafts import CopiedDrafts
from specc.runtime.request import Request
from specc.speculation.expected import best_gamma, predicted_speedup

MIN_ROUNDS: Final = 3
HYSTERESIS: Final = 1.03
MAX_DOUBLINGS: Final = 3
FREE_DRAFTS: Final = DraftCosts(None)


class SpeculationPolicy:
    """The state of one request's speculation.

    Args:
        request: whose mode and gamma are obeyed; mode `spec` never adapts and never falls back.
        runtime: thresholds of the bundle.
        limits: default and largest gamma.
        costs: of target calls; gamma follows acceptance only where they were measured.
        draft_costs: of drafting.
    """

    def __init__(
        self,
        request: Request,
        runtime: RuntimeSpec,
        limits: LimitsSpec,
        costs: CallCosts,
        draft_costs: DraftCosts = FREE_DRAFTS,
    ) -> None:
        self._fixed = request.mode == "spec"
        self._fallback = runtime.fallback
        self._most = limits.max_gamma if request.gamma is None else request.gamma
        self._gamma = min(self._most, limits.default_gamma)
        if request.mode == "spec" and request.gamma is not None:
            self._gamma = request.gamma
        self._costs = costs
        self._draft_costs = draft_costs
        self._acceptance = AcceptanceWindow(runtime.fallback.window, limits.max_gamma)
        self._copied = CopiedDrafts(costs, runtime.fallback.min_speedup)
        if self.adapts:
            self._gamma = self._best(batch=1)
        self._cooldown = 0
        self._failures = 0
        self._throttled = 0
        self._on_trial = False
        self.fallbacks: list[Fallback] = []

    @property
    def adapts(self) -> bool:
        """Whether gamma follows measured acceptance and costs, and a step may cut drafts for the good of the batch."""
        return self._costs.measured and self._draft_costs.measured and not self._fixed

    def limit(self) -> int:
        """Return how many drafts an engine may propose for the row now; 0 while it decodes autoregressively."""
        return 0 if self._cooldown > 0 else self._gamma

    def free_limit(self) -> int:
        """Return how many drafts may be proposed that cost nothing; `worth` says how many of them to verify."""
        return 0 if self._cooldown > 0 else self._most if self.adapts else self._gamma

    def worth(self, context: int, drafts: int, batch: int) -> int:
        """Return how many drafts of a free proposal to verify in a step of `batch` active rows.

        Args:
            context: of the proposal.
            drafts: in it, at most `free_limit`.
            batch: rows that are active.
        """
        if context == 0 or not self.adapts:
            return min(drafts, self._gamma)
        return self._copied.worth(context, drafts, batch)

    def expected_acceptance(self, drafts: int, context: int = 0) -> list[float]:
        """Return the estimated conditional acceptance of that many drafts, of a proposal with that context."""
        if context > 0:
            return self._copied.expected_acceptance(context, drafts)
        return self._acceptance.conditional(drafts)

    def count_ar_step(self) -> None:
        """Take note of a token that was decoded without a draft."""
        self._cooldown = max(0, self._cooldown - 1)
        self._copied.pass_tokens(1)

    def count_throttled_step(self, at_token: int) -> None:
        """Take note of a token whose drafts were dropped because the batch is better off without them."""
        if self._throttled == 0:
            self.fallbacks.append(Fallback(at_token, "batch: the calls of this step cost more than the drafts promise"))
        self._throttled += 1
        self._copied.pass_tokens(1)
        if self._throttled % self._fallback.probe_after == 0:
            self._acceptance.clear()  # what was measured is old; the prior lets the drafts be tried again
            self._copied.forget_acceptance()

    def count_round(self, proposed: int, accepted: int, *, batch: int, at_token: int, context: int = 0) -> None:
        """Take note of a round and decide how the row goes on.

        Args:
            proposed: drafts of the row in this call, at least 1.
            accepted: of these.
            batch: rows that were active in the step, which the costs depend on.
            at_token: tokens generated so far.
            context: of the proposal.
        """
        self._throttled = 0
        if context > 0 and self.adapts:
            self._count_copied(proposed, accepted, batch=batch, at_token=at_token, context=context)
            return
        self._acceptance.add(proposed, accepted)
        if self._fixed:
            return
        if len(self._acceptance) < MIN_ROUNDS:
            if self.adapts:
                self._gamma = self._best(batch)
            return
        speedup = self._adapted_speedup(batch)
        needed = self._fallback.min_speedup * (HYSTERESIS if self._on_trial else 1.0)
        if speedup < needed:
            rounds = len(self._acceptance)
            self._fall_back(f"predicted speed-up {speedup:.2f} over {rounds} rounds, needed {needed:.2f}", at_token)
            if self.adapts:
                self._gamma = self._best(batch)
        elif len(self._acceptance) >= 2 * MIN_ROUNDS:
            self._on_trial = False
            self._failures = 0

    def _count_copied(self, proposed: int, accepted: int, *, batch: int, at_token: int, context: int) -> None:
        self._copied.count_round(context, proposed, accepted, batch)
        self._cooldown = self._copied.wait(batch)
        if self._cooldown > 0:
            lost = f"rounds took {self._copied.lost:.1f} steps beyond their tokens"
            reason = f"acceptance: {lost}, a wrong draft more is too dear for {self._cooldown} tokens"
            self.fallbacks.append(Fallback(at_token, reason))

    def _adapted_speedup(self, batch: int) -> float:
        """Choose gamma anew where another promises clearly more, and return the speed-up predicted for it."""
        now = self._predicted(self._gamma, batch)
        if not self.adapts:
            return now
        gamma = self._best(batch)
        speedup = self._predicted(gamma, batch)
        if speedup <= now * HYSTERESIS:
            return now
        self._gamma = gamma
        return speedup

    def _predicted(self, gamma: int, batch: int) -> float:
        acceptance = self._acceptance.conditional(self._most)
        return predicted_speedup(
            acceptance, gamma, partial(self._costs.seconds, batch), partial(self._draft_costs.seconds, batch)
        )

    def _best(self, batch: int) -> int:
        """Return the gamma of the largest predicted speed-up, not 0 where drafts are allowed: it teaches nothing."""
        acceptance = self._acceptance.conditional(self._most)
        step_cost, draft_cost = partial(self._costs.seconds, batch), partial(self._draft_costs.seconds, batch)
        chosen = best_gamma(acceptance, step_cost, self._most, draft_cost).gamma
        return min(max(1, chosen), self._most)

    def _fall_back(self, reason: str, at_token: int) -> None:
        self.fallbacks.append(Fallback(at_token, f"acceptance: {reason}"))
        self._cooldown = self._fallback.probe_after << min(self._failures, MAX_DOUBLINGS)
        self._failures += 1
        self._on_trial = True
        self._acceptance.clear()
