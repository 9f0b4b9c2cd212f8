"""Texts generated in rounds have the law of AR decoding: through the oracle and through the compiled verification.

The p-values are of 20 000 texts of three tokens; a right judge fails one check in a million (tests/sampling_law.py).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from specc.speculation import judged
from specc.speculation.modes import DRAFT_SUPPORT
from specc.speculation.noise import Stream, uniform
from specc.speculation.rules import REJECTION
from tests.acceptance_law import emitted_law
from tests.judged_calls import RULES, judged_model, session_of
from tests.sampling_law import FALSE_ALARM, Setting
from tests.speculative_rounds import (
    GAMMA,
    RIGHT,
    Drafter,
    oracle_judge,
    play,
    session_judge,
    text_law,
    toy,
    toy_pair,
)

PAIR = toy()
PLAIN = Setting()
SETTINGS = {
    "plain": PLAIN,
    "cold": Setting(temperature=0.6),
    "top_k": Setting(top_k=2),
    "all": Setting(temperature=1.4, top_k=3, top_p=0.9, min_p=0.1),
}
LOSSLESS = ("rejection", "block")
LOWERINGS = ("canonical", "onnxruntime", "tensorrt-rtx")


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("mode", LOSSLESS)
def test_texts_have_the_law_of_ar_decoding(mode, name):
    rule, setting = RULES[mode], SETTINGS[name]
    assert play(oracle_judge(rule), rule, PAIR, setting).p_value(text_law(PAIR, setting)) > FALSE_ALARM


@pytest.mark.parametrize(
    "drafter",
    [Drafter(determined=True), Drafter(every_other=True), Drafter(temperature=2.0)],
    ids=["determined", "every_other_round", "q_of_another_temperature"],
)
@pytest.mark.parametrize("mode", LOSSLESS)
def test_the_drafter_does_not_matter(mode, drafter):
    rule = RULES[mode]
    assert play(oracle_judge(rule), rule, PAIR, PLAIN, drafter).p_value(text_law(PAIR, PLAIN)) > FALSE_ALARM


@pytest.mark.parametrize("mode", LOSSLESS)
def test_as_many_drafts_are_accepted_as_the_two_laws_allow(mode):
    """The draft is the target with noise; the mean must lie within five standard errors of the exact one."""
    rule = RULES[mode]
    accepted = play(oracle_judge(rule), rule, PAIR, PLAIN).accepted
    _, expected = emitted_law(rule, toy_pair(PAIR, PLAIN))
    assert abs(accepted.mean() - expected) < 5 * accepted.std() / np.sqrt(len(accepted))
    if mode == "rejection":  # of the first draft alone: 1 - TV(p, q)
        laws = toy_pair(PAIR, PLAIN)
        overlap = np.minimum(laws.target[0], laws.drawn[0]).sum()
        error = np.sqrt(overlap * (1 - overlap) / len(accepted))
        assert abs((accepted > 0).mean() - overlap) < 5 * error


@pytest.mark.parametrize(
    ("mode", "drafter"),
    [
        ("rejection", Drafter(stream=Stream.RESIDUAL)),
        ("rejection", Drafter(stream=Stream.ACCEPT)),
        ("rejection", Drafter(greedy=True)),
        ("block", Drafter(greedy=True)),
        ("block", Drafter(stream=Stream.RESIDUAL, own_rounds=False)),
        ("block", Drafter(stream=Stream.ACCEPT, own_rounds=False)),
        # A failed block says something of the drafts behind it, so the next round must draw them anew.
        ("block", Drafter(own_rounds=False)),
    ],
)
def test_drafts_of_shared_noise_or_of_another_law_are_caught(mode, drafter):
    rule = RULES[mode]
    assert play(oracle_judge(rule), rule, PAIR, PLAIN, drafter).p_value(text_law(PAIR, PLAIN)) < FALSE_ALARM


def uniforms_of_the_positions(rule, seed, position):
    return accept_uniforms(REJECTION, seed, position)


def one_uniform_for_the_round(rule, seed, position):
    return np.repeat(accept_uniforms(rule, seed, position)[:, :1], position.shape[1] - 1, axis=1)


def uniforms_of_the_residual(rule, seed, position):
    bits = judged.noise_bits(seed[:, None], Stream.RESIDUAL, position[:, :-1], np.zeros(1, dtype=np.int64))
    return uniform(bits)


accept_uniforms = judged.accept_uniforms


@pytest.mark.parametrize(
    ("mode", "mutant", "drafter"),
    [
        ("rejection", one_uniform_for_the_round, RIGHT),
        ("block", one_uniform_for_the_round, RIGHT),
        ("rejection", uniforms_of_the_residual, RIGHT),
        # Uniforms of single positions would be used again by the next round, which a failed block has seen.
        ("block", uniforms_of_the_positions, RIGHT),
        ("block", uniforms_of_the_positions, Drafter(determined=True)),
    ],
)
def test_judges_of_shared_noise_are_caught(monkeypatch, mode, mutant, drafter):
    rule = RULES[mode]
    monkeypatch.setattr(judged, "accept_uniforms", mutant)
    assert play(oracle_judge(rule), rule, PAIR, PLAIN, drafter).p_value(text_law(PAIR, PLAIN)) < FALSE_ALARM


@pytest.mark.parametrize("mode", LOSSLESS)
def test_drafts_from_a_text_of_the_same_seed_are_caught(mode):
    """Why a session's text must not be proposed: the noise that made it judges it."""
    rule = RULES[mode]
    ids = play(oracle_judge(rule), rule, PAIR, PLAIN, Drafter(determined=True)).ids
    known = np.pad(ids, ((0, 0), (0, GAMMA)))
    same_seed = play(oracle_judge(rule), rule, PAIR, PLAIN, Drafter(known=known))
    assert same_seed.p_value(text_law(PAIR, PLAIN)) < FALSE_ALARM
    other_seed = play(oracle_judge(rule), rule, PAIR, PLAIN, Drafter(known=np.roll(known, 1, axis=0)))
    assert other_seed.p_value(text_law(PAIR, PLAIN)) > FALSE_ALARM


def shifted(judge):
    """Return a judge that counts the positions of verify calls, not those of AR steps, from one token before."""

    def mutant(logits, inputs):
        moved = inputs["past_lengths"] - (inputs["num_draft"] > 0)
        return judge(logits, inputs | {"past_lengths": moved})

    return mutant


@pytest.mark.parametrize("mode", LOSSLESS)
def test_a_position_off_by_one_in_verify_calls_is_caught(mode):
    """Beside right AR steps it uses the noise of a position twice."""
    rule, drafter = RULES[mode], Drafter(every_other=True)
    judge = shifted(oracle_judge(rule))
    assert play(judge, rule, PAIR, PLAIN, drafter).p_value(text_law(PAIR, PLAIN)) < FALSE_ALARM


@cache
def compiled(lowering, mode):
    capacity = 64 if lowering == "tensorrt-rtx" else None
    return session_of(judged_model(RULES[mode], 4, lowering=lowering, candidates=4, capacity=capacity))


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("mode", LOSSLESS)
def test_the_compiled_verification_has_the_law_of_ar_decoding(mode, lowering):
    rule = RULES[mode]
    judge = session_judge(compiled(lowering, mode), rule, DRAFT_SUPPORT if lowering == "tensorrt-rtx" else 0)
    for name in ("plain", "all"):
        for drafter in (RIGHT, Drafter(determined=True)) if name == "plain" else (RIGHT,):
            played = play(judge, rule, PAIR, SETTINGS[name], drafter)
            assert played.p_value(text_law(PAIR, SETTINGS[name], 4)) > FALSE_ALARM


def test_typical_acceptance_has_another_law_and_accepts_more():
    rule = RULES["typical"]
    played = play(oracle_judge(rule), rule, PAIR, PLAIN)
    assert played.p_value(text_law(PAIR, PLAIN)) < FALSE_ALARM
    assert played.accepted.mean() > play(oracle_judge(REJECTION), REJECTION, PAIR, PLAIN).accepted.mean()
