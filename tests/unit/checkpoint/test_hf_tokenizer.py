"""Tokenizers and token facts of folders: add-BOS rule, special tokens, stop ids (cases B10, B13), chat templates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, processors

from specc.checkpoint.hf_tokenizer import parts_from_folder
from specc.checkpoint.open import source_from_reference
from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.tokenizer_files import write_tokenizer
from specc.errors import SpeccError
from tests.tiny_gguf import llama_gguf
from tests.tiny_models import BOS, CHAT_TEMPLATE, END_OF_TURN, EOS, TinyLlama, byte_tokenizer, llama_folder


def opened(folder: Path, template: str | None = None) -> SourceCheckpoint:
    return source_from_reference(
        str(folder), base=folder, revision=None, tokenizer=None, chat_template=template, offline=True
    )


def change(file: Path, **keys: object) -> None:
    """Set keys of a JSON file; `...` removes one."""
    values = (json.loads(file.read_text()) if file.exists() else {}) | keys
    file.write_text(json.dumps({k: v for k, v in values.items() if v is not ...}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return llama_folder(tmp_path / "m", TinyLlama(num_hidden_layers=1))


def refused(folder: Path) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        opened(folder)
    return caught.value


def put_processor(folder: Path, single: str) -> None:
    tokenizer = byte_tokenizer()
    special = [("<|bos|>", BOS), ("<|eos|>", EOS)]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair="$A $B", special_tokens=special)
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(folder / "tokenizer.json"))


def test_the_post_processor_becomes_the_add_bos_rule(folder: Path) -> None:
    put_processor(folder, "<|bos|> $A")
    change(folder / "tokenizer_config.json", add_bos_token=..., bos_token=...)
    source = opened(folder)
    assert (source.tokens.add_bos, source.tokens.bos_id) == (True, BOS)
    # nothing is added, cut or padded by the tokenizer itself
    assert source.tokenizer().encode("abcdef").ids == byte_tokenizer().encode("abcdef").ids
    change(folder / "tokenizer_config.json", add_bos_token=False)
    assert not opened(folder).tokens.add_bos


def test_a_processor_that_appends_is_refused(folder: Path) -> None:
    put_processor(folder, "$A <|eos|>")
    assert refused(folder).code == "SPC241"


def test_stop_ids_are_the_union(folder: Path) -> None:
    change(folder / "config.json", eos_token_id=7)
    change(folder / "generation_config.json", eos_token_id=[END_OF_TURN, 5, -1])
    tokens = opened(folder).tokens
    assert tokens.stop_ids == (5, 7, EOS, END_OF_TURN)
    assert tokens.eos_id == EOS
    (folder / "generation_config.json").unlink()
    assert opened(folder).tokens.stop_ids == (7, EOS)
    change(folder / "config.json", eos_token_id=None)
    change(folder / "tokenizer_config.json", eos_token=None)
    assert opened(folder).tokens.stop_ids == ()


def test_generation_defaults_count_where_the_model_samples(folder: Path) -> None:
    change(folder / "generation_config.json", temperature=0.6, top_p=0.9)
    assert opened(folder).tokens.temperature is None
    change(folder / "generation_config.json", do_sample=True)
    tokens = opened(folder).tokens
    assert (tokens.temperature, tokens.top_p, tokens.top_k, tokens.min_p) == (0.6, 0.9, None, None)


def test_a_folder_without_a_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    source = opened(folder)
    assert source.tokenizer() is None
    assert source.facts.emitted_vocab_size == source.facts.vocab_size == 264
    assert (source.tokens.bos_id, source.tokens.eos_id, source.tokens.add_bos) == (BOS, None, False)
    (folder / "tokenizer.model").write_bytes(b"x")
    assert refused(folder).code == "SPC241"


def test_tokens_that_only_the_configuration_states(folder: Path) -> None:
    added = {"259": {"content": "<tool>", "special": True}, "256": {"content": "<|bos|>", "special": True}}
    change(folder / "tokenizer_config.json", added_tokens_decoder=added)
    source = opened(folder)
    assert source.tokenizer().encode("a<tool>").ids[1:] == [259]
    assert source.facts.emitted_vocab_size == 260
    change(folder / "tokenizer_config.json", added_tokens_decoder={"262": {"content": "<gap>"}})
    error = refused(folder)
    assert error.code == "SPC240"
    assert error.place.endswith("added_tokens_decoder.262")


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"eos_token": "<nowhere>"}, "SPC240"),
        ({"bos_token": {"content": 3}}, "SPC210"),
        ({"bos_token": ["a"]}, "SPC210"),
        ({"add_bos_token": "yes"}, "SPC210"),
        ({"add_bos_token": True, "bos_token": None}, "SPC240"),
        ({"added_tokens_decoder": {"x": {"content": "a"}}}, "SPC240"),
        ({"added_tokens_decoder": {"99999999999": {"content": "a"}}}, "SPC240"),
        ({"chat_template": 3}, "SPC210"),
        ({"chat_template": [3]}, "SPC210"),
        ({"chat_template": [{"name": "a", "template": "x"}, {"name": "b", "template": "y"}]}, "SPC242"),
    ],
)
def test_contradicting_tokenizer_configurations(folder: Path, keys: dict[str, object], code: str) -> None:
    change(folder / "tokenizer_config.json", **keys)
    assert refused(folder).code == code


def test_special_tokens_as_objects(folder: Path) -> None:
    change(folder / "tokenizer_config.json", eos_token={"content": "<|end|>", "lstrip": False})
    assert parts_from_folder(folder).eos_id == END_OF_TURN


IDS = '{"model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}, "added_tokens": []}'
EMPTY = IDS.replace('"a": 4000000000', "")


@pytest.mark.parametrize(
    "text", ["", "{}", "null", IDS, EMPTY, '{"model": 3}', '{"version": "1.0", "model": {"type": "BPE"}}']
)
def test_a_damaged_tokenizer(folder: Path, text: str) -> None:
    (folder / "tokenizer.json").write_text(text)
    assert refused(folder).code == "SPC240"


def test_chat_templates_by_precedence(folder: Path, tmp_path: Path) -> None:
    assert opened(folder).tokens.chat_template == CHAT_TEMPLATE
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    change(folder / "tokenizer_config.json", chat_template=named)
    assert opened(folder).tokens.chat_template == "D"
    change(folder / "tokenizer_config.json", chat_template=named[:1])
    assert opened(folder).tokens.chat_template == "T"
    (folder / "chat_template.jinja").write_text("J\n")
    assert opened(folder).tokens.chat_template == "J\n"
    (tmp_path / "mine.jinja").write_text("M")
    source = opened(folder, template="../mine.jinja")
    assert source.tokens.chat_template == "M"
    assert source.files[-1].name == "mine.jinja"
    change(folder / "tokenizer_config.json", chat_template=...)
    (folder / "chat_template.jinja").unlink()
    assert opened(folder).tokens.chat_template is None


def test_written_files_are_the_tokenizer(folder: Path, tmp_path: Path) -> None:
    file = llama_gguf(tmp_path / "m.gguf", TinyLlama(num_hidden_layers=1))
    for name, place in (("hf", folder), ("gguf", file)):
        source = opened(place)
        written = write_tokenizer(source, tmp_path / name)
        assert [path.name for path in written] == ["tokenizer.json", "chat_template.jinja"]
        again = write_tokenizer(opened(place), tmp_path / f"{name}-again")
        assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]
        assert written[1].read_text() == CHAT_TEMPLATE
        text = "Grüße <|end|>\r\n 12"
        assert Tokenizer.from_file(str(written[0])).encode(text).ids == source.tokenizer().encode(text).ids
    (folder / "tokenizer.json").unlink()
    change(folder / "tokenizer_config.json", chat_template=...)
    assert write_tokenizer(opened(folder), tmp_path / "none") == ()
