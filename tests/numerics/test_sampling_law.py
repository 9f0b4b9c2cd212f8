"""The oracle has the law it states; every mutant of it fails the same checks (tests/sampling_law.py, p < 1e-6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specc.speculation.noise import Float32Array, Int64Array, Stream, gumbel, noise_bits
from specc.speculation.sampling import SamplingRows, kept_candidates, sampling_rows, scaled_logits, target_picks
from tests.sampling_law import (
    CANDIDATES,
    FALSE_ALARM,
    LOGITS,
    SEEDS,
    SETTINGS,
    TIED,
    Setting,
    adjacent_rows_p,
    batch_rows_p,
    differs_from_oracle,
    differs_from_single_calls,
    law_p,
    marginal_p,
    mixed_batch,
    oracle_sampler,
    picks_of_one_law,
)


@pytest.mark.parametrize("logits", [LOGITS, TIED], ids=["distinct", "tied"])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_oracle_has_the_stated_law(name, logits):
    assert marginal_p(oracle_sampler(CANDIDATES), logits, SETTINGS[name]) > FALSE_ALARM


@pytest.mark.parametrize("name", ["plain", "top_p", "all"])
def test_positions_and_seeds_are_independent(name):
    sampler = oracle_sampler(CANDIDATES)
    assert adjacent_rows_p(sampler, LOGITS, SETTINGS[name], SEEDS, CANDIDATES) > FALSE_ALARM
    assert batch_rows_p(sampler, LOGITS, SETTINGS[name], SEEDS, CANDIDATES) > FALSE_ALARM
    successive = np.arange(12_000, dtype=np.int64)
    assert batch_rows_p(sampler, LOGITS, SETTINGS[name], successive, CANDIDATES) > FALSE_ALARM


def test_one_seed_has_the_law_over_its_positions():
    picks = picks_of_one_law(
        oracle_sampler(CANDIDATES), LOGITS, Setting(), np.array([99]), first_position=0, rows=20_000
    )
    assert law_p(picks, Setting().law(LOGITS, CANDIDATES)) > FALSE_ALARM


def test_a_row_alone_and_among_others_is_picked_alike():
    assert differs_from_single_calls(oracle_sampler(CANDIDATES), *mixed_batch()) == 0


def picks_by(values: Float32Array) -> Int64Array:
    return np.argmax(values, axis=-1).astype(np.int64)


def target_noise(sampling: SamplingRows, positions: Int64Array, width: int) -> Float32Array:
    ids = np.arange(width, dtype=np.int64)
    return gumbel(noise_bits(sampling.seed[:, None, None], Stream.TARGET, positions[:, :, None], ids))


def position_of_the_first_row(logits, sampling, positions):
    return oracle_sampler(CANDIDATES)(logits, sampling, np.repeat(positions[:, :1], positions.shape[1], axis=1))


def position_of_the_input_row(logits, sampling, positions):
    return oracle_sampler(CANDIDATES)(logits, sampling, positions - 1)


def position_off_by_one_in_verify(logits, sampling, positions):
    return oracle_sampler(CANDIDATES)(logits, sampling, positions + (positions.shape[1] > 1))


def one_seed_for_the_batch(logits, sampling, positions):
    return oracle_sampler(CANDIDATES)(logits, replace(sampling, seed=np.full_like(sampling.seed, 3)), positions)


def noise_of_the_draft_stream(logits, sampling, positions):
    ids = np.arange(logits.shape[-1], dtype=np.int64)
    noise = gumbel(noise_bits(sampling.seed[:, None, None], Stream.DRAFT, positions[:, :, None], ids))
    values = np.where(
        kept_candidates(logits, sampling, CANDIDATES), scaled_logits(logits, sampling.temperature), -np.inf
    )
    return picks_by(values + noise * (sampling.temperature >= 1e-5)[:, None, None])


def truncation_after_noise(logits, sampling, positions):
    noise = target_noise(sampling, positions, logits.shape[-1])
    noisy = scaled_logits(logits, sampling.temperature) + noise
    plain = replace(sampling, temperature=np.ones_like(sampling.temperature))
    return picks_by(np.where(kept_candidates(noisy, plain, CANDIDATES), noisy, -np.inf))


def temperature_after_truncation(logits, sampling, positions):
    kept = kept_candidates(logits, replace(sampling, temperature=np.ones_like(sampling.temperature)), CANDIDATES)
    noisy = scaled_logits(logits, sampling.temperature) + target_noise(sampling, positions, logits.shape[-1])
    return picks_by(np.where(kept, noisy, -np.inf))


def temperature_on_the_noise_too(logits, sampling, positions):
    warm = replace(sampling, temperature=np.ones_like(sampling.temperature))
    kept = kept_candidates(logits, sampling, CANDIDATES)
    noisy = scaled_logits(logits, warm.temperature) + target_noise(sampling, positions, logits.shape[-1])
    return picks_by(np.where(kept, noisy, -np.inf))


def candidates_ignored(logits, sampling, positions):
    return oracle_sampler(logits.shape[-1])(logits, sampling, positions)


def top_p_before_top_k(logits, sampling, positions):
    no_k = replace(sampling, top_k=np.zeros_like(sampling.top_k))
    only_k = replace(sampling, top_p=np.ones_like(sampling.top_p), min_p=np.zeros_like(sampling.min_p))
    kept = kept_candidates(logits, no_k, CANDIDATES) & kept_candidates(logits, only_k, CANDIDATES)
    noisy = scaled_logits(logits, sampling.temperature) + target_noise(sampling, positions, logits.shape[-1])
    return picks_by(np.where(kept, noisy, -np.inf))


def ties_upwards(logits, sampling, positions):
    width = logits.shape[-1]
    kept = kept_candidates(logits[..., ::-1], sampling, CANDIDATES)[..., ::-1]
    noisy = scaled_logits(logits, sampling.temperature) + target_noise(sampling, positions, width)
    values = np.where((sampling.temperature < 1e-5)[:, None, None], logits, np.where(kept, noisy, -np.inf))
    return width - 1 - picks_by(values[..., ::-1])


@pytest.mark.parametrize(
    ("mutant", "name", "logits"),
    [
        (truncation_after_noise, "top_k", LOGITS),
        (truncation_after_noise, "top_p", LOGITS),
        (temperature_after_truncation, "top_p", LOGITS),
        (temperature_after_truncation, "min_p", LOGITS),
        (temperature_on_the_noise_too, "cold", LOGITS),
        (candidates_ignored, "top_k_beyond_the_candidates", LOGITS),
        (top_p_before_top_k, "all", LOGITS),
        (ties_upwards, "greedy", TIED),
        (ties_upwards, "top_k", TIED),
        (one_seed_for_the_batch, "plain", LOGITS),
    ],
    ids=lambda value: getattr(value, "__name__", value if isinstance(value, str) else ""),
)
def test_the_marginal_law_kills(mutant, name, logits):
    assert marginal_p(mutant, logits, SETTINGS[name]) < FALSE_ALARM


def test_adjacent_rows_kill_one_position_for_all_rows():
    assert adjacent_rows_p(position_of_the_first_row, LOGITS, Setting(), SEEDS, CANDIDATES) < FALSE_ALARM


def test_batch_rows_kill_one_seed_for_the_batch():
    assert batch_rows_p(one_seed_for_the_batch, LOGITS, Setting(), SEEDS, CANDIDATES) < FALSE_ALARM


@pytest.mark.parametrize("mutant", [position_of_the_first_row, position_off_by_one_in_verify])
def test_single_calls_kill(mutant):
    assert differs_from_single_calls(mutant, *mixed_batch()) > 0


@pytest.mark.parametrize("mutant", [position_of_the_input_row, noise_of_the_draft_stream, one_seed_for_the_batch])
def test_agreement_with_the_oracle_kills_what_is_consistent_with_itself(mutant):
    wrong, _ = differs_from_oracle(mutant, *mixed_batch(), candidates=CANDIDATES, epsilon=1e-5)
    assert wrong > 0


def test_the_oracle_agrees_with_itself_and_near_ties_are_rare():
    logits, sampling, positions = mixed_batch()
    agreed = differs_from_oracle(
        oracle_sampler(CANDIDATES), logits, sampling, positions, candidates=CANDIDATES, epsilon=1e-5
    )
    assert agreed == (0, 0)


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1e-5, 0.3, 50.0])
def test_extreme_logits_and_noise_stay_finite(temperature):
    logits = np.array([[[-np.inf, 3e4, -3e4, 0.0, 3e4]]], dtype=np.float32)
    picks = target_picks(logits, sampling_rows(np.array([2**32 - 1]), temperature), np.array([[2**31 - 1]]), 5)
    assert picks.ids[0, 0] in (1, 4)
    assert not np.isnan(picks.gaps).any()
