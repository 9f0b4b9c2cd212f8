"""What each rule of the doctor finds: severity, place, the two values with where they came from, and the fix."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models

from specc.doctor.finding import Finding, Fix
from tests.checked_pair import (
    DRAFT,
    LLAMA_70B,
    RECIPE,
    TARGET,
    TRTLLM,
    checked,
    config_folder,
    eagle3_head,
    found,
)
from tests.quantized_folders import LAYOUTS, quantized_folder
from tests.tiny_models import TinyLlama, byte_tokenizer, llama_folder

FP8_TARGET = TinyLlama(hidden_size=128, intermediate_size=128, head_dim=32, stored="bf16")


def values(finding: Finding) -> list[str]:
    return [value for value, _ in finding.evidence]


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


def test_spc337_and_spc338_an_eagle3_head_without_tap_layers(tmp_path: Path) -> None:
    """C3, C4: tensor names tell what it is; which layers it hears is not guessed."""
    eagle3_head(tmp_path / "draft", config={"target_layer_ids": None})
    report = checked(tmp_path)
    head, taps = found(report, "SPC337"), found(report, "SPC338")
    assert values(head) == ["kind: model", "`midlayer.hidden_norm.weight`"]
    assert "This is an EAGLE-3 head" in head.message
    assert values(taps) == ["EAGLE-3", "no list of tap layers"]
    assert taps.fix is not None
    assert '"target_layer_ids": [' in taps.fix.text


def test_a_head_that_fits_is_only_no_model(tmp_path: Path) -> None:
    eagle3_head(tmp_path / "draft")
    codes = {finding.code for finding in checked(tmp_path).of("error")}
    assert codes == {"SPC337"}


def test_spc339_a_head_for_a_target_of_another_width(tmp_path: Path) -> None:
    """C10."""
    eagle3_head(tmp_path / "draft", width=448)
    finding = found(checked(tmp_path), "SPC339")
    assert (finding.severity, values(finding)) == ("error", ["fc.weight reads 1344 numbers", "3 x 512 are there"])


@pytest.mark.parametrize(
    ("d2t", "config", "first"),
    [
        (None, {"draft_vocab_size": None}, "264"),
        (None, {"draft_vocab_size": 32}, "32"),
        (range(15), {}, "[15] entries"),
        ([*range(15), 300], {}, "1 ids lead outside, as 15 to 315"),
        ([-1, *range(15)], {}, "1 ids lead outside, as 0 to -1"),
        ([1, *[0] * 15], {}, "1 ids lead to one that another leads to"),
    ],
    ids=["absent", "conflict", "length", "past the end", "negative", "twice"],
)
def test_spc340_a_draft_vocabulary_that_contradicts_itself(tmp_path: Path, d2t, config, first: str) -> None:
    """C17, A14."""
    eagle3_head(tmp_path / "draft", d2t=d2t, config=config)
    finding = found(checked(tmp_path), "SPC340")
    assert finding.severity == "error"
    assert values(finding)[0] == first


@pytest.mark.parametrize("stated", [None, 9999, -1, "151669"])
def test_spc341_a_block_drafter_needs_a_mask_token(tmp_path: Path, stated) -> None:
    block = {"architectures": ["DFlashDraftModel"], "dflash_config": {"target_layer_ids": [1, 3]}}
    config_folder(tmp_path / "draft", DRAFT, mask_token_id=stated, **block)
    finding = found(checked(tmp_path), "SPC341")
    assert values(finding)[1] == "264 rows of embedding"
    config_folder(tmp_path / "draft", DRAFT, mask_token_id=260, **block)
    assert "SPC341" not in [f.code for f in checked(tmp_path).findings]


@pytest.mark.parametrize(
    ("gamma", "output", "warns"), [(0, 128, False), (1, 2, False), (127, 128, False), (128, 128, True), (20, 128, True)]
)
def test_spc342_gamma_that_no_request_can_use(tmp_path: Path, gamma: int, output: int, warns: bool) -> None:
    text = RECIPE.replace("gamma: 4 ", f"gamma: {gamma} ").replace("kind: model, model: draft", "kind: ngram")
    text = text if gamma != 20 else RECIPE.replace("gamma: 4 ", "gamma: 20 ")
    report = checked(tmp_path, text.replace("max_output: 128", f"max_output: {output}"))
    assert [f.code for f in report.of("warning") if f.code == "SPC342"] == ["SPC342"] * warns
    if gamma == 128:
        finding = found(report, "SPC342")
        assert finding.place == f"{tmp_path}/r.yaml:6 gamma.max"
        assert finding.fix is not None
        assert finding.fix.text == "gamma: 127"


@pytest.mark.parametrize(
    ("gpu", "scheme", "key", "message"),
    [
        ("a100-sxm-80gb", "fp8", "scheme", "tensorrt-llm runs fp8 from SM 8.9 on."),
        ("h100-sxm-80gb", "nvfp4", "scheme", "tensorrt-llm runs nvfp4 from SM 10.0 on."),
        ("t4", "bf16", "scheme", "tensorrt-llm runs bf16 from SM 8.0 on."),
        ("t4", "f32", "scheme", "tensorrt-llm runs f32 from SM 8.0 on."),
        ("a10", "fp8", "kv_cache", "tensorrt-llm runs fp8 from SM 8.9 on."),
        ("mi300x", "bf16", "scheme", "Its engines run on NVIDIA GPUs only."),
        ("cpu", "bf16", "scheme", "Its engines run on NVIDIA GPUs only."),
    ],
)
def test_spc343_schemes_by_gpu(tmp_path: Path, gpu: str, scheme: str, key: str, message: str) -> None:
    text = TRTLLM.replace("h100-sxm-80gb", gpu).replace("{model: target}", f"{{model: target, {key}: {scheme}}}")
    finding = found(checked(tmp_path, text), "SPC343")
    assert (finding.severity, finding.message) == ("error", message)
    assert finding.fix is not None


def test_spc303_tensorrt_rtx_on_data_centre_gpus(tmp_path: Path) -> None:
    """G15."""
    for gpu, sm in (("h100-sxm-80gb", "9.0"), ("b200", "10.0")):
        finding = found(checked(tmp_path, RECIPE.replace("gpu: cpu", f"gpu: {gpu}\nbackend: tensorrt-rtx")), "SPC303")
        assert finding.evidence[0][0] == f"tensorrt-rtx for {gpu} (SM {sm})"
        assert "SM 7.5, 8.0, 8.6, 8.9, 12.0, 12.1" in finding.message


@pytest.mark.parametrize(
    ("version", "refused"),
    [("1.2.1", False), ("1.3.0rc20", False), ("1.3.0rc21", True), ("1.3.0rc29", True), ("1.3.0", True),
     ("1.4.0rc0", True), ("0.21.0", False), ("newest", True)],
)  # fmt: skip
def test_spc344_the_engine_flow_ended(tmp_path: Path, version: str, refused: bool) -> None:
    """G16: refused with the version; the way out is the serve flow."""
    text = TRTLLM.replace("{name: tensorrt-llm}", f'{{name: tensorrt-llm, flow: engine, version: "{version}"}}')
    findings = [f for f in checked(tmp_path, text).of("error") if f.code == "SPC344"]
    assert bool(findings) is refused
    if version == "1.3.0rc21":
        assert values(findings[0]) == ["flow: engine", "version 1.3.0rc21"]
        assert findings[0].fix is not None
        assert findings[0].fix.text == 'flow: serve with version: "1.3.0rc29", or version: "1.2.1"'
    served = checked(tmp_path, text.replace("engine", "serve")).findings
    assert ("SPC344" in [f.code for f in served]) is (version == "newest")


@pytest.mark.parametrize(
    ("keys", "split", "bad", "fix"),
    [
        (
            {"num_attention_heads": 28, "num_key_value_heads": 4},
            (8, "bf16"),
            ["num_attention_heads 28"],
            "gpu.count: 4",
        ),
        ({"num_key_value_heads": 8}, (16, "bf16"), [], ""),
        ({"num_attention_heads": 60, "num_key_value_heads": 6}, (4, "bf16"), ["num_key_value_heads 6"], "gpu.count: 2"),
        ({}, (8, "w4a16"), [], ""),
        ({}, (5, "bf16"), ["num_attention_heads 64"], "gpu.count: 4, or 8"),
        ({"intermediate_size": 13696}, (4, "w4a16"), ["intermediate_size 13696 / 4"], "gpu.count: 1"),
        ({"intermediate_size": 28673}, (2, "bf16"), ["intermediate_size 28673"], "gpu.count: 1"),
    ],
)
def test_spc345_what_tensor_parallelism_divides(tmp_path: Path, keys, split, bad: list[str], fix: str) -> None:
    count, scheme = split
    config_folder(tmp_path / "target", TARGET, **{**LLAMA_70B, **keys})
    text = TRTLLM.replace("count: 4", f"count: {count}").replace("model: target", f"model: target, scheme: {scheme}")
    report = checked(tmp_path, text.replace("{kind: model, model: draft}", "ngram"))
    got = [values(finding)[0] for finding in report.of("error") if finding.code == "SPC345"]
    assert [value.startswith(part) for value, part in zip(got, bad, strict=True)] == [True] * len(bad)
    fixes = [finding.fix for finding in report.of("error") if finding.code == "SPC345"]
    assert fixes == [Fix(fix)] * len(bad)


@pytest.mark.parametrize(
    ("rows", "count", "scheme", "padding"),
    [(32001, 2, "bf16", (2, 32002)), (32016, 2, "w4a16", (64, 32064)), (128256, 4, "bf16", None)],
)
def test_spc346_a_vocabulary_that_must_be_padded(tmp_path: Path, rows, count, scheme, padding) -> None:
    """A11: the multiple needed is named."""
    config_folder(tmp_path / "target", TARGET, **{**LLAMA_70B, "vocab_size": rows})
    text = TRTLLM.replace("count: 4", f"count: {count}").replace("model: target", f"model: target, scheme: {scheme}")
    report = checked(tmp_path, text.replace("{kind: model, model: draft}", "ngram"))
    if padding is None:
        assert "SPC346" not in [finding.code for finding in report.findings]
        return
    finding = found(report, "SPC346")
    assert values(finding) == [f"vocab_size {rows}", f"a multiple of {padding[0]} is needed"]
    assert f"padded to {padding[1]} rows" in finding.message


def test_spc347_a_disk_or_a_memory_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llama_folder(tmp_path / "target", TinyLlama(stored="bf16"))
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - the library's own form
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 10, 1000))
    text = RECIPE.replace("{kind: model, model: draft}", "ngram")
    finding = found(checked(tmp_path, text), "SPC347")
    assert finding.severity == "error"
    assert values(finding)[1] == "1.0 kB are free"
    assert finding.fix is not None
    assert "SPECC_CACHE" in finding.fix.text
    monkeypatch.setattr("os.sysconf", lambda _: 10)
    assert [f.severity for f in checked(tmp_path, text).findings if f.code == "SPC347"] == ["error", "warning"]
    llama_folder(tmp_path / "plain")  # stored as it is computed: its files are linked
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 10, 1000))
    assert checked(tmp_path, text.replace("model: target", "model: plain")).of("error") == ()


@pytest.mark.parametrize(
    ("count", "scheme", "limits", "got"),
    [
        (1, "bf16", "max_batch: 1, max_input: 256", ["141.1 GB of weights", "209.7 MB of caches"]),
        (4, "fp8", "max_batch: 64, max_input: 32768", ["18.2 GB of weights", "175.2 GB of caches"]),
        (4, "fp8", "max_batch: 1, max_input: 256", None),
        (2, "bf16", "max_batch: 1, max_input: 256", None),
    ],
)
def test_spc305_a_table_that_does_not_fit_one_gpu(tmp_path: Path, count: int, scheme: str, limits: str, got) -> None:
    """F6, B1: 70 billion weights, and caches by head_dim."""
    config_folder(tmp_path / "target", TARGET, **LLAMA_70B)
    text = TRTLLM.replace("count: 4", f"count: {count}").replace("model: target", f"model: target, scheme: {scheme}")
    text = text.replace("{kind: model, model: draft}", "ngram").replace("max_batch: 1, max_input: 256", limits)
    findings = [finding for finding in checked(tmp_path, text).of("error") if finding.code == "SPC305"]
    assert [values(finding)[:2] for finding in findings] == ([] if got is None else [got])
    for finding in findings:
        assert values(finding)[3] == f"{count} x 80 GB"
        assert finding.fix is not None
        assert finding.fix.text.startswith("--set ")


@pytest.mark.parametrize(
    ("scheme", "cache", "warns"),
    [("fp8", "fp8", False), ("nvfp4", "fp8", False), ("bf16", "fp8", True), ("w4a16", "fp8", True),
     ("fp8", "int8", True), ("fp8", "bf16", False)],
)  # fmt: skip
def test_spc348_caches_that_switch_attention_off(tmp_path: Path, scheme: str, cache: str, warns: bool) -> None:
    text = TRTLLM.replace("h100-sxm-80gb", "b200").replace(
        "{model: target}", f"{{model: target, scheme: {scheme}, kv_cache: {cache}}}"
    )
    report = checked(tmp_path, text)
    assert [f.code for f in report.of("warning") if f.code == "SPC348"] == ["SPC348"] * warns
    if warns:
        finding = found(report, "SPC348")
        assert values(finding) == [f"kv_cache {cache}", f"weights of {scheme}"]
        assert finding.fix is not None
        assert finding.fix.text.startswith("remove target.kv_cache")
        assert finding.message.startswith("trtllm-serve" if cache == "fp8" else "trtllm-build")


@pytest.mark.parametrize(
    ("flow", "fixes"),
    [("serve", ["remove target.kv_cache", "target.scheme: fp8"]),
     ("engine", ["remove target.kv_cache", "a checkpoint that ModelOpt calibrated to fp8, with target.scheme: fp8"])],
)  # fmt: skip
def test_what_spc348_advises_can_be_planned(tmp_path: Path, flow: str, fixes: list[str]) -> None:
    llama_folder(tmp_path / "target", FP8_TARGET)
    llama_folder(tmp_path / "draft", TinyLlama(stored="bf16"))
    quantized_folder(tmp_path / "calibrated", LAYOUTS["modelopt_fp8"], FP8_TARGET)
    cache = ", kv_cache: fp8"
    text = TRTLLM.replace("{name: tensorrt-llm}", f'{{name: tensorrt-llm, flow: {flow}, version: "1.2.1"}}')
    text = text.replace("{model: target}", f"{{model: target{cache}}}")
    finding = found(checked(tmp_path, text), "SPC348")
    assert finding.fix is not None
    assert finding.fix.text.split(", or ") == fixes
    calibrated = text.replace("model: target", "model: calibrated, scheme: fp8")
    scaled = text.replace("model: target", "model: target, scheme: fp8")
    for followed in (text.replace(cache, ""), calibrated if flow == "engine" else scaled):
        report = checked(tmp_path, followed)
        assert report.plan is not None, [finding.message for finding in report.of("error")]
        assert "SPC348" not in {finding.code for finding in report.findings}


@pytest.mark.parametrize(("acceptance", "sampling", "support", "warns"), [
    ("rejection", "{temperature: 3.0}", "64", True),
    ("block", "{temperature: 1.0}", "64", True),
    ("block", "{temperature: 1.0}", "all", False),
    ("rejection", "{temperature: 0.5}", "64", False),
    ("rejection", "{temperature: 1.0, top_p: 0.9}", "64", False),
])  # fmt: skip
def test_spc350_hot_drafts_from_few_ids(tmp_path: Path, acceptance, sampling, support, warns) -> None:
    llama_folder(tmp_path / "target", TARGET)
    llama_folder(tmp_path / "draft")
    text = f"{RECIPE}acceptance: {acceptance}\nsampling: {sampling}\n".replace(
        "model: draft}", f"model: draft, support: {support}}}"
    )
    warnings = [finding for finding in checked(tmp_path, text).of("warning") if finding.code == "SPC350"]
    assert len(warnings) == warns
    for finding in warnings:
        assert values(finding)[1] == "drafts are drawn from 64 ids"
        assert finding.fix is not None
        assert finding.fix.text == "draft.support: all, or a truncation, as sampling.top_p: 0.95"


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
