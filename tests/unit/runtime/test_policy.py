"""Gamma, fallback, probing and routing of one request, and throttling of a batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.certificate import StepCost
from specc.bundle.policies import FallbackSpec, RoutingSpec, RuntimeSpec
from specc.runtime import GenerationParams, Session
from specc.runtime.acceptance_window import AcceptanceWindow
from specc.runtime.call_costs import CallCosts
from specc.runtime.grouping import CallPlanner, Need
from specc.runtime.policy import HYSTERESIS, MIN_ROUNDS, SpeculationPolicy
from specc.runtime.request import request_from_prompt
from specc.runtime.routing import route_from_request
from specc.runtime.throttle import Candidate, draft_cap
from specc.speculation.expected import best_gamma, predicted_speedup
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, ToyRunner, toy_manifest, toy_spec
from tests.oracle_drafters import OracleDrafter

FLAT = [StepCost(b, s, 1 + 0.02 * (b * s - 1)) for b in (1, 2, 4) for s in (1, 2, 4, 6, 9)]
STEEP = [StepCost(b, s, 0.5 + 0.5 * b * s) for b in (1, 2, 4) for s in (1, 2, 4, 6, 9)]
MODEL = ToyModel(memory=0)
# T(S)/T(1) of int4 weights with an int8 head at batch 1 (cpu-performance.md section 3): attention over a cache of 320
# rows, and GroupQueryAttention, which is steeper.
INT4 = {1: 1.0, 2: 1.24, 3: 1.45, 4: 1.69, 5: 1.76, 6: 1.98, 8: 2.47, 12: 3.45}
INT4_STEEPER = {1: 1.0, 2: 1.30, 3: 1.51, 4: 1.88, 5: 2.19, 6: 2.47, 8: 2.90, 12: 3.90}


def policy(costs=None, runtime=None, **params):
    manifest = toy_manifest(MODEL)
    request = request_from_prompt([1], GenerationParams(**params), manifest)
    runtime = runtime or RuntimeSpec(FallbackSpec(1.0, 32, 10), RoutingSpec(0))
    table = None if costs is None else table_from_step_costs(costs)
    return SpeculationPolicy(request, runtime, manifest.limits, CallCosts(toy_spec(), table))


def run(subject, acceptances):
    """Feed rounds in which all drafts up to a position are accepted; return the gamma before each."""
    gammas = []
    for index, accepted in enumerate(acceptances):
        gammas.append(subject.limit())
        if subject.limit():
            subject.count_round(subject.limit(), min(accepted, subject.limit()), batch=1, at_token=index)
        else:
            subject.count_ar_step()
    return gammas


def test_no_acceptance_falls_back_after_three_rounds_then_probes_less_and_less():
    subject = policy(STEEP)
    gammas = run(subject, [0] * 60)
    assert [fallback.at_token for fallback in subject.fallbacks] == [2, 15, 38]
    assert gammas[3:13] == [0] * 10  # probe_after tokens
    assert gammas[16:36] == [0] * 20, "a trial that fails doubles them"
    assert gammas[13] > 0
    assert subject.fallbacks[0].reason.startswith("acceptance: predicted speed-up 0.75 over 3 rounds, needed 1.00")


def speed_over_ar(curve, acceptance, tokens, seed):
    """Return tokens over their cost in AR steps where each draft is accepted with the same chance."""
    table = table_from_step_costs([StepCost(1, s, cost) for s, cost in curve.items()])
    subject = policy(
        [StepCost(1, s, cost) for s, cost in curve.items()], RuntimeSpec(FallbackSpec(1.0, 32, 64), RoutingSpec(0))
    )
    rng, made, cost = np.random.default_rng(seed), 0, 0.0
    while made < tokens:
        gamma = subject.limit()
        cost += table.seconds(1, gamma + 1)
        if gamma == 0:
            made += 1
            subject.count_ar_step()
            continue
        accepted = int(np.argmin(np.append(rng.random(gamma) < acceptance, False)))
        made += accepted + 1
        subject.count_round(gamma, accepted, batch=1, at_token=made)
    return made / cost


@pytest.mark.parametrize("curve", [INT4, INT4_STEEPER], ids=["attention", "gqa"])
@pytest.mark.parametrize("acceptance", [0.3, 0.6, 0.8, 0.97])
def test_on_the_steep_curve_of_low_bits_gamma_reaches_95_percent_of_the_best_fixed_one(curve, acceptance):
    table = table_from_step_costs([StepCost(1, s, cost) for s, cost in curve.items()])
    best = best_gamma([acceptance] * 8, lambda tokens: table.seconds(1, tokens), 8).speedup
    assert np.mean([speed_over_ar(curve, acceptance, 512, seed) for seed in range(12)]) >= 0.95 * best


@pytest.mark.parametrize("curve", [INT4, INT4_STEEPER], ids=["attention", "gqa"])
@pytest.mark.parametrize("acceptance", [0.0, 0.1, 0.2])
def test_on_that_curve_wrong_drafts_cost_a_fortieth_of_a_short_answer_at_most(curve, acceptance):
    assert np.mean([speed_over_ar(curve, acceptance, 96, seed) for seed in range(40)]) >= 0.975


@pytest.mark.parametrize("costs", [None, FLAT])
def test_where_a_round_costs_little_more_than_a_step_doubt_is_paid_longer(costs):
    subject = policy(costs)
    gammas = run(subject, [0] * 32)
    assert MIN_ROUNDS < subject.fallbacks[0].at_token < 32
    assert 0 in gammas


@pytest.mark.parametrize("costs", [None, FLAT, STEEP])
def test_a_probe_that_finds_acceptance_stays(costs):
    subject = policy(costs)
    run(subject, [0] * 32)
    fallbacks = len(subject.fallbacks)
    assert fallbacks > 0
    gammas = run(subject, [8] * 60)
    assert len(subject.fallbacks) <= fallbacks + 1  # a trial may have stood half done
    assert all(gammas[-40:])


def test_full_acceptance_grows_gamma_to_the_most_where_costs_are_flat_and_measured():
    assert run(policy(FLAT), [8] * 20)[-1] == 8
    assert run(policy(None), [8] * 20)[-1] == 4  # the default: nothing says that more pays


def test_gamma_follows_acceptance_down_and_is_the_best_of_the_estimate():
    subject = policy(FLAT)
    run(subject, [8] * 10)
    gammas = run(subject, [1] * 40)  # the second draft always fails
    table = table_from_step_costs(FLAT)

    def cost(tokens):
        return table.seconds(1, tokens)

    best = best_gamma([1.0, 0.0], cost, 8)
    assert predicted_speedup([1.0, 0.0], gammas[-1], cost) > best.speedup / HYSTERESIS
    assert gammas[-1] <= 2 < max(gammas)
    assert not subject.fallbacks


def test_gamma_of_the_request_is_the_most_in_auto_and_fixed_in_spec():
    assert set(run(policy(FLAT, gamma=2), [8] * 20)) <= {1, 2}
    subject = policy(FLAT, gamma=7, mode="spec")
    assert set(run(subject, [0] * 100)) == {7}
    assert not subject.fallbacks


def test_a_trial_must_promise_a_little_more_than_what_it_came_from():
    window = AcceptanceWindow(32, 8)
    for _ in range(3):
        window.add(4, 1)
    costs = CallCosts(toy_spec(), None)
    promised = predicted_speedup(window.conditional(8), 4, lambda tokens: costs.seconds(1, tokens))
    runtime = RuntimeSpec(FallbackSpec(promised / 1.01, 32, 10), RoutingSpec(0))
    steady, back = policy(None, runtime), policy(None, runtime)
    run(steady, [1] * 3)
    assert not steady.fallbacks
    run(back, [0] * 13)
    assert len(back.fallbacks) == 1
    run(back, [1] * 3)
    assert len(back.fallbacks) == 2


def test_small_changes_of_acceptance_do_not_move_gamma():
    subject = policy(FLAT)
    gammas = run(subject, [2, 3] * 100)[64:]
    assert len(set(gammas)) == 1


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), max_size=60), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_the_window_counts_its_last_rounds_alone(rounds, window):
    rounds = [(proposed, min(accepted, proposed)) for proposed, accepted in rounds]
    subject, fresh = AcceptanceWindow(window, 8), AcceptanceWindow(100, 8)
    for proposed, accepted in rounds:
        subject.add(proposed, accepted)
    for proposed, accepted in rounds[-window:]:
        fresh.add(proposed, accepted)
    assert subject.conditional(8) == fresh.conditional(8)
    assert len(subject) == min(window, len(rounds))
    assert all(0 <= alpha <= 1 for alpha in subject.conditional(8))


def test_estimates_converge_to_the_conditional_acceptance():
    window = AcceptanceWindow(400, 4)
    for k in range(400):
        window.add(2, (0, 1, 1, 2)[k % 4])
    estimate = window.conditional(4)
    assert estimate[0] == pytest.approx(3 / 4, abs=0.01)
    assert estimate[1] == pytest.approx(1 / 3, abs=0.01)
    assert estimate[3] == estimate[2] == estimate[1]  # never proposed: as the position before


@pytest.mark.parametrize(
    ("params", "speculates", "reason"),
    [
        ({"mode": "ar"}, False, None),
        ({"mode": "spec", "max_new_tokens": 1}, True, None),
        ({"mode": "auto", "max_new_tokens": 31}, False, "routing: max_new_tokens 31 is below 32"),
        ({"mode": "auto", "max_new_tokens": 32}, True, None),
        ({"mode": "auto", "max_new_tokens": 31, "speculative": True}, True, None),
        ({"mode": "auto", "max_new_tokens": 90, "speculative": False}, False, "routing: the request says speculative"),
        ({"mode": "spec", "gamma": 0}, False, None),
    ],
)
def test_routing(params, speculates, reason):
    manifest = toy_manifest(MODEL, min_new_tokens=32)
    request = request_from_prompt([1], GenerationParams(**params), manifest)
    route = route_from_request(request, manifest.runtime.routing, has_drafter=True)
    assert route.speculates is speculates
    assert (route.reason or "").startswith(reason or "")
    assert (route.reason is None) == (reason is None)
    assert not route_from_request(request, manifest.runtime.routing, has_drafter=False).speculates


def test_a_routed_request_reports_why_and_asks_no_drafter():
    class Untouched:
        def begin(self, _ids):
            raise AssertionError("an AR request pays for drafting")

    manifest = toy_manifest(MODEL, min_new_tokens=32)
    session = Session(manifest, ToyRunner(MODEL), new_drafter=Untouched)
    (routed,) = session.generate([[1]], GenerationParams(max_new_tokens=5))
    assert [(f.at_token, f.reason) for f in routed.fallbacks] == [(0, "routing: max_new_tokens 5 is below 32")]
    (ar,) = session.generate([[1]], GenerationParams(max_new_tokens=5, mode="ar"))
    assert ar.fallbacks == ()
    assert ar.statistics.no_proposal == 0


def test_fallback_in_a_session_keeps_the_text_and_costs_few_calls():
    answer = (
        Session(toy_manifest(MODEL), ToyRunner(MODEL))
        .generate([[1, 2]], GenerationParams(max_new_tokens=90, mode="ar"))[0]
        .token_ids
    )
    manifest = toy_manifest(MODEL, fallback=FallbackSpec(1.0, 32, 20))
    runner = ToyRunner(MODEL)
    session = Session(
        manifest,
        runner,
        step_costs=table_from_step_costs(STEEP),
        new_drafter=lambda: OracleDrafter({(1, 2): answer}, 16, corrupt=1),
    )
    (generation,) = session.generate([[1, 2]], GenerationParams(max_new_tokens=90, mode="auto"))
    assert generation.token_ids == answer
    assert len(generation.fallbacks) == 3
    assert generation.statistics.rounds == 3 * MIN_ROUNDS
    assert sum(call.tokens > 1 for call in runner.calls) == 1 + 3 * MIN_ROUNDS  # the prompt and the rounds


def test_drafts_are_dropped_where_the_batch_is_better_off():
    """Three AR rows and one that drafts, at compute-bound costs: T(4, 5) is far above T(4, 1)."""
    planner = CallPlanner(CallCosts(toy_spec(), table_from_step_costs(STEEP)))
    others = [Need(slot, 1, 1) for slot in range(3)]
    sure = Candidate(Need(3, 5, 5), (0.99,) * 4)
    doubtful = Candidate(Need(3, 5, 5), (0.2,) * 4)
    assert draft_cap([doubtful], others, planner) == 0
    assert draft_cap([sure], [], planner) == 4
    flat = CallPlanner(CallCosts(toy_spec(), table_from_step_costs(FLAT)))
    assert draft_cap([sure], others, flat) == 4


def test_throttled_steps_are_counted_as_ar_with_a_reason_and_the_text_stays():
    batch = [[p, p] for p in range(4)]
    params = [
        GenerationParams(max_new_tokens=60, mode="ar" if p else "auto", gamma=4, temperature=0.8, seed=p)
        for p in range(4)
    ]
    manifest = toy_manifest(MODEL, fallback=FallbackSpec(1.0, 32, 8))
    ar = Session(manifest, ToyRunner(MODEL)).generate(
        batch, [GenerationParams(max_new_tokens=60, mode="ar", temperature=0.8, seed=p) for p in range(4)]
    )
    costs = [StepCost(b, s, float(b) * s**2) for b in (1, 2, 4) for s in (1, 2, 4, 6, 9)]
    answers = {tuple(p): g.token_ids for p, g in zip(batch, ar, strict=True)}
    session = Session(
        manifest,
        ToyRunner(MODEL),
        step_costs=table_from_step_costs(costs),
        new_drafter=lambda: OracleDrafter(answers, 16),
    )
    generations = session.generate(batch, params)
    assert [g.token_ids for g in generations] == [g.token_ids for g in ar]
    throttled = generations[0]
    assert throttled.statistics.rounds == 0
    assert throttled.statistics.no_proposal == 0
    assert [fallback.reason.split(":")[0] for fallback in throttled.fallbacks] == ["batch"]
