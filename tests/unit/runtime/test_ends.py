"""Where generations end: number of tokens, context, stop ids, also inside an accepted block."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specc.runtime import GenerationParams
from tests.double_runner import ToyModel, naive_answer, toy_manifest, toy_session
from tests.oracle_drafters import OracleDrafter


@pytest.mark.parametrize("gamma", [1, 2, 5])
@pytest.mark.parametrize("kind", ["oracle", "ngram"])
def test_max_new_tokens_is_met_exactly(gamma, kind):
    model = ToyModel(memory=1)
    answer = naive_answer(model, (1,), 40)
    for length in (1, 2, 3, gamma, gamma + 1, gamma + 2, 2 * gamma + 2, 40):
        new_drafter = None if kind == "ngram" else (lambda: OracleDrafter({(1,): answer}, 16))
        session, _ = toy_session(model, None, new_drafter)
        params = GenerationParams(max_new_tokens=length, mode="spec", gamma=gamma)
        (generation,) = session.generate([[1]], params)
        assert generation.token_ids == tuple(answer[:length])
        assert generation.finish_reason == "length"
        assert generation.usage.completion_tokens == length


@pytest.mark.parametrize("mode", ["ar", "spec"])
def test_the_last_tokens_before_the_context_ends(mode):
    model = ToyModel(memory=0)
    manifest = toy_manifest(model, max_length=32)
    for size, wanted, reason in ((31, 1, "length"), (31, 5, "context"), (22, 10, "length"), (22, 20, "context")):
        prompt = tuple(i % 16 for i in range(size))
        answer = naive_answer(model, prompt, 32 - size)
        slack = 8 - 1  # the ABI's: C >= max_length + S_max - 1
        session, _ = toy_session(
            model, manifest, lambda a=answer, p=prompt: OracleDrafter({p: a}, 16), capacity=32 + slack
        )
        (generation,) = session.generate([prompt], GenerationParams(max_new_tokens=wanted, mode=mode, gamma=8))
        assert generation.token_ids == tuple(answer[:wanted])
        assert generation.finish_reason == reason


def test_eos_in_an_accepted_block_cuts_ids_and_usage():
    model = ToyModel(memory=0)
    answer = naive_answer(model, (1,), 40)
    stop = answer[11]
    end = answer.index(stop) + 1
    manifest = toy_manifest(model, stop_ids=(stop,))
    for gamma in (1, 2, 5, 8):
        session, _ = toy_session(model, manifest, lambda: OracleDrafter({(1,): answer}, 16))
        params = GenerationParams(max_new_tokens=40, mode="spec", gamma=gamma)
        (generation,) = session.generate([[1]], params)
        assert generation.token_ids == tuple(answer[:end])
        assert (generation.finish_reason, generation.stopped_by) == ("stop", stop)
        assert generation.usage.completion_tokens == end
        (ignoring,) = session.generate([[1]], replace(params, ignore_eos=True))
        assert ignoring.token_ids == tuple(answer)
        assert ignoring.finish_reason == "length"


def test_a_draft_of_eos_that_the_target_rejects_does_not_end_the_text():
    model = ToyModel(memory=0)
    answer = naive_answer(model, (1,), 20)
    eos = next(i for i in range(16) if i not in answer)
    wrong = [eos] * 20
    manifest = toy_manifest(model, stop_ids=(eos,))
    session, _ = toy_session(model, manifest, lambda: OracleDrafter({(1,): wrong}, 16))
    (generation,) = session.generate([[1]], GenerationParams(max_new_tokens=20, mode="spec", gamma=4))
    assert generation.token_ids == tuple(answer)
    assert generation.statistics.accepted == 0
