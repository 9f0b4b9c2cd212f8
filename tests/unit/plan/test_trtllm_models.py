"""How weights get to TensorRT-LLM, by what the checkpoint stores: which are taken as they are, which are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specc.bundle.manifest import LimitsSpec
from specc.checkpoint.facts import ExpertFacts
from specc.errors import SpeccError
from specc.plan.trtllm_caches import caches_of_pair
from specc.plan.trtllm_models import model_plan
from specc.plan.trtllm_plan import Int4Groups, TrtllmModelPlan
from specc.plan.trtllm_stored import StoredMatrices
from specc.recipe.load import recipe_from_text
from specc.recipe.models import SchemeChoice
from tests.published_speedups import llama_like
from tests.rank_files import model_plan as rank_plan

RECIPE = recipe_from_text(
    "recipe: 1\nname: r\ntarget: {model: m}\ndraft: none\ngpu: h100-sxm-80gb\nbackend: tensorrt-llm\n", "r.yaml"
)
LIMITS = LimitsSpec(8, 1024, 512, 1536, 1024, 8, 4)
FACTS = replace(llama_like(8192, 28672, 80, (64, 8), 128256), max_position_embeddings=8192)
PLAIN = StoredMatrices(
    shards=True, static_fp8=False, modelopt_int4=False, int4=None, scale_dtype=None, described=False, fp8_caches=False
)
AUTOAWQ = replace(PLAIN, int4=Int4Groups(128, zero_point=True, input_factors=False), scale_dtype="f16")
EXPERTS = ExpertFacts(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=28672, norm_topk_prob=True)
MODELOPT = replace(
    PLAIN, modelopt_int4=True, int4=Int4Groups(128, zero_point=False, input_factors=True), scale_dtype="f32"
)


def planned(flow: Any, scheme: Any, own: str, stored: StoredMatrices, tp: int = 4, **facts: Any) -> TrtllmModelPlan:
    return planned_with({}, flow, scheme, own, stored, tp=tp, **facts)


def planned_with(
    words: dict[str, Any], flow: Any, scheme: Any, own: str, stored: StoredMatrices, *, tp: int = 4, **facts: Any
) -> TrtllmModelPlan:
    choice = RECIPE.target.model_copy(update={"scheme": SchemeChoice(name=scheme, **words)})
    return model_plan(
        RECIPE, "target", choice, replace(FACTS, stored_dtype=own, **facts), scheme=scheme, flow=flow,
        sizes=(tp, 1), limits=LIMITS, stored=stored,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flow", "scheme", "own", "stored", "made"),
    [
        ("engine", "bf16", "bf16", PLAIN, "ranks: plain"),
        ("engine", "w4a16", "bf16", PLAIN, "ranks: at build"),
        ("engine", "w4a16", "uint4", AUTOAWQ, "ranks: stored"),
        ("engine", "w4a16", "int4", MODELOPT, "ranks: stored"),
        ("engine", "fp8", "fp8_e4m3", replace(PLAIN, static_fp8=True), "ranks: stored"),
        ("serve", "w4a16", "int4", MODELOPT, "source: stored"),
        ("serve", "w4a16", "bf16", PLAIN, "modelopt: quantized"),
        ("serve", "fp8", "bf16", PLAIN, "modelopt: quantized"),
        ("serve", "nvfp4", "bf16", PLAIN, "modelopt: quantized"),
        ("serve", "nvfp4", "fp4_e2m1", PLAIN, "source: stored"),
    ],
)
def test_weights_are_taken_or_made(flow: str, scheme: str, own: str, stored: StoredMatrices, made: str) -> None:
    plan = planned(flow, scheme, own, stored)
    assert f"{plan.layout}: {plan.weights}" == made
    assert plan.int4 == (stored.int4 if (made, scheme) == ("ranks: stored", "w4a16") else None)


@pytest.mark.parametrize(("own", "stored"), [("int4", MODELOPT), ("uint4", AUTOAWQ)])
def test_experts_in_4_bits_are_taken_as_they_are_stored(own: str, stored: StoredMatrices) -> None:
    plan = planned("engine", "w4a16", own, stored, experts=EXPERTS, family="mixtral")
    assert (plan.weights, plan.int4) == ("stored", stored.int4)
    uneven = replace(EXPERTS, moe_intermediate_size=28672 + 64)  # another size than that of dense layers
    with pytest.raises(SpeccError, match="intermediate_size 28736"):
        planned("engine", "w4a16", own, stored, experts=uneven, family="mixtral")


def test_caches_of_fp8_stand_beside_static_fp8_alone() -> None:
    """Beside fp8 row by row, as beside bf16, trtllm-build would switch paged-context attention off without a word."""
    choice = RECIPE.target.model_copy(update={"scheme": SchemeChoice(name="fp8"), "kv_cache": "fp8"})

    def cache_of(own: str, stored: StoredMatrices, flow: Any) -> str:
        facts = replace(FACTS, stored_dtype=own)
        plan = model_plan(
            RECIPE, "target", choice, facts, scheme="fp8", flow=flow, sizes=(4, 1), limits=LIMITS, stored=stored
        )
        return plan.kv_cache

    assert cache_of("fp8_e4m3", replace(PLAIN, static_fp8=True), "engine") == "fp8"
    assert cache_of("bf16", PLAIN, "serve") == "fp8"
    with pytest.raises(SpeccError) as caught:
        cache_of("bf16", PLAIN, "engine")
    assert (caught.value.code, caught.value.got) == ("SPC324", "caches of fp8 beside weights of fp8 row by row")


def test_caches_of_a_placed_checkpoint_are_what_it_states() -> None:
    """A YAML that is silent leaves the dtype of hf_quant_config.json, and no value takes it back."""
    stated = replace(PLAIN, static_fp8=True, described=True, fp8_caches=True)

    def made(kv_cache: str | None, flow: Any = "serve", stored: StoredMatrices = stated) -> TrtllmModelPlan:
        choice = RECIPE.target.model_copy(update={"scheme": SchemeChoice(name="fp8"), "kv_cache": kv_cache})
        facts = replace(FACTS, stored_dtype="fp8_e4m3")
        return model_plan(
            RECIPE, "target", choice, facts, scheme="fp8", flow=flow, sizes=(4, 1), limits=LIMITS, stored=stored
        )

    for kv_cache in (None, "fp8"):
        assert (made(kv_cache).kv_cache, made(kv_cache).cache_stated) == ("fp8", True)
    with pytest.raises(SpeccError) as caught:
        made("bf16")
    assert caught.value.got == "caches of bf16 for a checkpoint whose hf_quant_config.json states FP8"
    assert made("bf16", "engine").kv_cache == made(None, "engine").kv_cache == "bf16"  # written anew there
    silent = made("fp8", stored=replace(stated, fp8_caches=False))
    assert (silent.kv_cache, silent.cache_stated) == ("fp8", False)


@pytest.mark.parametrize(
    ("target", "draft", "refused"),
    [
        (("fp8", False), ("bf16", False), "target"), (("bf16", False), ("fp8", False), "draft"),
        (("fp8", True), ("bf16", False), None), (("bf16", False), ("fp8", True), None),
        (("fp8", False), ("fp8", False), None), (("bf16", False), ("bf16", False), None),
    ],
)  # fmt: skip
def test_fp8_caches_of_one_model_alone(target: tuple[str, bool], draft: tuple[str, bool], refused: str | None) -> None:
    one, two = (rank_plan(layout="source", kv_cache=cache, cache_stated=stated) for cache, stated in (target, draft))
    nowhere = {"target": False, "draft": False}
    assert caches_of_pair(RECIPE, one, None, nowhere) == (one, None)
    if refused is None:
        assert caches_of_pair(RECIPE, one, two, nowhere) == (one, two)
        return
    with pytest.raises(SpeccError) as caught:
        caches_of_pair(RECIPE, one, two, nowhere)
    other = "draft" if refused == "target" else "target"
    assert caught.value.got.startswith(
        f"caches of fp8 for the {refused} alone, beside whose weights no hf_quant_config"
    )
    assert caught.value.fix == f"{refused}.kv_cache: bf16, or {other}.kv_cache: fp8"
    found = dict(zip(("target", "draft"), caches_of_pair(RECIPE, one, two, nowhere | {refused: True}), strict=True))
    stated, same = found[refused], found[other]
    assert stated is not None
    assert stated.cache_stated
    assert same in (one, two)


def test_what_is_not_quantized_has_the_dtype_of_the_scales() -> None:
    """Scales of AutoAWQ are float16, and so is the rest of such a checkpoint; the loader casts scales to it."""
    assert planned("engine", "w4a16", "uint4", AUTOAWQ).dtype == "f16"
    assert planned("engine", "w4a16", "int4", MODELOPT).dtype == "bf16"


@pytest.mark.parametrize(
    ("stored", "tp", "changes", "got"),
    [
        (replace(AUTOAWQ, int4=Int4Groups(32, zero_point=True, input_factors=False)), 4, {}, "4 bits in groups of 32"),
        (AUTOAWQ, 8, {"intermediate_size": 14336 + 128}, "intermediate_size 14464"),
        (replace(MODELOPT, int4=None, scale_dtype=None), 4, {}, "a checkpoint that stores int4"),
    ],
)
def test_what_an_engine_would_not_take_is_refused(
    stored: StoredMatrices, tp: int, changes: dict[str, int], got: str
) -> None:
    with pytest.raises(SpeccError) as caught:
        planned("engine", "w4a16", "int4", stored, tp, **changes)
    assert caught.value.code == "SPC324"
    assert got in caught.value.got


def test_trtllm_serve_loads_no_autoawq() -> None:
    with pytest.raises(SpeccError) as caught:
        planned("serve", "w4a16", "uint4", AUTOAWQ)
    assert caught.value.code == "SPC324"
    assert "flow: engine" in (caught.value.fix or "")


@pytest.mark.parametrize(
    ("scheme", "words", "made"),
    [
        ("fp8", {}, ("fp8_e4m3 with one scale a channel, scales f32", "rtn", False)),
        ("fp8", {"granularity": "tensor"}, ("fp8_e4m3 with one scale a tensor, scales f32", "rtn", True)),
        ("w4a16", {}, ("int4 in groups of 128, scales f32", "mse", False)),
        ("w4a16", {"method": "awq"}, ("int4 in groups of 128, scales f32", "awq", True)),
        ("nvfp4", {"method": "rtn"}, ("fp4_e2m1 in groups of 16, scales fp8_e4m3", "rtn", True)),
    ],
)
def test_words_of_the_recipe_choose_the_layout_and_whether_texts_are_read(
    scheme: str, words: dict[str, Any], made: tuple[str, str, bool]
) -> None:
    rule = planned_with(words, "serve", scheme, "bf16", PLAIN).quantization
    assert rule is not None
    assert (rule.format.title, rule.method, rule.calibrated) == made


@pytest.mark.parametrize(
    ("flow", "scheme", "words", "got"),
    [
        ("serve", "fp8", {"granularity": "group"}, "fp8 with granularity group"),
        ("serve", "w4a16", {"group_size": 64}, "w4a16 with group_size 64"),
        ("serve", "nvfp4", {"method": "awq"}, "nvfp4 with method awq"),
        ("serve", "bf16", {"method": "rtn"}, "bf16 with method rtn"),
        ("engine", "w4a16", {"group_size": 128}, "w4a16 with group_size 128"),
        ("engine", "nvfp4", {}, "scheme nvfp4 in the flow engine"),
    ],
)
def test_words_that_nothing_follows_are_refused(flow: str, scheme: str, words: dict[str, Any], got: str) -> None:
    with pytest.raises(SpeccError) as caught:
        planned_with(words, flow, scheme, "bf16", PLAIN)
    assert (caught.value.code, caught.value.got) == ("SPC324", got)


@pytest.mark.parametrize(
    ("flow", "scheme", "own", "stored", "got"),
    [
        ("engine", "fp8", "bf16", PLAIN, "scheme fp8 of a mixture of experts"),
        ("engine", "nvfp4", "bf16", PLAIN, "scheme nvfp4 in the flow engine"),
        ("serve", "w4a16", "bf16", PLAIN, "scheme w4a16 of a checkpoint that stores bf16"),
        ("serve", "fp8", "bf16", PLAIN, "scheme fp8 of a checkpoint that stores bf16"),
        ("serve", "nvfp4", "bf16", PLAIN, "scheme nvfp4 of a checkpoint that stores bf16"),
    ],
)
def test_what_is_not_made_of_experts_is_refused_by_name(
    flow: str, scheme: str, own: str, stored: StoredMatrices, got: str
) -> None:
    with pytest.raises(SpeccError) as caught:
        planned(flow, scheme, own, stored, experts=EXPERTS, family="mixtral")
    assert (caught.value.code, caught.value.got) == ("SPC324", got)
    assert "expert" in f"{caught.value.got} {caught.value.why}" or scheme == "nvfp4"
    assert caught.value.fix
