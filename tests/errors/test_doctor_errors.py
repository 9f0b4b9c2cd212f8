"""What the doctor finds of a pair: severity, place, the two values with where they came from, and the fix."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models

from tests.checked_pair import (
    DRAFT,
    RECIPE,
    TARGET,
    checked,
    config_folder,
    found,
    values,
)
from tests.tiny_models import TinyLlama, byte_tokenizer, llama_folder

FP8_TARGET = TinyLlama(hidden_size=128, intermediate_size=128, head_dim=32, stored="bf16")


def test_a_good_pair_has_no_errors_and_no_warnings(tmp_path: Path) -> None:
    llama_folder(tmp_path / "target", TARGET)
    llama_folder(tmp_path / "draft")
    report = checked(tmp_path)
    assert report.findings == ()
    assert report.plan is not None
    assert report.skipped == ()


def test_spc320_special_tokens_that_mean_other_strings(tmp_path: Path) -> None:
    """A2: the same size, one added token renamed and two exchanged."""
    other = Tokenizer.from_str(byte_tokenizer().to_str().replace("<|end|>", "<|im_end|>"))
    config_folder(tmp_path / "draft", DRAFT, tokenizer=other)
    finding = found(checked(tmp_path), "SPC320")
    assert (finding.severity, finding.place) == ("error", f"{tmp_path}/r.yaml:5 draft.model")
    assert finding.evidence == (
        ("258 is '<|end|>'", "tokenizer of target"), ("258 is '<|im_end|>'", "tokenizer of draft"),
    )  # fmt: skip
    assert finding.message.startswith("1 ids differ: 0 tokens stand under another id, 1 of the ids are special")
    assert finding.fix is not None
    assert "draft: {kind: ngram}" in finding.fix.text


def test_spc320_tokens_under_other_ids(tmp_path: Path) -> None:
    text = byte_tokenizer().to_str().replace("<|bos|>", "<|x|>").replace("<|eos|>", "<|bos|>")
    config_folder(tmp_path / "draft", DRAFT, tokenizer=Tokenizer.from_str(text.replace("<|x|>", "<|eos|>")))
    finding = found(checked(tmp_path), "SPC320")
    assert finding.message.startswith("2 ids differ: 2 tokens stand under another id, 2 of the ids are special")


def test_spc320_an_embedding_that_ends_before_the_tokenizer(tmp_path: Path) -> None:
    """A8."""
    config_folder(tmp_path / "draft", DRAFT, vocab_size=200)
    report = checked(tmp_path)
    assert values(found(report, "SPC320")) == ["264 rows", "200 rows"]
    tokenizer = found(report, "SPC336")
    assert (tokenizer.severity, values(tokenizer)) == ("warning", ["ids up to 258", "200 rows"])


def test_spc330_padding_may_differ(tmp_path: Path) -> None:
    """A1: 152064 and 151936 rows over one tokenizer, in small."""
    config_folder(tmp_path / "draft", DRAFT, vocab_size=260)
    report = checked(tmp_path)
    finding = found(report, "SPC330")
    assert (finding.severity, values(finding)) == ("note", ["264 rows", "260 rows"])
    assert "cut to the 259 tokens" in finding.message
    assert not report.of("error")


def test_spc331_other_kinds_of_tokenizers(tmp_path: Path) -> None:
    """A5: of equal size."""
    tokens = [(token, 0.0) for token in sorted(byte_tokenizer().get_vocab(), key=byte_tokenizer().get_vocab().get)]
    config_folder(tmp_path / "draft", DRAFT, tokenizer=Tokenizer(models.Unigram(tokens, unk_id=0)))
    finding = found(checked(tmp_path), "SPC331")
    assert (finding.severity, values(finding)) == ("error", ["BPE", "Unigram"])


def test_spc332_other_chat_templates(tmp_path: Path) -> None:
    config_folder(tmp_path / "draft", DRAFT, template="{{ messages }}")
    finding = found(checked(tmp_path), "SPC332")
    assert finding.severity == "warning"
    assert len(set(values(finding))) == 2
    assert all(value.startswith("sha256 ") for value in values(finding))


def test_spc333_a_draft_of_a_shorter_context(tmp_path: Path) -> None:
    """C1."""
    config_folder(tmp_path / "draft", DRAFT, max_position_embeddings=200)
    finding = found(checked(tmp_path), "SPC333")
    assert (finding.severity, values(finding)) == ("warning", ["384 tokens", "200 tokens"])
    assert finding.evidence[1][1].endswith("draft/config.json max_position_embeddings")


def test_spc334_a_draft_as_large_as_its_target(tmp_path: Path) -> None:
    config_folder(tmp_path / "draft", TARGET)
    finding = found(checked(tmp_path), "SPC334")
    assert finding.severity == "warning"
    assert "100% of the target" in finding.message


def test_spc321_the_targets_own_weights(tmp_path: Path) -> None:
    """C8: under another name."""
    llama_folder(tmp_path / "target", TinyLlama())
    (tmp_path / "draft").symlink_to(tmp_path / "target")
    report = checked(tmp_path)
    finding = found(report, "SPC321")
    assert finding.severity == "error"
    assert finding.fix is not None
    assert report.plan is None


def test_spc321_a_copy_of_the_targets_folder(tmp_path: Path) -> None:
    """C8: not told by paths; the message says what was compared. Other weights of these shapes only warn."""
    llama_folder(tmp_path / "target", TinyLlama())
    shutil.copytree(tmp_path / "target", tmp_path / "draft")
    report = checked(tmp_path)
    finding = found(report, "SPC321")
    assert (finding.severity, finding.place) == ("error", f"{tmp_path}/r.yaml:5 draft.model")
    assert finding.message.startswith("The draft is a copy of the target. Compared: 21 tensors of the same names")
    assert finding.message.endswith("was not read.")
    assert [where for _, where in finding.evidence] == [
        str(tmp_path / name / "model.safetensors") for name in ("target", "draft")
    ]
    assert report.plan is None
    llama_folder(tmp_path / "draft", TinyLlama(noise=0.01))
    assert {"SPC321", "SPC334"} & {finding.code for finding in checked(tmp_path).findings} == {"SPC334"}


@pytest.mark.parametrize(("scheme", "warns"), [("w4a16", True), ("nvfp4", True), ("fp8", False), ("w8a16", False)])
def test_spc335_an_aggressively_quantized_target(tmp_path: Path, scheme: str, warns: bool) -> None:
    """C7 beside it: the draft's own scheme warns of nothing."""
    text = RECIPE.replace("{model: target}", f"{{model: target, scheme: {scheme}}}")
    codes = [finding.code for finding in checked(tmp_path, text).of("warning")]
    assert ("SPC335" in codes) is warns
    text = RECIPE.replace("model: draft}", f"model: draft, scheme: {scheme}}}")
    assert "SPC335" not in [finding.code for finding in checked(tmp_path, text).findings]


def test_spc336_a_head_dim_that_is_stated(tmp_path: Path) -> None:
    """B1: Qwen3 and Mistral-Nemo."""
    config_folder(tmp_path / "target", TARGET, head_dim=32)
    finding = found(checked(tmp_path), "SPC336")
    assert (finding.severity, values(finding)) == ("note", ["8 heads of 32", "hidden_size 512"])


def test_spc349_configurations_without_weights(tmp_path: Path) -> None:
    report = checked(tmp_path)
    notes = [finding for finding in report.of("note") if finding.code == "SPC349"]
    assert [finding.place for finding in notes] == [str(tmp_path / "target"), str(tmp_path / "draft")]
    assert report.of("error") == ()
    assert ("draft_vocabulary", ("draft headers",)) in report.skipped


def test_spc213_every_tensor_that_does_not_fit_is_named(tmp_path: Path) -> None:
    llama_folder(tmp_path / "target", TARGET)
    config = json.loads((tmp_path / "target" / "config.json").read_text())
    config |= {"num_hidden_layers": 9, "intermediate_size": 800}
    (tmp_path / "target" / "config.json").write_text(json.dumps(config))
    findings = [finding for finding in checked(tmp_path).of("error") if finding.code == "SPC213"]
    assert findings[0].message == "9 tensors are missing."
    assert {finding.message for finding in findings[1:]} == {"24 tensors have another shape."}
    assert values(findings[1])[0] == "`model.layers.0.mlp.gate_proj.weight` [800, 512]"


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("copied", [False, True])
def test_spc352_a_head_beside_a_flag_that_ties_it(tmp_path: Path, role: str, copied: bool) -> None:
    """B8: the stored head is used, and that is said; without the flag, or without a head, nothing is."""
    folder = llama_folder(tmp_path / role, TARGET if role == "target" else DRAFT)
    stated = json.loads((folder / "config.json").read_text())
    assert "SPC352" not in [f.code for f in checked(tmp_path).findings]
    (folder / "config.json").write_text(json.dumps(stated | {"tie_word_embeddings": True}))
    if copied:
        file = folder / "model.safetensors"
        tensors = load_file(file)
        save_file(tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"]}, file)
    finding = found(checked(tmp_path), "SPC352")
    assert (finding.severity, values(finding)[0]) == ("note", "tie_word_embeddings: true")
    assert values(finding)[1].startswith("`lm_head.weight` [264, ")
    what = "equal to the embedding where bytes were compared" if copied else "another matrix than the embedding"
    assert finding.message == f"The {role}'s stored head is used and counted on its own: it is {what}."
    tied = replace(TARGET if role == "target" else DRAFT, tie_word_embeddings=True)
    llama_folder(tmp_path / role, tied)
    assert "SPC352" not in [f.code for f in checked(tmp_path).findings]
