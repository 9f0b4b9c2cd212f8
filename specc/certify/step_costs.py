"""Measured step costs T(B,S) of a loaded target engine.

Every shape is warmed up once, in ascending B*S, the first one twice; then all shapes are timed in rounds, each in
another random order, and the median counts. Interleaving spreads a slow second of a shared machine over all shapes
instead of spoiling one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final, TypeAlias

import numpy as np

from specc.bundle.certificate import StepCost
from specc.bundle.manifest import LimitsSpec, ProfileSpec
from specc.plan.calls import cached_tokens, logit_rows_of, shapes_from_limits
from specc.runtime.runners.runner import Arrays, TargetRunner, neutral_inputs

Clock: TypeAlias = Callable[[], float]

DEFAULT_BUDGET_S: Final = 4.0
MIN_ROUNDS: Final = 3
MAX_ROUNDS: Final = 25
WARM_UP_SHARE: Final = 0.5


@dataclass(frozen=True, order=True)
class _Shape:
    batch: int
    tokens: int


def measure_step_costs(
    runner: TargetRunner,
    limits: LimitsSpec,
    vocab_size: int,
    *,
    budget_s: float = DEFAULT_BUDGET_S,
    seed: int = 0,
    clock: Clock = perf_counter,
) -> tuple[StepCost, ...]:
    """Return the median seconds of a greedy target call for each shape of `measured_shapes`.

    Rows hold min(128, what fits) valid cache rows. Rows of up to max_gamma + 1 tokens are verify rows with one logit
    row a token; longer ones are prefill chunks with one logit row. A shape that is predicted, in proportion to its
    tokens, to overrun the warm-up's half of the budget is left out; at least three rounds are timed even if the budget
    is spent, so that the whole takes about `budget_s`, three times as much at worst.

    Args:
        runner: a loaded engine whose caches may be overwritten.
        limits: of the bundle.
        vocab_size: V; token ids are drawn below it.
        budget_s: seconds to spend.
        seed: of the order and the token ids.
        clock: monotonic seconds.

    Returns:
        Costs in ascending (B,S); at least that of one row of one token.
    """
    rng = np.random.default_rng(seed)
    past = cached_tokens(limits)
    runner.reserve(limits.max_batch, past + limits.prefill_chunk + runner.spec.steps - 1)

    def seconds(shape: _Shape) -> float:
        inputs = _step_inputs(runner, shape, limits, past, rng.integers(0, vocab_size, (shape.batch, shape.tokens)))
        start = clock()
        runner.step(0, inputs)
        return clock() - start

    warmed = _warm_up(measured_shapes(limits, runner.spec.profiles), seconds, budget_s * WARM_UP_SHARE)
    round_s = sum(warmed.values())
    rounds = MAX_ROUNDS if round_s <= 0 else int(min(MAX_ROUNDS, max(MIN_ROUNDS, budget_s / round_s)))
    samples: dict[_Shape, list[float]] = {shape: [] for shape in warmed}
    shapes = sorted(warmed)
    for _ in range(rounds):
        for index in rng.permutation(len(shapes)):
            samples[shapes[index]].append(seconds(shapes[index]))
    return tuple(StepCost(shape.batch, shape.tokens, median(samples[shape])) for shape in shapes)


def measured_shapes(limits: LimitsSpec, profiles: tuple[ProfileSpec, ...]) -> list[_Shape]:
    """Return the shapes to measure that a profile admits, in ascending B*S."""
    shapes = [_Shape(batch, tokens) for batch, tokens in shapes_from_limits(limits)]
    return [shape for shape in shapes if any(_admits(profile, shape, limits) for profile in profiles)]


def _admits(profile: ProfileSpec, shape: _Shape, limits: LimitsSpec) -> bool:
    needed = ((profile.batch, shape.batch), (profile.tokens, shape.tokens))
    rows = logit_rows_of(shape.tokens, limits)
    return all(low <= value <= high for (low, _, high), value in (*needed, (profile.logit_rows, rows)))


def _warm_up(shapes: list[_Shape], seconds: Callable[[_Shape], float], budget_s: float) -> dict[_Shape, float]:
    """Return the first timing of every shape that the budget allows."""
    warmed: dict[_Shape, float] = {}
    per_token, spent = 0.0, 0.0
    # The first call of all reads the weights into memory; by what it takes no other would fit the budget.
    seconds(shapes[0])
    for shape in shapes:
        tokens = shape.batch * shape.tokens
        if warmed and spent + per_token * tokens > budget_s:
            continue
        warmed[shape] = seconds(shape)
        spent += warmed[shape]
        per_token = warmed[shape] / tokens
    return warmed


def _step_inputs(runner: TargetRunner, shape: _Shape, limits: LimitsSpec, past: int, ids: np.ndarray) -> Arrays:
    batch, rows = shape.batch, logit_rows_of(shape.tokens, limits)
    first = shape.tokens - rows
    given: Arrays = {
        "input_ids": ids.astype(np.int64),
        "num_tokens": np.full(batch, shape.tokens, dtype=np.int64),
        "past_lengths": np.full(batch, past, dtype=np.int64),
        "logit_rows": np.tile(np.arange(first, shape.tokens, dtype=np.int64), (batch, 1)),
        "num_draft": np.full(batch, rows - 1, dtype=np.int64),
    }
    if runner.spec.variant == "whole":
        given["draft_past_lengths"] = given["past_lengths"]
        given["num_draft"] = np.full(batch, runner.spec.steps, dtype=np.int64)
        given["draft_seed"] = np.zeros(batch, dtype=np.int64)
    return neutral_inputs(runner.spec, batch, given)
