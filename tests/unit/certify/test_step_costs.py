"""Step costs of a runner whose clock is its own: a call takes fixed + per_token * B * S seconds, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from specc.bundle.manifest import EngineSpec, LimitsSpec, ProfileSpec, TensorSpec
from specc.certify.step_costs import measure_step_costs, measured_shapes

LIMITS = LimitsSpec(
    max_batch=6, max_input=200, max_output=100, max_length=300, prefill_chunk=64, max_gamma=6, default_gamma=3
)
ANY = ProfileSpec("any", batch=(1, 1, 6), tokens=(1, 1, 64), logit_rows=(1, 1, 7))
NAMES = ("input_ids", "num_tokens", "past_lengths", "logit_rows")


class ClockedRunner:
    """Records its calls; time passes only in them."""

    def __init__(self, fixed=0.01, per_token=0.001, first_call_s=0.0, cold_s=0.0, profiles=(ANY,)):
        required = tuple(TensorSpec(name, "i64", ("B",), required=True, neutral=None) for name in NAMES)
        optional = TensorSpec("temperature", "f32", ("B",), required=False, neutral=0.0)
        self.spec = EngineSpec(
            "target", "main", "onnx", "target.onnx", "f32", (*required, optional), (), (), None, (512,), profiles, ()
        )
        self.fixed, self.per_token, self.first_call_s, self.cold_s = fixed, per_token, first_call_s, cold_s
        self.now, self.reserved, self.calls = 0.0, (0, 0), []

    def reserve(self, slots, length):
        self.reserved = (slots, length)

    def step(self, first_slot, inputs):
        assert first_slot == 0
        batch, tokens = inputs["input_ids"].shape
        slow = self.first_call_s if (batch, tokens) not in [shape for shape, _ in self.calls] else 0.0
        slow += 0.0 if self.calls else self.cold_s
        self.calls.append(((batch, tokens), inputs))
        self.now += self.fixed + self.per_token * batch * tokens + slow
        return {}

    def close(self):
        raise AssertionError("the runner is not ours to close")

    def measure(self, **given):
        return measure_step_costs(self, LIMITS, 50, clock=lambda: self.now, **given)


def test_the_shapes_are_those_a_session_uses():
    shapes = [(shape.batch, shape.tokens) for shape in measured_shapes(LIMITS, (ANY,))]
    assert {b for b, _ in shapes} == {1, 2, 4, 6}
    assert {s for _, s in shapes} == {1, 2, 3, 5, 7, 64}
    assert [b * s for b, s in shapes] == sorted(b * s for b, s in shapes)


def test_shapes_that_no_profile_admits_are_left_out():
    decode = ProfileSpec("decode", batch=(1, 1, 2), tokens=(1, 1, 1), logit_rows=(1, 1, 1))
    verify = ProfileSpec("verify", batch=(1, 1, 2), tokens=(7, 7, 7), logit_rows=(7, 7, 7))
    shapes = [(shape.batch, shape.tokens) for shape in measured_shapes(LIMITS, (decode, verify))]
    assert shapes == [(1, 1), (2, 1), (1, 7), (2, 7)]


def test_costs_are_those_of_warm_calls():
    costs = ClockedRunner(first_call_s=0.02).measure(budget_s=100.0)
    assert len(costs) == 24
    for cost in costs:
        assert cost.seconds == pytest.approx(0.01 + 0.001 * cost.batch * cost.tokens, abs=1e-9)


def test_an_engine_whose_weights_are_not_in_memory_yet_is_measured_on_all_shapes():
    assert len(ClockedRunner(cold_s=3.0).measure(budget_s=4.0)) == len(ClockedRunner().measure(budget_s=4.0)) == 24


def test_calls_follow_the_abi():
    runner = ClockedRunner()
    runner.measure()
    assert runner.reserved == (6, 128 + 64)
    for (batch, tokens), inputs in runner.calls:
        rows = tokens if tokens <= 7 else 1
        assert set(inputs) == {*NAMES, "num_draft", "temperature"}
        assert inputs["logit_rows"].tolist() == [list(range(tokens - rows, tokens))] * batch
        assert inputs["num_draft"].tolist() == [rows - 1] * batch
        assert inputs["num_tokens"].tolist() == [tokens] * batch
        assert inputs["past_lengths"].tolist() == [128] * batch
        assert inputs["input_ids"].max() < 50
        assert inputs["temperature"].dtype == np.float32


def test_rounds_are_interleaved_in_an_order_of_their_own_that_the_seed_repeats():
    def order(seed):
        runner = ClockedRunner()
        runner.measure(seed=seed, budget_s=100.0)
        return [shape for shape, _ in runner.calls]

    calls = order(0)
    rounds = [calls[start : start + 24] for start in range(25, len(calls), 24)]
    assert all(sorted(one) == sorted(rounds[0]) for one in rounds)
    assert rounds[0] != rounds[1]
    assert calls == order(0)
    assert calls != order(1)


@pytest.mark.parametrize("per_token", [0.001, 0.02, 1.0])
def test_a_slow_engine_is_measured_on_fewer_shapes_within_the_budget(per_token):
    runner = ClockedRunner(per_token=per_token)
    costs = runner.measure(budget_s=4.0)
    assert (costs[0].batch, costs[0].tokens) == (1, 1)
    assert runner.now <= 3 * 4.0 + 1.0
    if per_token > 0.01:
        assert (6, 64) not in [(cost.batch, cost.tokens) for cost in costs]
