"""What the doctor finds of limits, GPUs and back ends: severity, place, both values with their places, and the fix."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from specc.doctor.finding import Fix
from tests.checked_pair import (
    LLAMA_70B,
    RECIPE,
    TARGET,
    TRTLLM,
    checked,
    config_folder,
    found,
    values,
)
from tests.quantized_folders import LAYOUTS, quantized_folder
from tests.tiny_models import TinyLlama, llama_folder

FP8_TARGET = TinyLlama(hidden_size=128, intermediate_size=128, head_dim=32, stored="bf16")


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
