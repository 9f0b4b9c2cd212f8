from __future__ import annotations

from dataclasses import replace

import pytest

from specc.bundle.drafts import ModelDraftSpec
from specc.certify.prompts import BUNDLED_PROMPTS, prompt_ids, random_prompts
from specc.errors import SpeccError
from specc.runtime.session import Session
from tests.double_runner import ToyModel, ToyRunner, toy_manifest, with_limits


def test_random_prompts_fit_and_half_of_them_repeat():
    prompts = random_prompts(vocab_size=10, longest=40)
    assert prompts == random_prompts(vocab_size=10, longest=40)
    assert all(1 <= len(prompt) <= 40 and max(prompt) < 10 for prompt in prompts)
    assert any(len(p) >= 8 and p[: len(p) // 2 // 4 * 4] and p[0] == p[len(p) // 4] for p in prompts[::2])
    assert all(len(prompt) == 1 for prompt in random_prompts(vocab_size=10, longest=1))


def test_prompts_of_a_bundle(monkeypatch):
    model = ToyModel()
    manifest = with_limits(toy_manifest(model), max_input=7)
    session = Session(manifest, ToyRunner(model))
    monkeypatch.setattr(session, "ids_from_text", lambda text: [len(text) % 16] * 9)
    bundled = prompt_ids(session, None)
    assert [len(ids) for ids in bundled] == [7] * len(BUNDLED_PROMPTS)  # cut to max_input
    short = replace(manifest, draft=ModelDraftSpec("model", "small", "f32", context=6))
    drafting = Session(short, ToyRunner(model))
    monkeypatch.setattr(drafting, "ids_from_text", lambda text: [len(text) % 16] * 9)
    assert [len(ids) for ids in prompt_ids(drafting, None)] == [3, 7] * (len(BUNDLED_PROMPTS) // 2)
    bare = Session(replace(manifest, tokenizer=None), ToyRunner(model))
    assert all(len(ids) <= 7 for ids in prompt_ids(bare, None))


def test_given_prompts_are_those_that_requests_start_from():
    model = ToyModel()
    manifest = with_limits(toy_manifest(model), max_input=7)
    manifest = replace(manifest, tokenizer=replace(manifest.tokenizer, bos_id=5))
    session = Session(manifest, ToyRunner(model))
    assert prompt_ids(session, ((1, 2), ())) == [[1, 2], [5]]
    with pytest.raises(SpeccError) as refused:
        prompt_ids(session, ((1, 2), (3,) * 9))  # not cut, as the bundled ones
    assert (refused.value.code, refused.value.place) == ("SPC703", "prompts[1]")
