"""What planning refuses for TensorRT-LLM, by name and with the way out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from specc.checkpoint.head_folder import HeadFolder
from specc.errors import SpeccError
from specc.pipeline import BuildRequest, build
from specc.plan.make import plan_from_recipe
from specc.plan.trtllm_stored import stored_from_source
from specc.progress import silent
from specc.recipe.load import recipe_from_text
from specc.runtime import Session
from tests.quantized_folders import LAYOUTS, quantized_folder
from tests.rank_files import model_plan, write_ranks
from tests.stated_source import SMOLLM2_FACTS, StatedSource
from tests.tiny_families import opened
from tests.tiny_models import TinyLlama, llama_folder

FACTS = dataclasses.replace(
    SMOLLM2_FACTS, architecture="LlamaForCausalLM", stored_dtype="bf16", num_attention_heads=8, num_key_value_heads=4
)
RECIPE = """\
recipe: 1
name: r
target: {model: m}
draft: {kind: ngram}
gpu: {name: h100-sxm-80gb, count: 2}
backend: {name: tensorrt-llm, flow: FLOW, version: "VERSION"}
"""


def refused(*lines: str, flow: str = "engine", version: str = "1.2.1", **facts: Any) -> SpeccError:
    text = RECIPE.replace("FLOW", flow).replace("VERSION", version) + "".join(f"{line}\n" for line in lines)
    for line in lines:  # a later line replaces the recipe's own
        key = line.split(":")[0]
        if f"\n{key}:" in RECIPE:
            text = "".join(
                part for part in text.splitlines(keepends=True) if not part.startswith(f"{key}:") or part == f"{line}\n"
            )
    draft = StatedSource(uri="d", facts=dataclasses.replace(FACTS, max_position_embeddings=2048))
    with pytest.raises(SpeccError) as caught:
        plan_from_recipe(
            recipe_from_text(text, "r.yaml"), StatedSource(uri="m", facts=dataclasses.replace(FACTS, **facts)), draft
        )
    assert caught.value.fix
    return caught.value


def test_factors_of_one_input_that_differ(tmp_path: Path) -> None:
    """Of ModelOpt's int4: queries, keys and values are one product in an engine."""

    def differ(stored: Any) -> None:
        stored["model.layers.0.self_attn.v_proj.pre_quant_scale"] *= 2

    quantized_folder(tmp_path / "m", LAYOUTS["modelopt_int4_factors"], change=differ)
    source = opened(tmp_path / "m")
    plan = model_plan(1, weights="stored", scheme="w4a16", int4=stored_from_source(source).int4)
    with pytest.raises(SpeccError) as caught:
        write_ranks(source, plan, tmp_path / "c")
    error = caught.value
    assert error.code == "SPC405"
    assert error.place.endswith("model.layers.0.self_attn.v_proj.weight")
    assert error.got == "pre_quant_scale differs from that of model.layers.0.self_attn.q_proj.weight"
    assert "flow: serve" in (error.fix or "")


@pytest.mark.parametrize(
    ("flow", "version", "code", "fix"),
    [
        ("engine", "1.3.0rc29", "SPC344", 'flow: serve, or version: "1.2.1"'),
        ("engine", "1.4.0rc0", "SPC344", 'flow: serve with version: "1.3.0rc29", or version: "1.2.1"'),
        ("engine", "0.20.0", "SPC323", 'version: "1.2.1"'),
        ("serve", "1.3.0rc12", "SPC323", 'version: "1.2.1"'),
        ("serve", "1.2.0rc6", "SPC323", 'version: "1.2.1"'),
        ("serve", "newest", "SPC323", 'version: "1.2.1"'),
    ],
)
def test_versions(flow: str, version: str, code: str, fix: str) -> None:
    error = refused(flow=flow, version=version)
    assert (error.code, error.fix) == (code, fix)
    assert version in error.got


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("acceptance: rejection", "acceptance rejection"),
        ("draft: {kind: pard, model: owner/head}", "a draft of kind pard"),
        ("draft: {kind: eagle3, model: ./head}", "the head ./head with version 1.2.1"),
        ("target: {model: m, scheme: f16}", "scheme f16 of a checkpoint that stores bf16"),
    ],
)
def test_what_the_serve_flow_does_not_take(line: str, got: str) -> None:
    error = refused(line, flow="serve")
    assert (error.code, error.got) == ("SPC324", got)


@pytest.mark.parametrize(
    ("line", "facts", "got"),
    [
        ("target: {model: m, kv_cache: fp8}", {}, "caches of fp8 beside weights of bf16"),
        ("draft: {kind: model, model: d, steps: unrolled}", {}, "steps unrolled"),
        ("draft: {kind: model, model: d, steps: whole}", {}, "steps whole"),
        ("draft: {kind: model, model: d, scheme: bf16, revision: x}", {"vocab_size": 49408}, "vocabularies of 49408"),
        ("limits: {max_input: 2048, max_output: 1024}", {}, ""),
        ("workload: chat", {"family": "phi3"}, "family phi3"),
        ("workload: chat", {"attention_bias": True}, "biases on q, k, v: True, on the output: False"),
        ("workload: chat", {"stored_dtype": "fp8_e4m3"}, "a checkpoint that stores fp8_e4m3"),
        ("gpu: {name: h100-sxm-80gb, count: 3}", {}, "the target: num_attention_heads 8, num_key_value_heads 4 over 3"),
    ],
)
def test_what_the_engine_flow_does_not_take(line: str, facts: dict[str, Any], got: str) -> None:
    extra = [line]
    if "vocabularies" in got:
        extra.append("acceptance: rejection")
    if line.startswith("limits"):
        extra.append("draft: {kind: model, model: d}")
        got = "a draft of 2048 positions for texts of 3072"
    error = refused(*extra, **facts)
    assert error.code == ("SPC345" if "over 3" in got else "SPC324")
    assert error.got.startswith(got)


def test_heads_are_of_the_serve_flow_and_of_the_versions_that_load_them() -> None:
    error = refused("draft: {kind: eagle3, model: owner/head}")
    assert (error.code, error.got) == ("SPC324", "a draft of kind eagle3")
    assert "flow: serve" in error.fix
    error = refused("draft: {kind: eagle3, model: owner/head}", flow="serve", version="1.1.0")
    assert error.got == "the head owner/head with version 1.1.0"


@pytest.mark.parametrize(
    ("line", "got", "fix"),
    [
        (
            "draft: {kind: eagle3, model: owner/head, revision: v2}",
            "revision v2 of the head owner/head",
            "the folder of",
        ),
        ("draft: {kind: eagle3, model: owner/head/x}", "the head owner/head/x with version 1.2.1", "the folder of"),
    ],
)
def test_heads_that_the_server_would_not_load_as_asked(line: str, got: str, fix: str) -> None:
    error = refused(line, flow="serve")
    assert (error.code, error.got) == ("SPC324", got)
    assert (error.fix or "").startswith(fix)


@pytest.mark.parametrize(
    ("line", "version", "got", "fix"),
    [
        (
            "draft: {kind: eagle3, model: d, taps: [1, 2]}",
            "1.0.0",
            "taps with version 1.0.0",
            'version: "1.1.0" or "1.2.0"',
        ),
        (
            "draft: {kind: eagle3, model: d, scheme: fp8}",
            "1.2.1",
            "scheme fp8 of a head that stores f16",
            "scheme: f16",
        ),
        ("draft: {kind: eagle3, model: d, revision: v2}", "1.2.1", "revision v2 of the head d", "remove revision"),
    ],
)
def test_a_placed_head_is_read_as_the_version_reads_it(line: str, version: str, got: str, fix: str) -> None:
    text = RECIPE.replace("FLOW", "serve").replace("VERSION", version).replace("draft: {kind: ngram}", line)
    with pytest.raises(SpeccError) as caught:
        plan_from_recipe(
            recipe_from_text(text, "r.yaml"), StatedSource(uri="m", facts=FACTS), HeadFolder("d", (), "f16")
        )
    assert (caught.value.code, caught.value.got) == ("SPC324", got)
    assert (caught.value.fix or "").startswith(fix)


def test_mtp_needs_layers_in_the_targets_checkpoint(tmp_path: Path) -> None:
    llama_folder(tmp_path / "m", TinyLlama(stored="bf16"))
    limits = "limits: {max_batch: 1, max_input: 64, max_output: 64}\n"
    text = RECIPE.replace("FLOW", "serve").replace("VERSION", "1.2.1").replace("kind: ngram", "kind: mtp") + limits
    (tmp_path / "r.yaml").write_text(text)
    request = BuildRequest(tmp_path / "r.yaml", (), tmp_path, "plan", False, None, offline=True, rehash=False)
    with pytest.raises(SpeccError) as caught:
        build(request, silent, on_wait=lambda _: None)
    assert (caught.value.code, caught.value.got) == ("SPC324", "a draft of kind mtp for m")
    assert "num_nextn_predict_layers" in caught.value.why
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | {"num_nextn_predict_layers": 1}))
    assert build(request, silent, on_wait=lambda _: None).plan.backend.trtllm is not None


def test_mtp_has_no_mask() -> None:
    text = RECIPE.replace("{kind: ngram}", "{kind: mtp, mask_token_id: 3}").replace("FLOW", "serve")
    with pytest.raises(SpeccError) as caught:
        recipe_from_text(text, "r.yaml")
    assert (caught.value.code, caught.value.got) == ("SPC108", "kind mtp with a mask_token_id")


def test_mtp_has_no_model_of_its_own() -> None:
    with pytest.raises(SpeccError) as caught:
        recipe_from_text(
            RECIPE.replace("{kind: ngram}", "{kind: mtp, model: owner/head}").replace("FLOW", "serve"), "r.yaml"
        )
    assert (caught.value.code, caught.value.fix) == ("SPC108", "remove model")


def test_stages_divide_the_gpus() -> None:
    text = 'backend: {name: tensorrt-llm, flow: engine, version: "1.2.1", pp_size: 3}'
    error = refused(text)
    assert (error.code, error.got) == ("SPC324", "pp_size 3 of 2 GPUs")
    assert error.fix == "pp_size: 2, or another gpu.count"


@pytest.mark.parametrize(
    ("gpus", "stages", "fix"),
    [(3, 1, "gpu.count: 2 or 4"), (16, 1, "gpu.count: 8"), (6, 2, "gpu.count: 4 or 8"), (32, 32, "pp_size: 16")],
)
def test_the_fix_of_a_split_names_numbers_that_divide_the_model(gpus: int, stages: int, fix: str) -> None:
    backend = f'backend: {{name: tensorrt-llm, flow: engine, version: "1.2.1", pp_size: {stages}}}'
    error = refused(f"gpu: {{name: h100-sxm-80gb, count: {gpus}}}", backend)
    assert error.fix == fix


@pytest.mark.parametrize(
    ("scheme", "facts", "got", "why"),
    [
        ("{name: bf16, group_size: 32}", {}, "bf16 with group_size 32", "not quantized"),
        ("{name: fp8, granularity: tensor}", {}, "fp8 with granularity tensor", "a scale for each row"),
        ("{name: w8a16, method: mse}", {}, "w8a16 with method mse", "trtllm-build quantizes"),
    ],
)
def test_words_on_quantization_are_those_of_the_form_that_is_written(
    scheme: str, facts: dict[str, Any], got: str, why: str
) -> None:
    error = refused(f"target: {{model: m, scheme: {scheme}}}", **facts)
    assert (error.code, error.got) == ("SPC324", got)
    assert why in error.why


def test_a_support_of_drafts_is_not_dropped_without_a_word() -> None:
    error = refused("draft: {kind: model, model: d, support: 5}", "acceptance: rejection")
    assert (error.code, error.got, error.fix) == ("SPC324", "support 5", "support: all, or remove it")


def test_spc720_a_checkpoint_is_not_run_here(tmp_path: Path) -> None:
    llama_folder(tmp_path / "m", TinyLlama(stored="bf16"))
    limits = "limits: {max_batch: 1, max_input: 64, max_output: 64}\n"
    (tmp_path / "r.yaml").write_text(RECIPE.replace("FLOW", "serve").replace("VERSION", "1.2.1") + limits)
    request = BuildRequest(tmp_path / "r.yaml", (), tmp_path, "publish", False, None, offline=True, rehash=False)
    bundle = build(request, silent, on_wait=lambda _: None).path
    with pytest.raises(SpeccError) as caught:
        Session.load(bundle)
    assert (caught.value.code, caught.value.place) == ("SPC720", str(bundle))
    assert "trtllm-serve of TensorRT-LLM 1.2.1" in caught.value.why
    assert "deploy/" in caught.value.fix


def test_spc906_engines_have_no_layout(tmp_path: Path) -> None:
    llama_folder(tmp_path / "m", TinyLlama())
    (tmp_path / "r.yaml").write_text("recipe: 1\nname: r\ntarget: {model: m}\ndraft: {kind: ngram}\ngpu: cpu\n"
                                     "limits: {max_batch: 1, max_input: 64, max_output: 64}\n")  # fmt: skip
    request = BuildRequest(tmp_path / "r.yaml", (), tmp_path, "layout", False, None, offline=True, rehash=False)
    with pytest.raises(SpeccError) as caught:
        build(request, silent, on_wait=lambda _: None)
    assert (caught.value.code, caught.value.place) == ("SPC906", "--stop-after")
    assert "onnxruntime" in caught.value.got


def test_int4_groups_must_be_whole_on_each_gpu() -> None:
    error = refused("target: {model: m, scheme: w4a16}", flow="serve", hidden_size=4160, intermediate_size=11008)
    assert error.code == "SPC324"
    assert error.got == "scheme w4a16 with hidden_size 4160"
    assert error.fix == "target.scheme: fp8, or fewer GPUs"
