"""The rules of acceptance have the law of AR decoding, exactly; every wrong rule has not (tests/acceptance_law.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.speculation.modes import TypicalSpec
from specc.speculation.rules import BLOCK, REJECTION, JudgedChain, Odds, Rule, odds_from_chain, own_law
from tests.acceptance_law import Pair, ar_law, emitted_law, judged_chains, random_law, random_pair

EXACT = 1e-9
# A wrong rule must miss by this much; the right ones miss by about 1e-16.
WRONG = 1e-3
LOSSLESS = {"rejection": REJECTION, "block": BLOCK}
SIZES = [(2, 1), (8, 1), (5, 2), (8, 2), (4, 3), (8, 3)]


def distance(law, wanted):
    """Return the total variation distance."""
    return float(np.abs(law - wanted).sum() / 2)


@pytest.mark.parametrize(("vocab_size", "gamma"), SIZES)
@pytest.mark.parametrize("mode", LOSSLESS)
def test_a_round_has_the_law_of_ar_decoding(mode, vocab_size, gamma):
    for seed in range(3):
        pair = random_pair(np.random.default_rng(seed), vocab_size, gamma)
        law, accepted = emitted_law(LOSSLESS[mode], pair)
        np.testing.assert_allclose(law, ar_law(pair), rtol=0, atol=EXACT)
        assert 0 < accepted <= gamma + EXACT


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 3), st.sampled_from([0.0, 0.4, 0.8]))
def test_any_pair_has_the_law_of_ar_decoding(seed, vocab_size, gamma, zeros):
    pair = random_pair(np.random.default_rng(seed), vocab_size, gamma, zeros)
    for rule in LOSSLESS.values():
        np.testing.assert_allclose(emitted_law(rule, pair)[0], ar_law(pair), rtol=0, atol=EXACT)


def one_hot_pair(pair):
    """Return the pair with drafts determined by their prefix."""
    likely = tuple((level == level.max(axis=-1, keepdims=True)).astype(np.float64) for level in pair.drawn)
    return Pair(pair.target, likely, likely)


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_determined_drafts_reduce_to_one_draw_from_p(gamma):
    """Accept with p(d), else p without d: the law of drawing z from p and accepting iff z is the draft."""
    pair = one_hot_pair(random_pair(np.random.default_rng(5), 5, gamma, zeros=0.0))
    chain, probability = judged_chains(pair)
    for rule in LOSSLESS.values():
        law, accepted = emitted_law(rule, pair)
        np.testing.assert_allclose(law, ar_law(pair), rtol=0, atol=EXACT)
        path = chain.drafts[np.argmax(probability)]
        expected, survival = 0.0, 1.0
        for k, level in enumerate(pair.target[:gamma]):
            survival *= float(level[tuple(path[: k + 1])])
            expected += survival
        assert accepted == pytest.approx(expected, abs=EXACT)
    odds = odds_from_chain(REJECTION, chain)
    row = int(np.argmax(probability))
    np.testing.assert_allclose(odds.denominator[row], 1, rtol=0, atol=0)
    left = own_law(REJECTION, chain, odds, np.zeros(len(probability), dtype=np.int64))[row]
    without = pair.target[0].copy()
    without[path[0]] = 0
    np.testing.assert_allclose(left, without, rtol=0, atol=EXACT)


def test_one_draft_is_accepted_as_often_as_two_laws_can_agree():
    for seed in range(20):
        pair = random_pair(np.random.default_rng(seed), 6, 1)
        for rule in LOSSLESS.values():
            accepted = emitted_law(rule, pair)[1]
            assert accepted == pytest.approx(1 - distance(pair.target[0], pair.drawn[0]), abs=EXACT)


def test_block_accepts_no_less_and_somewhere_more():
    gains = []
    for seed in range(30):
        pair = random_pair(np.random.default_rng(seed), 3, 3, zeros=0.0)
        gains.append(emitted_law(BLOCK, pair)[1] - emitted_law(REJECTION, pair)[1])
    assert min(gains) > -EXACT
    assert max(gains) > 0.02


def test_a_draft_equal_to_the_target_is_accepted_whole():
    """p == q everywhere: the residual is empty, and nothing is no number (case E3)."""
    same = random_pair(np.random.default_rng(1), 4, 3)
    pair = Pair(same.target, same.target[:3], same.target[:3])
    for rule in LOSSLESS.values():
        law, accepted = emitted_law(rule, pair)
        np.testing.assert_allclose(law, ar_law(pair), rtol=0, atol=EXACT)
        assert accepted == pytest.approx(3, abs=EXACT)


def test_typical_acceptance_is_lossy_and_keeps_what_is_likely():
    pair = random_pair(np.random.default_rng(2), 5, 2, zeros=0.0)
    law, accepted = emitted_law(Rule("typical", TypicalSpec(0.09, 0.3)), pair)
    assert distance(law, ar_law(pair)) > 0.05
    assert accepted > emitted_law(REJECTION, pair)[1]
    none, no_drafts = emitted_law(Rule("typical", TypicalSpec(1.0, 1e9)), pair)
    assert no_drafts == 0
    np.testing.assert_allclose(none, ar_law(pair), rtol=0, atol=EXACT)  # its own token is drawn from p


def resampled_from_p(rule, chain, odds, accepted):
    return chain.p[np.arange(len(accepted)), accepted]


def softmax_of_the_residual(rule, chain, odds, accepted):
    left = own_law(rule, chain, odds, accepted)
    left = left / left.sum(axis=1, keepdims=True)
    return np.where((accepted < chain.num_draft)[:, None], np.exp(left), left)


def residual_of_the_row_before(rule, chain, odds, accepted):
    moved = replace(chain, q=np.roll(chain.q, 1, axis=1))
    return own_law(rule, moved, odds, accepted)


def residual_also_after_the_last_draft(rule, chain, odds, accepted):
    q = np.concatenate([chain.q[:, :-1], chain.q[:, :1]], axis=1)
    return own_law(rule, replace(chain, q=q, num_draft=chain.num_draft + 1), odds, accepted)


def rows_off_by_one(rule, chain):
    return odds_from_chain(rule, replace(chain, p=np.roll(chain.p, -1, axis=1)))


def inverted_ratio(rule, chain):
    odds = odds_from_chain(rule, chain)
    return Odds(odds.denominator, odds.numerator, odds.weight)


def first_failure_ends_the_block(rule, chain):
    """Judge with the chances of block, count as rejection does."""
    odds = odds_from_chain(BLOCK, chain)
    with np.errstate(all="ignore"):
        chances = np.nan_to_num(np.minimum(odds.numerator / odds.denominator, 1), nan=0.0)
    return Odds(chances, np.ones_like(chances), odds.weight)


@pytest.mark.parametrize("gamma", [1, 3])
@pytest.mark.parametrize("mode", LOSSLESS)
@pytest.mark.parametrize(
    "own", [resampled_from_p, softmax_of_the_residual, residual_also_after_the_last_draft], ids=lambda f: f.__name__
)
def test_wrong_own_tokens_are_caught(mode, own, gamma):
    pair = random_pair(np.random.default_rng(3), 4, gamma, zeros=0.0)
    assert distance(emitted_law(LOSSLESS[mode], pair, own_law_of=own)[0], ar_law(pair)) > WRONG


@pytest.mark.parametrize("mode", LOSSLESS)
def test_a_residual_of_another_row_is_caught(mode):
    pair = random_pair(np.random.default_rng(3), 4, 3, zeros=0.0)
    law, _ = emitted_law(LOSSLESS[mode], pair, own_law_of=residual_of_the_row_before)
    assert distance(law, ar_law(pair)) > WRONG


@pytest.mark.parametrize(
    ("mode", "odds_of"),
    [
        ("rejection", rows_off_by_one),
        ("block", rows_off_by_one),
        ("rejection", inverted_ratio),
        ("rejection", first_failure_ends_the_block),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_wrong_chances_are_caught(mode, odds_of):
    pair = random_pair(np.random.default_rng(4), 4, 3, zeros=0.0)
    assert distance(emitted_law(LOSSLESS[mode], pair, odds_of=odds_of)[0], ar_law(pair)) > WRONG


def truncated(level, keep):
    """Return the laws with all but the `keep` largest entries removed."""
    kept = np.where(level >= np.sort(level, axis=-1)[..., -keep, None], level, 0)
    return kept / kept.sum(axis=-1, keepdims=True)


def bfloat16(level):
    bits = level.astype(np.float32).view(np.uint32)
    return (((bits + 0x8000) >> 16) << 16).view(np.float32).astype(np.float64)


def lies(name, pair):
    if name == "q before truncation":
        return replace(pair, drawn=tuple(truncated(level, 2) for level in pair.drawn))
    if name == "greedy drafts judged with a softmax q":  # case E4
        return replace(pair, drawn=one_hot_pair(pair).drawn)
    if name == "q of another temperature":
        warm = [level**0.5 for level in pair.drawn]
        return replace(pair, stated=tuple(level / level.sum(axis=-1, keepdims=True) for level in warm))
    assert name == "q rounded to bfloat16"  # case E6
    return replace(pair, stated=tuple(bfloat16(level) for level in pair.drawn))


@pytest.mark.parametrize("gamma", [1, 2])
@pytest.mark.parametrize("mode", LOSSLESS)
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("q before truncation", WRONG),
        ("greedy drafts judged with a softmax q", WRONG),
        ("q of another temperature", WRONG),
        ("q rounded to bfloat16", 1e-5),
    ],
)
def test_a_stated_q_that_is_not_the_drawn_one_is_caught(mode, name, least, gamma):
    pair = lies(name, random_pair(np.random.default_rng(6), 5, gamma, zeros=0.0))
    assert distance(emitted_law(LOSSLESS[mode], pair)[0], ar_law(pair)) > least


def test_q_of_any_other_processing_is_exact_when_it_is_the_drawn_one():
    """Equal processing of p and q is no condition: it raises acceptance only."""
    rng = np.random.default_rng(7)
    pair = random_pair(rng, 5, 2)
    cut = tuple(truncated(level, 2) for level in pair.drawn)
    for rule in LOSSLESS.values():
        law, _ = emitted_law(rule, Pair(pair.target, cut, cut))
        np.testing.assert_allclose(law, ar_law(pair), rtol=0, atol=EXACT)


def test_rows_may_have_fewer_drafts_than_columns():
    rng = np.random.default_rng(8)
    p, q = random_law(rng, (1, 4, 5)), random_law(rng, (1, 4, 5))
    for rule in LOSSLESS.values():
        for drafts in range(4):
            wide = JudgedChain(p, q, rng.integers(0, 5, (1, 3)), np.array([drafts]))
            short = JudgedChain(p[:, : drafts + 1], q[:, : drafts + 1], wide.drafts[:, :drafts], wide.num_draft)
            ours, theirs = odds_from_chain(rule, wide), odds_from_chain(rule, short)
            np.testing.assert_array_equal(ours.numerator[:, :drafts], theirs.numerator)
            np.testing.assert_array_equal(ours.denominator[:, :drafts], theirs.denominator)
