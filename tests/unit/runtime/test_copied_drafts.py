"""Copied drafts: acceptance by how much of the text agrees, how many are verified, and that they do no harm."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.certificate import StepCost
from specc.bundle.policies import FallbackSpec, RoutingSpec, RuntimeSpec
from specc.runtime import GenerationParams
from specc.runtime.call_costs import CallCosts
from specc.runtime.context_acceptance import GROUPS, MOST_CONTEXT, PRIORS, ContextAcceptance
from specc.runtime.copied_drafts import FIRST_LOSS, LOSS_A_TOKEN, MOST_GAINED, CopiedDrafts
from specc.runtime.drafters.text_index import END, agreeing_tokens
from specc.runtime.policy import SpeculationPolicy
from specc.runtime.request import request_from_prompt
from specc.speculation.expected import predicted_speedup
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, naive_answer, toy_manifest, toy_session, toy_spec

# T(S)/T(1) of w4a16 on a CPU with AVX-512 VNNI (docs/performance.md), and the steeper curve of int4 on AVX2
# (cpu-performance.md section 3).
VNNI = {1: 1.0, 2: 1.22, 3: 1.48, 5: 1.87, 9: 2.70}
FUSED = {1: 1.0, 2: 1.53, 3: 1.83, 5: 2.11, 9: 2.73}  # of a bundle for one request at a time, with AMX
AVX2 = {1: 1.0, 2: 1.30, 3: 1.51, 4: 1.88, 5: 2.19, 6: 2.47, 8: 2.90, 12: 3.90}
FLAT = {1: 1.0, 2: 1.02, 9: 1.16}
CURVES = pytest.mark.parametrize("curve", [VNNI, AVX2, FUSED], ids=["vnni", "avx2", "fused"])


def costs_of(curve):
    return CallCosts(toy_spec(), table_from_step_costs([StepCost(1, s, cost) for s, cost in curve.items()]))


def policy_of(curve, min_speedup=1.0, **params):
    manifest = toy_manifest(ToyModel())
    request = request_from_prompt([1], GenerationParams(**params), manifest)
    runtime = RuntimeSpec(FallbackSpec(min_speedup, 32, 64), RoutingSpec(0))
    return SpeculationPolicy(request, runtime, manifest.limits, costs_of(curve))


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 8), st.integers(0, 8)), max_size=60), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_estimates_are_chances_and_lie_between_prior_and_observation(rounds, context):
    subject = ContextAcceptance()
    kept, seen = np.zeros(len(GROUPS)), np.zeros(len(GROUPS))
    for held, proposed, accepted in rounds:
        subject.add(held, proposed, accepted)
        for k in range(min(proposed, accepted + 1)):
            group = max(g for g, least in enumerate(GROUPS) if least <= held + k)
            seen[group] += 1
            kept[group] += k < accepted
    for k, estimate in enumerate(subject.conditional(context, 8)):
        group = max(g for g, least in enumerate(GROUPS) if least <= context + k)
        observed = kept[group] / seen[group] if seen[group] else PRIORS[group]
        assert min(observed, PRIORS[group]) - 1e-12 <= estimate <= max(observed, PRIORS[group]) + 1e-12


def test_priors_grow_with_context_and_what_was_observed_fades_into_them():
    assert all(low < high for low, high in pairwise(PRIORS))
    subject = ContextAcceptance()
    for _ in range(40):
        subject.add(2, 1, 0)
    refuted = subject.conditional(2, 1)[0]
    subject.age(69)
    half = subject.conditional(2, 1)[0]
    subject.age(2000)
    assert refuted < half < subject.conditional(2, 1)[0]
    assert subject.conditional(2, 1)[0] == pytest.approx(PRIORS[1], abs=1e-6)
    subject.clear()
    assert subject.conditional(1, 3) == list(PRIORS[:3])


@CURVES
def test_a_step_verifies_the_affordable_number_of_drafts_of_the_largest_predicted_speedup(curve):
    costs = costs_of(curve)
    subject = CopiedDrafts(costs, 1.0)
    affordable = max(drafts for drafts in range(9) if costs.seconds(1, drafts + 1) - 1 <= FIRST_LOSS)
    assert 3 <= affordable < 8
    for context in range(1, 20):
        acceptance = subject.expected_acceptance(context, affordable)
        speedups = [
            predicted_speedup(acceptance, gamma, lambda s: costs.seconds(1, s)) for gamma in range(affordable + 1)
        ]
        assert speedups[subject.worth(context, 8, 1)] == max(speedups)
        assert CopiedDrafts(costs, max(speedups) + 0.01).worth(context, 8, 1) == 0, "a bundle may ask for more"
    assert subject.worth(1, 8, 1) == 0, "where one token agrees, four of five drafts are wrong"
    assert subject.worth(MOST_CONTEXT, 8, 1) == affordable
    subject.count_round(MOST_CONTEXT, affordable, affordable, 1)
    assert subject.worth(MOST_CONTEXT, 8, 1) == 8, "what was gained pays for longer calls"
    assert CopiedDrafts(costs_of(FLAT), 1.0).worth(1, 8, 1) > 0, "where drafts cost next to nothing"


@CURVES
@given(rounds=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 8), st.integers(0, 9)), max_size=120))
@settings(max_examples=80, deadline=None)
def test_no_text_is_below_098_of_plain_decoding_by_the_measured_costs(curve, rounds):
    """Whatever agrees and whatever turns out wrong: the account bounds the loss of every prefix of every text."""
    costs, subject, made, cost = costs_of(curve), policy_of(curve), 0, 0.0
    for context, accepted, plain in rounds:
        for _ in range(plain):
            subject.count_ar_step()
        made, cost = made + plain, cost + plain
        drafts = subject.worth(context, offered, 1) if (offered := subject.free_limit()) else 0
        gained = min(accepted, drafts) + 1
        cost += costs.seconds(1, drafts + 1)
        made += gained
        if drafts:
            subject.count_round(drafts, gained - 1, batch=1, at_token=made, context=context)
        else:
            subject.count_ar_step()
        assert cost - made <= max(FIRST_LOSS, LOSS_A_TOKEN * made) + 1e-9
        assert made < 58 or made / cost >= 0.98


@CURVES
def test_a_bundle_that_never_falls_back_has_no_account(curve):
    subject = policy_of(curve, min_speedup=0.0)
    made, cost = steps_saved(subject, curve, [(MOST_CONTEXT, 0.0)] * 20)
    assert subject.fallbacks == []
    assert made / cost < 0.9, "as its recipe asks"


@CURVES
def test_gains_are_forgotten_beyond_a_bound_and_losses_never(curve):
    subject = CopiedDrafts(costs_of(curve), 1.0)
    for _ in range(20):
        subject.count_round(MOST_CONTEXT, 8, 8, 1)
    assert subject.lost == -MOST_GAINED
    while subject.wait(1) == 0:
        subject.count_round(MOST_CONTEXT, subject.worth(MOST_CONTEXT, 1, 1), 0, 1)
    subject.forget_acceptance()
    wait = subject.wait(1)
    assert wait >= 1
    subject.pass_tokens(wait - 1)
    assert subject.worth(MOST_CONTEXT, 8, 1) == 0
    subject.pass_tokens(1)
    assert subject.worth(MOST_CONTEXT, 8, 1) == 1


def steps_saved(subject, curve, rounds):
    """Run rounds of (context, chance of each draft) and return tokens and their cost in steps of plain decoding."""
    rng, costs, made, cost = np.random.default_rng(0), costs_of(curve), 0, 0.0
    for context, chance in rounds:
        offered = min(8, subject.free_limit())
        drafts = subject.worth(context, offered, 1) if offered and context else 0
        cost += costs.seconds(1, drafts + 1)
        if drafts == 0:
            made += 1
            subject.count_ar_step()
            continue
        accepted = int(np.argmin(np.append(rng.random(drafts) < chance, False)))
        made += accepted + 1
        subject.count_round(drafts, accepted, batch=1, at_token=made, context=context)
    return made, cost


@CURVES
@pytest.mark.parametrize("context", range(1, MOST_CONTEXT + 1))
def test_copies_that_are_always_wrong_cost_a_fiftieth_at_most(curve, context):
    """However much agrees: the worst text for this policy, at lengths of an answer."""
    for length in (64, 512, 4096):
        made, cost = steps_saved(policy_of(curve), curve, [(context, 0.0)] * length)
        assert made == length
        assert made / cost >= 0.98


def test_a_request_that_can_afford_no_draft_falls_back_and_says_so():
    subject = policy_of(FUSED)
    made, _ = steps_saved(subject, FUSED, [(MOST_CONTEXT, 0.0)] * 200)
    assert made == 200
    assert subject.fallbacks[0].at_token == 1, "4 wrong drafts take 1.1 steps"
    said = "acceptance: rounds took 1.1 steps beyond their tokens, a wrong draft more is too dear for 81 tokens"
    assert subject.fallbacks[0].reason == said
    assert subject.fallbacks[1].at_token == math.ceil((1.11 + 0.53) / LOSS_A_TOKEN) + 1, "then one draft is tried"


@CURVES
def test_right_copies_are_verified_as_far_as_they_may_be(curve):
    costs = costs_of(curve)
    made, cost = steps_saved(policy_of(curve), curve, [(MOST_CONTEXT, 1.0)] * 60)
    assert made / cost == pytest.approx(9 / costs.seconds(1, 9), rel=0.03), "but for the first call"


@pytest.mark.parametrize(("params", "verified"), [({"mode": "spec"}, 4), ({"gamma": 2}, 2), ({"gamma": 8}, 5)])
def test_a_request_bounds_what_is_verified(params, verified):
    subject = policy_of(VNNI, **params)
    assert subject.worth(MOST_CONTEXT, min(8, subject.free_limit()), 1) == verified


def test_without_measured_costs_copied_drafts_are_as_many_as_others():
    manifest = toy_manifest(ToyModel())
    request = request_from_prompt([1], GenerationParams(), manifest)
    subject = SpeculationPolicy(request, manifest.runtime, manifest.limits, CallCosts(toy_spec(), None))
    assert subject.free_limit() == subject.limit() == manifest.limits.default_gamma
    assert subject.worth(1, 3, 1) == 3


@given(st.lists(st.integers(-1, 2), max_size=24), st.lists(st.integers(0, 2), max_size=24), st.data())
@settings(max_examples=200, deadline=None)
def test_agreeing_tokens_equals_a_comparison_of_ends(text, known, data):
    start, most = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 8))
    sizes = range(min(most, start, len(known)) + 1)
    alike = [n for n in sizes if text[start - n : start] == known[len(known) - n :]]
    assert agreeing_tokens(text, start, known, most) == max(alike)
    assert END not in known


@pytest.mark.parametrize("curve", [VNNI, FLAT], ids=["vnni", "flat"])
def test_in_a_session_the_text_stays_and_doubtful_copies_are_left_alone(curve):
    model = ToyModel(memory=1, vocab_size=8)  # soon periodic
    table = table_from_step_costs([StepCost(1, s, cost) for s, cost in curve.items()])
    session, runner = toy_session(model, toy_manifest(model), step_costs=table)
    (made,) = session.generate([[1, 2, 3]], GenerationParams(max_new_tokens=60))
    assert list(made.token_ids) == naive_answer(model, (1, 2, 3), 60)
    assert made.statistics.accepted > 30
    assert made.statistics.accepted + made.statistics.rounds + made.statistics.ar_steps >= 59
    assert max(call.tokens for call in runner.calls) == 9
