from __future__ import annotations

from dataclasses import replace

import pytest

from specc.certify.bench import BenchReport, BenchRequest, bench_from_session
from specc.progress import silent
from specc.runtime.call_costs import DraftCosts
from specc.runtime.generation import Generation, Usage
from specc.runtime.metrics import AcceptanceCounter
from tests.double_runner import ToyModel, toy_manifest


class MadeUpCosts:
    """A call of n tokens takes 1 + n seconds."""

    def seconds(self, batch: int, tokens: int) -> float:
        return float(batch + tokens)


class UnevenSession:
    """Generates 5 tokens in 4 seconds by AR and 21 in 10 otherwise, whatever is asked."""

    def __init__(self, acceptance: str, costs: MadeUpCosts | None = None) -> None:
        self.manifest = replace(toy_manifest(ToyModel()), acceptance=acceptance)
        self.step_costs = costs
        self.draft_costs = DraftCosts(None)

    def forget_outputs(self) -> None:
        """Forget nothing: nothing was kept."""

    def generate(self, prompts, params) -> list[Generation]:
        count, seconds = (5, 4.0) if params.mode == "ar" else (21, 10.0)
        ids, usage = tuple(range(count)), Usage(len(prompts[0]), count)
        counter = AcceptanceCounter()
        for _ in prompts[0]:
            counter.count_round(3, 1)  # two tokens of a call of four
        counter.count_ar_step(asked=False)
        counts = counter.statistics()
        return [Generation("", ids, "stop", 2, usage, params.mode, 0, counts, (), prefill_s=1.0, decode_s=seconds)]


def report(acceptance: str, temperature: float) -> BenchReport:
    request = BenchRequest(((1, 2), (3,)), 32, "spec", rounds=2, temperature=temperature)
    return bench_from_session(UnevenSession(acceptance), request, silent)


def test_texts_of_different_lengths_are_compared_by_the_token():
    made = report("rejection", 1.0)
    ratios = [made.decode_speedup, made.lowest, made.highest, *(prompt.decode_speedup for prompt in made.prompts)]
    assert ratios == pytest.approx([2.0] * 5)  # 1 s a token against 0.5 s


@pytest.mark.parametrize(
    ("acceptance", "temperature", "same"),
    [("coupled", 1.0, False), ("rejection", 0.0, False), ("rejection", 1.0, None), ("typical", 1.0, None)],
)
def test_equal_ids_are_asked_for_where_the_mode_promises_them(acceptance, temperature, same):
    assert [prompt.same_ids for prompt in report(acceptance, temperature).prompts] == [same, same]


def test_what_step_costs_allow_is_told_of_each_prompt_and_of_all():
    request = BenchRequest(((1, 2), (3,)), 32, "spec", rounds=2, temperature=0.0)
    made = bench_from_session(UnevenSession("coupled", MadeUpCosts()), request, silent)
    # Rounds of 5 seconds give 2 tokens, AR steps of 2 seconds one.
    assert [prompt.expected_speedup for prompt in made.prompts] == pytest.approx([5 * 2 / 12, 3 * 2 / 7])
    assert made.expected_speedup == pytest.approx(8 * 2 / 19)
    assert {prompt.expected_speedup for prompt in report("coupled", 0.0).prompts} == {None}
