from __future__ import annotations

from dataclasses import replace

import pytest

from specc.certify.bench import BenchReport, BenchRequest, bench_from_session
from specc.progress import silent
from specc.runtime.generation import Generation, Usage
from specc.runtime.metrics import AcceptanceCounter
from tests.double_runner import ToyModel, toy_manifest


class UnevenSession:
    """Generates 5 tokens in 4 seconds by AR and 21 in 10 otherwise, whatever is asked."""

    step_costs = None

    def __init__(self, acceptance: str) -> None:
        self.manifest = replace(toy_manifest(ToyModel()), acceptance=acceptance)

    def forget_outputs(self) -> None:
        """Forget nothing: nothing was kept."""

    def generate(self, prompts, params) -> list[Generation]:
        count, seconds = (5, 4.0) if params.mode == "ar" else (21, 10.0)
        ids, usage = tuple(range(count)), Usage(len(prompts[0]), count)
        counts = AcceptanceCounter().statistics()
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
