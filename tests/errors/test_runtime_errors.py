"""Errors of requests: code, place, what was got, and the fix, of every code; and nothing is generated after one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specc.bundle.drafts import NoDraftSpec
from specc.bundle.manifest import TokenizerSpec
from specc.errors import SpeccError
from specc.runtime import GenerationParams, Session
from specc.runtime.chat import ChatTemplate
from specc.runtime.prompts import PromptEncoder
from specc.runtime.request import mode_from_name
from tests.double_runner import ToyModel, ToyRunner, toy_manifest, toy_spec, with_limits
from tests.tiny_models import byte_tokenizer

MODEL = ToyModel()


def refused(session: Session, prompt, **params) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        session.generate([[1, 2], prompt], GenerationParams(**params))
    assert session.scheduler.idle
    assert session._runner.calls == []
    with pytest.raises(SpeccError):
        session.stream(prompt, GenerationParams(**params))  # at the call, before the first chunk
    return caught.value


def toy_session(**manifest) -> Session:
    return Session(toy_manifest(MODEL, **manifest), ToyRunner(MODEL))


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("temperature", float("nan"), "0 (greedy) to 1e+06"),
        ("temperature", float("inf"), "0 (greedy) to 1e+06"),
        ("temperature", -0.1, "0 (greedy) to 1e+06"),
        ("top_k", -1, "0 (off) or more"),
        ("top_p", 0.0, "above 0, at most 1 (off)"),
        ("top_p", 1.01, "above 0, at most 1 (off)"),
        ("top_p", float("nan"), "above 0, at most 1 (off)"),
        ("min_p", -0.01, "0 (off) to 1"),
        ("min_p", 1.5, "0 (off) to 1"),
        ("min_p", float("nan"), "0 (off) to 1"),
        ("seed", -1, "0 to 2^32 - 1"),
        ("seed", 2**32, "0 to 2^32 - 1"),
        ("max_new_tokens", 0, "1 to 95"),
        ("max_new_tokens", -4, "1 to 95"),
        ("mode", "turbo", "ar, spec, auto"),
    ],
)
def test_spc701_names_the_field_the_value_and_the_range(field, value, allowed):
    error = refused(toy_session(), [1], **{field: value})
    assert (error.code, error.place, error.got) == ("SPC701", field, repr(value))
    assert allowed in error.why
    assert allowed in error.fix


def test_values_at_the_ends_of_the_ranges_are_taken():
    ends = [
        {"temperature": 0.0, "top_p": 1.0, "min_p": 0.0, "top_k": 0, "seed": 0},
        {"temperature": 1e-6, "seed": 2**32 - 1},
        {"temperature": 1e6, "top_p": 1e-30, "min_p": 1.0, "top_k": 2**80, "seed": 2**32 - 1},
    ]
    for params in ends:
        for mode in ("ar", "spec"):
            (generation,) = toy_session().generate([[1]], GenerationParams(max_new_tokens=5, mode=mode, **params))
            assert len(generation.token_ids) == 5


def test_temperature_just_above_zero_is_greedy():
    greedy, almost = (
        toy_session().generate([[1]], GenerationParams(max_new_tokens=20, temperature=t))[0] for t in (0.0, 1e-6)
    )
    assert greedy.token_ids == almost.token_ids


def test_spc701_of_a_mode_name():
    assert mode_from_name("spec") == "spec"
    with pytest.raises(SpeccError, match="SPC701 mode"):
        mode_from_name("fast")


def test_spc702_gives_both_numbers():
    error = refused(toy_session(), [1], max_new_tokens=96)
    assert (error.code, error.place) == ("SPC702", "max_new_tokens")
    assert error.got == "96 tokens, the bundle allows 95"
    assert "at most 95" in error.fix


def test_spc703_gives_both_numbers():
    error = refused(toy_session(), [1] * 96)
    assert (error.code, error.got) == ("SPC703", "96 tokens, at most 95 fit")
    assert "limits.max_input" in error.fix
    manifest = with_limits(toy_manifest(MODEL), max_input=10)
    error = refused(Session(manifest, ToyRunner(MODEL)), [1] * 11)
    assert error.got == "11 tokens, at most 10 fit"
    manifest = with_limits(toy_manifest(MODEL), max_length=40)  # the model's context is the narrower one
    error = refused(Session(manifest, ToyRunner(MODEL)), [1] * 40)
    assert error.got == "40 tokens, at most 39 fit"


def test_spc704_an_empty_prompt_without_bos_and_with_one():
    error = refused(toy_session(), [])
    assert (error.code, error.place) == ("SPC704", "prompts[1]")
    assert "no beginning-of-sequence token" in error.got
    manifest = toy_manifest(MODEL)
    manifest = replace(manifest, tokenizer=replace(manifest.tokenizer, bos_id=7))
    (generation,) = Session(manifest, ToyRunner(MODEL)).generate([[]], GenerationParams(max_new_tokens=3))
    assert generation.usage.prompt_tokens == 1
    (same,) = Session(manifest, ToyRunner(MODEL)).generate([[7]], GenerationParams(max_new_tokens=3))
    assert generation.token_ids == same.token_ids


@pytest.mark.parametrize("token", [-1, 16])
def test_spc705_names_the_position_and_the_range(token):
    error = refused(toy_session(), [3, token])
    assert (error.code, error.place) == ("SPC705", "prompts[1][1]")
    with pytest.raises(SpeccError, match=r"SPC705 prompt\[1\]"):  # a single one has no number
        toy_session().generate([3, token])
    assert error.got == f"token id {token}, the vocabulary has ids 0 to 15"


def test_spc706_sampling_of_a_greedy_bundle():
    spec = toy_spec(greedy=True)
    error = refused(Session(toy_manifest(MODEL, spec), ToyRunner(MODEL, spec)), [1], temperature=0.8)
    assert (error.code, error.place) == ("SPC706", "temperature")
    assert "acceptance: greedy" in error.got
    assert "acceptance: coupled" in error.fix


@pytest.mark.parametrize("gamma", [-1, 9])
def test_spc707_gives_both_numbers(gamma):
    error = refused(toy_session(), [1], gamma=gamma)
    assert (error.code, error.place) == ("SPC707", "gamma")
    assert error.got == f"gamma {gamma}, the engine was built for 0 to 8"
    assert "gamma.max" in error.fix


def test_spc707_of_a_bundle_without_drafts():
    error = refused(toy_session(max_gamma=0, default_gamma=0), [1], gamma=1)
    assert (error.code, error.got) == ("SPC707", "gamma 1, the engine was built for 0 to 0")


def test_gamma_0_is_ar_and_gamma_1_works():
    ar, zero, one = (
        toy_session().generate([[1]], GenerationParams(max_new_tokens=20, **params))[0]
        for params in ({"mode": "ar"}, {"mode": "spec", "gamma": 0}, {"mode": "spec", "gamma": 1})
    )
    assert ar.token_ids == zero.token_ids == one.token_ids
    assert zero.statistics.rounds == 0
    assert zero.mode == "ar"
    assert max(zero.statistics.proposed_per_position, default=0) == 0
    assert len(one.statistics.proposed_per_position) == 1


def test_spc708_speculation_without_a_drafter():
    error = refused(toy_session(draft=NoDraftSpec("none")), [1], mode="spec")
    assert (error.code, error.place) == ("SPC708", "mode")
    assert "draft.kind none" in error.got
    assert "ngram" in error.fix
    (generation,) = toy_session(draft=NoDraftSpec("none")).generate([[1]], GenerationParams(max_new_tokens=4))
    assert generation.statistics.ar_steps == 4
    assert generation.fallbacks == ()


def test_spc709_text_without_a_tokenizer():
    session = toy_session()
    error = refused(session, "hello")
    assert (error.code, error.place) == ("SPC709", "prompt")
    assert "token ids" in error.fix
    with pytest.raises(SpeccError, match="SPC709 chat"):
        session.ids_from_chat([])
    bare = Session(replace(toy_manifest(MODEL), tokenizer=None), ToyRunner(MODEL))
    error = refused(bare, [1], stop=("x",))
    assert (error.code, error.place) == ("SPC709", "stop")
    assert len(bare.generate([[1]], GenerationParams(max_new_tokens=4))[0].token_ids) == 4


def test_spc710_chats_that_cannot_be_rendered():
    spec = TokenizerSpec("t", None, 259, (), None, False)
    with pytest.raises(SpeccError, match="no chat template") as caught:
        PromptEncoder(spec, byte_tokenizer(), None).ids_from_chat([])
    assert caught.value.code == "SPC710"
    with pytest.raises(SpeccError, match=r"SPC710 chat\.jinja") as caught:
        ChatTemplate("{% if %}", "chat.jinja", {})
    assert "TemplateSyntaxError" in caught.value.got
    refusing = ChatTemplate("{{ raise_exception('roles must alternate') }}", "chat.jinja", {})
    with pytest.raises(SpeccError) as caught:
        refusing.render([{"role": "user", "content": "a"}])
    assert caught.value.got == "TemplateError: roles must alternate"
    for template in ("{{ messages[0].content + 1 }}", "{{ ().__class__.__base__.__subclasses__() }}", "{{ 1 / 0 }}"):
        with pytest.raises(SpeccError, match="SPC710"):
            ChatTemplate(template, "chat.jinja", {}).render([{"content": "a"}])


def test_spc712_lists_of_different_length():
    session = toy_session()
    with pytest.raises(SpeccError) as caught:
        session.generate([[1], [2]], [GenerationParams()])
    assert (caught.value.code, caught.value.got) == ("SPC712", "1 parameters for 2 prompts")


def test_spc714_an_empty_stop_string():
    error = refused(toy_session(), [1], stop=("a", ""))
    assert (error.code, error.place) == ("SPC714", "stop[1]")
    assert refused(toy_session(), [1], stop="").place == "stop[0]"


def test_spc716_a_prompt_is_text_or_ids() -> None:
    error = refused(toy_session(), [1, 2.5])
    assert (error.code, error.got) == ("SPC716", "2.5")
    assert error.place.endswith("[1]")
    assert "tokenizer" in error.fix


def test_spc717_a_closed_session_generates_nothing() -> None:
    session = toy_session()
    stream = session.stream([1, 2])
    session.close()
    for call in (lambda: session.generate([1, 2]), lambda: session.stream([1, 2]), lambda: next(stream)):
        with pytest.raises(SpeccError) as caught:
            call()
        assert (caught.value.code, caught.value.place) == ("SPC717", "session")
        assert "load" in caught.value.fix
