"""The sampler's check: true picks pass, and picks of wrong samplers fail, whatever the laws of the steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.certify.parity import ParityCell
from specc.certify.sampler import FALSE_ALARM, Sampled, check_sampler, places_in_law, uniformity
from specc.speculation.distribution import processed_distribution
from specc.speculation.sampling import sampling_rows, target_picks

V, CANDIDATES = 40, 16
CELLS = {"plain": ParityCell(0.8, seed=3), "truncated": ParityCell(1.2, top_k=9, top_p=0.9, min_p=0.05, seed=4)}


class KnownLogits:
    """Logits that depend on the prompt's first id alone, another law for each step."""

    spec = None

    def after(self, ids, first):
        rng = np.random.default_rng(ids[0])
        return (2 * rng.standard_normal((len(ids) - first, V))).astype(np.float32)


def steps_of(cell, *, seed_shift=0, sampler_cell=None, position_shift=0, count=12, length=40):
    """Return prompts and picks that the oracle makes from `KnownLogits`, under possibly wrong settings."""
    prompts, made = [], []
    for index in range(count):
        own, prompt = cell.of_prompt(index), [index, 1, 2]
        used = (sampler_cell or cell).of_prompt(index)
        rows = sampling_rows(np.array([own.seed + seed_shift]), used.temperature, used.top_k, used.top_p, used.min_p)
        logits = KnownLogits().after([*prompt, *[0] * (length - 1)], len(prompt) - 1)
        positions = len(prompt) + position_shift + np.arange(length)[None]
        picks = target_picks(logits[None], rows, positions, CANDIDATES).ids[0]
        prompts.append(prompt)
        made.append(picks.tolist())
    return prompts, made


def checked(steps, cell, *, fixed=True):
    sampled = Sampled(cell, "ar" if fixed else "spec", *steps, fixed=fixed)
    return check_sampler(sampled, KnownLogits(), candidates=CANDIDATES, epsilon=1e-3)


@pytest.mark.parametrize("cell", CELLS.values(), ids=list(CELLS))
def test_true_picks_pass_both_tests(cell):
    check = checked(steps_of(cell), cell)
    assert (check.picks, check.differing, check.freedom) == (12 * 40, 0, 15)
    assert check.p_value > 1e-3


@pytest.mark.parametrize("change", [{"seed_shift": 1}, {"position_shift": 1}])
def test_other_noise_has_the_law_and_is_caught_by_the_oracle(change):
    cell = CELLS["plain"]
    check = checked(steps_of(cell, **change), cell)
    assert check.differing - check.near_ties > 100
    assert check.p_value > 1e-3
    assert checked(steps_of(cell, **change), cell, fixed=False).differing is None


@pytest.mark.parametrize(
    ("stated", "real"),
    [
        (ParityCell(0.8), ParityCell(1.6)),
        (ParityCell(0.8), ParityCell(0.4)),
        (ParityCell(1.0, top_k=3), ParityCell(1.0)),
        (ParityCell(1.0), ParityCell(1.0, top_k=2)),
        (ParityCell(1.0, min_p=0.3), ParityCell(1.0)),
    ],
)
def test_another_law_is_caught_without_knowing_the_noise(stated, real):
    check = checked(steps_of(stated, sampler_cell=real), stated, fixed=False)
    assert check.p_value < FALSE_ALARM


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(CELLS)))
@settings(max_examples=40, deadline=None)
def test_places_are_those_of_the_law_written_a_second_time(seed, name):
    rng, cell = np.random.default_rng(seed), CELLS[name]
    logits = rng.integers(-3, 4, (1, V)).astype(np.float32)  # many ties
    law = processed_distribution(
        logits[0],
        temperature=cell.temperature,
        top_k=cell.top_k,
        top_p=cell.top_p,
        min_p=cell.min_p,
        candidates=CANDIDATES,
    )
    pick, blur = int(rng.integers(0, V)), rng.random(1)
    (place,) = places_in_law(logits, np.array([pick]), cell, CANDIDATES, blur)
    order = sorted(range(V), key=lambda token: (-law[token], token))
    before = sum(law[token] for token in order[: order.index(pick)])
    assert place == pytest.approx(before + blur[0] * law[pick] if law[pick] > 0 else 2.0, abs=1e-6)


def test_picks_that_rounding_alone_keeps_do_not_break_the_law():
    """An engine whose logits differ by up to `epsilon` keeps other ids at the edge of the truncation."""
    cell, epsilon = CELLS["truncated"], 0.5
    prompts, made = [], []
    for index in range(12):
        own, prompt = cell.of_prompt(index), [index, 1, 2]
        rows = sampling_rows(np.array([own.seed]), own.temperature, own.top_k, own.top_p, own.min_p)
        logits = KnownLogits().after([*prompt, *[0] * 39], 2)
        logits += np.random.default_rng(100 + index).uniform(-epsilon, epsilon, logits.shape).astype(np.float32) / 2
        positions = len(prompt) + np.arange(40)[None]
        prompts.append(prompt)
        made.append(target_picks(logits[None], rows, positions, CANDIDATES).ids[0].tolist())
    sampled = Sampled(cell, "ar", prompts, made, fixed=True)
    strict, aware = (
        check_sampler(sampled, KnownLogits(), candidates=CANDIDATES, epsilon=gap) for gap in (1e-3, epsilon)
    )
    assert strict.p_value < FALSE_ALARM  # of the same logits such picks were impossible
    assert aware.p_value > 1e-3
    assert aware.differing == aware.near_ties > 0


def test_picks_that_no_rounding_keeps_still_break_the_law():
    cell = CELLS["truncated"]
    prompts, made = steps_of(cell, sampler_cell=CELLS["plain"])  # nothing is truncated
    sampled = Sampled(cell, "ar", prompts, made, fixed=True)
    assert check_sampler(sampled, KnownLogits(), candidates=CANDIDATES, epsilon=0.1).p_value < FALSE_ALARM


def test_few_places_are_no_test():
    assert uniformity(np.full(19, 0.5)) == (0.0, 0)
    assert uniformity(np.linspace(0, 0.999, 20))[1] == 1
