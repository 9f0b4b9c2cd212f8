"""The prediction of a plan: speed-up with its interval by gamma and by batch, and what it rests on.

It is a function of the plan's inputs alone: the same recipe, headers, acceptance and measured machine give the same
numbers, rounded to four digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.catalog.workloads import WORKLOADS, Workload
from specc.plan.calls import PredictedCalls
from specc.plan.cost import CROSSOVER_LIMIT, Acceptance, Interval, RoundCosts, rounded
from specc.plan.device import SPREAD
from specc.plan.priors import prior_for
from specc.plan.shape import distinct_experts

LARGEST_SHOWN_BATCH: Final = 64
NO_DRAFTER: Final = Acceptance((0.0,), (0.0,), (0.0,), "nothing is drafted")


@dataclass(frozen=True)
class GammaLine:
    """Batch 1 with so many drafts a round.

    Attributes:
        tokens: expected of a round, the target's own included.
        speedup: over AR decoding.
    """

    gamma: int
    tokens: Interval
    speedup: Interval


@dataclass(frozen=True)
class BatchLine:
    """A batch with the gamma that is best for it.

    Attributes:
        gamma: 0 where AR decoding is the fastest.
        speedup: over AR decoding of the same batch.
        ar_user_tokens: tokens per second that one request gets from AR decoding.
        user_tokens: the same with speculation.
        gpu_tokens: tokens per second of the whole batch with speculation, for one of the GPUs.
    """

    batch: int
    gamma: int
    speedup: Interval
    ar_user_tokens: float
    user_tokens: Interval
    gpu_tokens: Interval


@dataclass(frozen=True)
class Prediction:
    """What to expect of speculation, and by which costs of calls.

    Attributes:
        costs: whether calls cost what the model says, or what was measured of a bundle.
        workload: whose prior was taken, where nothing was measured.
        context: cached tokens of a row, and tokens of the prompt behind the first token.
        acceptance: what was assumed.
        best_gamma: for batch 1.
        gammas: batch 1 by gamma.
        batches: ascending.
        break_even: acceptance of every position at which batch 1 gains nothing with `best_drafting_gamma`; None: with
            no drafts, or not even when all are accepted.
        pays_from: the smallest batch at which a gamma gains; None: no batch up to `crossover_limit`. Above 1 with
            experts, or with a target so small that a round's overhead outweighs the gain of few rows.
        crossover_batch: the smallest batch from which no gamma gains; None: they gain at `crossover_limit`, or nothing
            is drafted.
        ar_step_ms, verify_step_ms, drafting_ms: batch 1: an AR step, the call that verifies `best_drafting_gamma`,
            drafting and the rest of the round.
        experts, ar_experts, verify_experts: of a layer: how many there are, and how many of them an AR step and the
            call that verifies are expected to read at batch 1; 0 without experts, or where calls were
            measured.
        ar_ttft_ms, ttft_ms: first token, of AR decoding and with the draft model's prefill.
        model_spread: share by which the cost model itself may miss; part of every interval.
        crossover_limit: the largest batch that was looked at for both.
        calls: the cost model's single calls; None where measured step costs stand in its place.
    """

    kind: Literal["predicted"]
    costs: Literal["modelled", "measured"]
    workload: str
    context: int
    acceptance: Acceptance
    best_gamma: int
    gammas: tuple[GammaLine, ...]
    batches: tuple[BatchLine, ...]
    break_even: float | None
    pays_from: int | None
    crossover_batch: int | None
    ar_step_ms: float
    verify_step_ms: float
    drafting_ms: float
    experts: int
    ar_experts: float
    verify_experts: float
    ar_ttft_ms: float
    ttft_ms: float
    model_spread: float = SPREAD
    crossover_limit: int = CROSSOVER_LIMIT
    calls: PredictedCalls | None = None

    @property
    def priced_by(self) -> str:
        """What the costs of calls are, in words."""
        return "measured step costs" if self.costs == "measured" else "the cost model"

    @property
    def best_drafting_gamma(self) -> int:
        """The best gamma of batch 1, and where none gains the one that loses least; 0 without drafts."""
        return _drafting_gamma(self.best_gamma, self.gammas)

    @property
    def slower_batches(self) -> str:
        """The batches at which AR decoding is faster, in words that follow "faster"."""
        if self.pays_from is None and self.gammas:
            return "from batch 1"
        begins = None if self.pays_from in (None, 1) else f"below batch {self.pays_from}"
        ends = None if self.crossover_batch is None else f"from batch {self.crossover_batch}"
        named = " and ".join(part for part in (begins, ends) if part is not None)
        return named or f"at no batch up to {self.crossover_limit}"

    def at_batch(self, batch: int) -> BatchLine:
        """Return the line of the largest listed batch that is not above the given one."""
        return max((line for line in self.batches if line.batch <= batch), key=lambda line: line.batch)


@dataclass(frozen=True)
class Unpredicted:
    """Why there is no prediction, and what would give one."""

    kind: Literal["not predicted"]
    reason: str


Outlook: TypeAlias = Prediction | Unpredicted


@dataclass(frozen=True)
class Asked:
    """What a prediction is asked for.

    Attributes:
        draft_kind: key of `PRIORS`, or a kind without a prior.
        workload: one of `WORKLOADS`.
        max_gamma: drafts that a round may have.
        batches: batches that must be among the lines, besides powers of two.
        largest_shown: the lines go at least up to this batch.
        crossover_limit: the end of the gain is looked for up to this batch.
        context: cached tokens of a row.
        devices: how many share every matrix.
        experts, experts_per_token: of a layer, to say how many of them a call reads; 0 without.
    """

    draft_kind: str
    workload: Workload
    max_gamma: int
    batches: tuple[int, ...]
    context: int
    devices: int = 1
    largest_shown: int = LARGEST_SHOWN_BATCH
    crossover_limit: int = CROSSOVER_LIMIT
    experts: int = 0
    experts_per_token: int = 0


def prediction_from_model(model: RoundCosts | None, measured: Acceptance | None, asked: Asked) -> Outlook:
    """Return the prediction of a drafter on a device.

    Args:
        model: what calls cost; None where nothing is known of the device: a CPU that was never measured.
        measured: acceptance that replaces the prior.
        asked: drafter, workload and ranges.
    """
    if model is None:
        return Unpredicted("not predicted", "run `specc probe`: nothing was measured of this machine's CPU")
    acceptance = measured or acceptance_of_kind(asked.draft_kind, asked.workload)
    if acceptance is None:
        reason = f"no acceptance of drafts of kind {asked.draft_kind} was published; measure it and give --acceptance"
        return Unpredicted("not predicted", reason)
    best = model.best_gamma(acceptance, 1, asked.max_gamma)
    gammas = tuple(_gamma_line(model, acceptance, gamma) for gamma in range(1, asked.max_gamma + 1))
    drafted = _drafting_gamma(best, gammas)
    break_even = model.break_even(1, drafted)
    paying = model.paying_batches(acceptance, asked.max_gamma, asked.crossover_limit)
    ar_ttft, ttft = model.ttft_seconds()
    return Prediction(
        kind="predicted",
        costs="modelled",
        workload=asked.workload,
        context=asked.context,
        acceptance=_rounded_acceptance(acceptance),
        best_gamma=best,
        gammas=gammas,
        batches=tuple(
            _batch_line(model, acceptance, batch, asked) for batch in shown_batches(asked.batches, asked.largest_shown)
        ),
        break_even=None if break_even is None else rounded(break_even),
        pays_from=None if paying is None else paying[0],
        crossover_batch=(1 if paying is None else paying[1]) if asked.max_gamma else None,
        ar_step_ms=rounded(model.ar_seconds(1) * 1e3),
        verify_step_ms=rounded(model.verify_seconds(1, drafted) * 1e3),
        drafting_ms=rounded(model.drafting_seconds(1, drafted) * 1e3),
        experts=asked.experts,
        ar_experts=rounded(_experts(asked, 1)),
        verify_experts=rounded(_experts(asked, drafted + 1)),
        ar_ttft_ms=rounded(ar_ttft * 1e3),
        ttft_ms=rounded((ttft if asked.max_gamma else ar_ttft) * 1e3),
        model_spread=model.spread(),
        crossover_limit=asked.crossover_limit,
    )


def _drafting_gamma(best: int, gammas: tuple[GammaLine, ...]) -> int:
    """Return the best gamma, and where AR decoding is the fastest the one that loses least; 0 without drafts."""
    if best or not gammas:
        return best
    return max(gammas, key=lambda line: line.speedup.mid).gamma


def _experts(asked: Asked, tokens: int) -> float:
    return distinct_experts(asked.experts, asked.experts_per_token, tokens)


def acceptance_of_kind(kind: str, workload: Workload) -> Acceptance | None:
    """Return the prior of a kind on a workload as acceptance; None where none was published."""
    if kind == "none":
        return NO_DRAFTER
    prior = prior_for(kind, workload)
    if prior is None:
        return None
    low, mid, high = prior.acceptances()
    return Acceptance((low,), (mid,), (high,), f"prior, {prior.source}")


def workload_from_name(name: str) -> Workload:
    """Return the workload of a checked name."""
    return next(workload for workload in WORKLOADS if workload == name)


def shown_batches(asked: tuple[int, ...], at_least: int = LARGEST_SHOWN_BATCH) -> tuple[int, ...]:
    """Return powers of two up to the largest of these and `at_least`, and these themselves, ascending."""
    largest = max((at_least, *asked))
    return tuple(sorted({1 << power for power in range(largest.bit_length())} | set(asked)))


def _gamma_line(model: RoundCosts, acceptance: Acceptance, gamma: int) -> GammaLine:
    tokens, speedup = model.tokens(acceptance, gamma), model.speedup_interval(acceptance, 1, gamma)
    return GammaLine(gamma, _rounded_interval(tokens), _rounded_interval(speedup))


def _batch_line(model: RoundCosts, acceptance: Acceptance, batch: int, asked: Asked) -> BatchLine:
    gamma = model.best_gamma(acceptance, batch, asked.max_gamma)
    speedup = model.speedup_interval(acceptance, batch, gamma)
    ar = 1.0 / model.ar_seconds(batch)
    user = Interval(ar * speedup.low, ar * speedup.mid, ar * speedup.high)
    share = batch / asked.devices
    return BatchLine(
        batch=batch,
        gamma=gamma,
        speedup=_rounded_interval(speedup),
        ar_user_tokens=rounded(ar),
        user_tokens=_rounded_interval(user),
        gpu_tokens=_rounded_interval(Interval(user.low * share, user.mid * share, user.high * share)),
    )


def _rounded_interval(interval: Interval) -> Interval:
    return Interval(rounded(interval.low), rounded(interval.mid), rounded(interval.high))


def _rounded_acceptance(acceptance: Acceptance) -> Acceptance:
    low, mid, high = (
        tuple(rounded(value) for value in reading) for reading in (acceptance.low, acceptance.mid, acceptance.high)
    )
    return Acceptance(low, mid, high, acceptance.source)
