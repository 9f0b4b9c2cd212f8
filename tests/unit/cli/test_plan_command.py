"""What `specc plan` prints of a model whose weights are elsewhere: all that planning promises, in 80 columns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from specc.cli.main import status_from_arguments
from specc.errors import ExitStatus

MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu",
    "tie_word_embeddings": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
RECIPE = """recipe: 1
name: experts
target: {model: m, scheme: fp8, kv_cache: fp8}
draft: ngram
gpu: {name: h100-sxm-80gb, count: 2}
backend: tensorrt-llm
"""


@pytest.fixture
def planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "config.json").write_text(json.dumps(MOE))

    def run(*arguments: str, status: ExitStatus = ExitStatus.DONE) -> str:
        files = ["plan", str(tmp_path / "recipe.yaml"), "--config", str(tmp_path / "config.json")]
        assert status_from_arguments([*files, *arguments]) == status
        return capsys.readouterr().out

    return run


def test_a_mixture_of_experts_on_two_gpus(planned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = planned()
    for name in (
        "weights: experts",
        "runtime context",
        "fits     yes, ",
        "at most  batch ",
        "AR is faster",
        "first token",
    ):
        assert name in shown, name
    assert "experts       an AR step reads 8 of 128 a layer, verifying " in shown
    assert "AR is faster  below batch " in shown  # one text's drafts read more experts
    columns = shown[shown.index("batch  gamma") :].splitlines()
    assert re.split(" {2,}", columns[0].strip())[3:] == ["AR tok/s", "user tok/s", "GPU tok/s"]
    (drafted,) = [line for line in columns if line.startswith("64 ")]
    assert len(re.findall(r"\d-\d", drafted)) == 3  # speed-up and both rates have their intervals
    assert max(map(len, shown[shown.index("memory of one GPU") :].splitlines())) <= 80


def test_json_has_all_of_it(planned) -> None:
    plan = json.loads(planned("--json", "--workload", "summarisation"))
    assert {item["kind"] for item in plan["memory"]} == {"weights", "caches", "scratch", "runtime"}
    assert plan["fit"]["needed_bytes"] == sum(item["bytes"] for item in plan["memory"])
    assert plan["fit"]["remedies"] == []
    prediction = plan["prediction"]
    assert prediction["verify_experts"] > prediction["ar_experts"] == 8
    assert prediction["verify_step_ms"] > prediction["ar_step_ms"]
    first = prediction["batches"][0]
    assert first["gpu_tokens"]["mid"] == pytest.approx(first["user_tokens"]["mid"] / 2, rel=2e-3)
    assert prediction["ttft_ms"] == prediction["ar_ttft_ms"]  # look-up drafters read no prompt


UNFIT = ("--set", "gpu={name: l4, count: 2}", "--set", "limits.max_batch=64")


def test_what_does_not_fit_has_the_code_and_the_status_that_a_build_would_end_with(planned) -> None:
    shown = " ".join(planned(*UNFIT, status=ExitStatus.USER_INPUT).split())
    assert "fits no, " in shown
    assert " GB more than its 24 GB" in shown
    assert "it is not built: SPC305 it takes " in shown
    error = json.loads(planned(*UNFIT, "--json", status=ExitStatus.USER_INPUT))["error"]
    assert (error["code"], error["place"]) == ("SPC305", "--set gpu.name")
    assert "GB are needed, most of them for weights: experts" in error["got"]


def test_what_no_version_builds_has_the_status_of_a_check_and_a_build(planned) -> None:
    """Case G15 and others: the back end does not run there at all, and what is known is shown all the same."""
    wrong = ("--set", "backend={name: tensorrt-rtx}", "--set", "gpu=h100-sxm-80gb", "--set", "target={model: m}")
    error = json.loads(planned(*wrong, "--json", status=ExitStatus.USER_INPUT))["error"]
    assert error["code"] == "SPC303"
    assert "SM 7.5, 8.0, 8.6, 8.9, 12.0, 12.1" in error["why"]
    assert "memory of one GPU" in planned(*wrong, status=ExitStatus.USER_INPUT)
    cpu = ("--set", "gpu=cpu", "--set", "backend=onnxruntime", "--set", "target={model: m, scheme: f16}")
    assert json.loads(planned(*cpu, "--json", status=ExitStatus.USER_INPUT))["error"]["code"] == "SPC302"


def test_what_this_version_alone_does_not_build_is_planned(planned) -> None:
    elsewhere = ("--set", "gpu=mi300x", "--set", "backend=null", "--set", "target={model: m}")
    assert json.loads(planned(*elsewhere, "--json"))["refused"].startswith("SPC303 ")  # planning only
    drafted = ("--set", "backend={name: tensorrt}", "--set", "gpu=h200", "--set", "target={model: m}")
    assert json.loads(planned(*drafted, "--json", "--set", "draft={kind: eagle3, model: h}"))["refused"][:6] == "SPC301"


def test_how_much_fits_is_said_of_batch_and_length_apart(planned) -> None:
    long = ("--set", "gpu={name: l40s, count: 1}", "--set", "limits={max_batch: 4096, max_input: 8, max_output: 8}")
    lines = planned(*long, status=ExitStatus.USER_INPUT).splitlines()
    (most,) = [line for line in lines if line.startswith("at most")]
    assert "length 0" not in most
    assert most.endswith("at this length, and no text at all at batch 4096")
