"""Streams, detokenizing and stop strings: the pieces are exact whatever the blocks in which tokens arrive."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from specc.runtime import GenerationParams, Session
from specc.runtime.detokenize import Detokenizer
from specc.runtime.prompts import PromptEncoder
from specc.runtime.stops import StopScanner
from tests.double_runner import ToyModel, ToyRunner, toy_manifest
from tests.oracle_drafters import OracleDrafter
from tests.tiny_models import EOS, byte_tokenizer

BYTE_LEVEL = byte_tokenizer()


def sentencepiece_like() -> Tokenizer:
    """A vocabulary with leading-space tokens, byte fallback and a special token, decoded like Llama 2."""
    words = ["\u2581", "\u2581\u2581", "\u2581a", "a", "b\u2581", "\ufffd", "\u4f60", "<s>"]
    pieces = [*words, *(f"<0x{byte:02X}>" for byte in "\u4f60\U0001f600".encode())]
    pieces.append("<0xC3>")
    vocab = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<s>"])
    return tokenizer


SENTENCEPIECE = sentencepiece_like()


def pieces_from_ids(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push(token) for token in ids), detokenizer.flush()]


def byte_ids(text: str) -> list[int]:
    return BYTE_LEVEL.encode(text, add_special_tokens=False).ids


@given(st.lists(st.integers(0, 258), max_size=40))
@settings(max_examples=300, deadline=None)
@example(byte_ids("\u4f60\U0001f600")[:5])
def test_byte_level_pieces_join_to_the_text_of_all_ids(ids):
    assert "".join(pieces_from_ids(BYTE_LEVEL, ids)) == BYTE_LEVEL.decode(ids)


@given(st.lists(st.integers(0, SENTENCEPIECE.get_vocab_size() - 1), max_size=30))
@settings(max_examples=500, deadline=None)
@example([SENTENCEPIECE.token_to_id(t) for t in ("<0xE4>", "<0xBD>", "<s>", "<0xA0>")])
def test_sentencepiece_pieces_join_to_the_text_of_all_ids(ids):
    assert "".join(pieces_from_ids(SENTENCEPIECE, ids)) == SENTENCEPIECE.decode(ids)


@given(st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_a_character_of_several_bytes_comes_whole_and_once(text):
    pieces = pieces_from_ids(BYTE_LEVEL, byte_ids(text))
    assert "".join(pieces) == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)
        # a character is out with its last byte
        shown = [len("".join(pieces[: k + 1])) for k in range(len(pieces) - 1)]
        assert shown == [len(text.encode()[: k + 1].decode(errors="ignore")) for k in range(len(pieces) - 1)]


def test_only_a_window_is_decoded():
    decoded: list[int] = []

    class Counting:
        def decode(self, ids):
            decoded.append(len(ids))
            return BYTE_LEVEL.decode(ids)

        def id_to_token(self, token):
            return BYTE_LEVEL.id_to_token(token)

    detokenizer = Detokenizer(Counting())
    for token in byte_ids("some text, and \u4f60\u597d as well; " * 20):
        detokenizer.push(token)
    assert max(decoded) <= 8


@given(
    st.lists(st.text(alphabet="ab", max_size=3), max_size=12),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=4), min_size=1, max_size=3),
)
@settings(max_examples=300, deadline=None)
def test_scanner_cuts_at_the_first_stop_string_to_become_complete(pieces, stops):
    scanner, shown, whole = StopScanner(tuple(stops)), "", ""
    for piece in pieces:
        whole += piece
        scan = scanner.push(piece)
        shown += scan.text
        found = [whole.find(stop) for stop in stops if stop in whole]
        if scan.stop is not None:
            assert shown == whole[: min(found)]
            assert whole[min(found) :].startswith(scan.stop)
            return
        assert not found
        assert whole.startswith(shown)
    assert shown + scanner.flush() == whole


def text_session(model: ToyModel, new_drafter=None, **manifest) -> Session:
    facts = toy_manifest(model, max_length=200, stop_ids=(EOS,), **manifest)
    return Session(facts, ToyRunner(model), PromptEncoder(facts.tokenizer, BYTE_LEVEL, None), new_drafter=new_drafter)


TEXT_MODEL = ToyModel(vocab_size=259, memory=0, alphabet=tuple(byte_ids("ab \u4f60\u00e9")), seed=1)
PROMPT = tuple(byte_ids("start"))


def ar_ids(length: int) -> tuple[int, ...]:
    params = GenerationParams(max_new_tokens=length, mode="ar")
    return text_session(TEXT_MODEL).generate([PROMPT], params)[0].token_ids


ANSWER = ar_ids(60)


@pytest.mark.parametrize("gamma", [0, 1, 3, 8])
@given(start=st.integers(0, 40), length=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_a_stop_string_cuts_text_and_ids_exactly_inside_blocks_and_across_them(gamma, start, length):
    text = BYTE_LEVEL.decode(list(ANSWER))
    stop = text[start : start + length]
    session = text_session(TEXT_MODEL, lambda: OracleDrafter({PROMPT: ANSWER}, 259))
    params = GenerationParams(max_new_tokens=60, mode="spec", gamma=gamma, stop=(stop, "never there"))
    chunks = list(session.stream(PROMPT, params))
    (whole,) = [chunk.generation for chunk in chunks if chunk.generation is not None]
    assert whole.text == text[: text.index(stop)]
    assert (whole.finish_reason, whole.stopped_by) == ("stop", stop)
    assert whole.token_ids == ANSWER[: len(whole.token_ids)]
    # the last token is the first with which the stop string is complete; a broken end may only show one later
    shown = [stop in "".join(pieces_from_ids(BYTE_LEVEL, list(ANSWER[:k]))[:-1]) for k in range(61)]
    assert len(whole.token_ids) == shown.index(True) if any(shown) else 60
    assert "".join(chunk.text for chunk in chunks) == whole.text
    assert sum((chunk.token_ids for chunk in chunks), ()) == whole.token_ids


@pytest.mark.parametrize("kind", ["ar", "oracle", "ngram"])
def test_a_stream_gives_the_text_and_ids_of_generate(kind):
    new_drafter = (lambda: OracleDrafter({PROMPT: ANSWER}, 259, 4)) if kind == "oracle" else None
    session = text_session(TEXT_MODEL, new_drafter)
    params = GenerationParams(max_new_tokens=60, mode="ar" if kind == "ar" else "spec", gamma=5)
    chunks = list(session.stream("start", params))
    whole = chunks[-1].generation
    assert whole is not None
    assert whole.token_ids == ANSWER
    assert whole.text == BYTE_LEVEL.decode(list(ANSWER)) == "".join(chunk.text for chunk in chunks)
    assert sum((chunk.token_ids for chunk in chunks), ()) == ANSWER
    assert all(chunk.generation is None for chunk in chunks[:-1])
    assert session.generate("start", params)[0].text == whole.text


def test_two_streams_read_in_turns_share_the_calls():
    session = text_session(TEXT_MODEL)
    params = GenerationParams(max_new_tokens=20, mode="ar")
    alone = [session.generate(p, params)[0].text for p in ("one", "two!")]
    calls = len(session._runner.calls)
    streams = [session.stream(p, params) for p in ("one", "two!")]
    texts = ["", ""]
    done = [False, False]
    while not all(done):
        for k, stream in enumerate(streams):
            chunk = next(stream, None)
            done[k] = chunk is None
            texts[k] += "" if chunk is None else chunk.text
    assert texts == alone
    assert len(session._runner.calls) - calls < 2 * 20


def test_closing_a_stream_frees_its_slot():
    session = text_session(TEXT_MODEL)
    stream = session.stream("start", GenerationParams(max_new_tokens=60))
    next(stream)
    assert not session.scheduler.idle
    stream.close()
    assert session.scheduler.idle


def test_the_text_of_the_stop_token_is_not_in_the_text():
    letter = byte_ids("b")[0]
    model = ToyModel(vocab_size=259, memory=0, alphabet=tuple(byte_ids("ab")), seed=2)
    facts = toy_manifest(model, stop_ids=(letter,))
    session = Session(facts, ToyRunner(model), PromptEncoder(facts.tokenizer, BYTE_LEVEL, None))
    (generation,) = session.generate("x", GenerationParams(max_new_tokens=30))
    assert generation.stopped_by == letter == generation.token_ids[-1]
    assert generation.text == "a" * (len(generation.token_ids) - 1)
