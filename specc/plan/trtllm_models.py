"""Whether TensorRT-LLM takes a model in a flow, and how the model is laid out for it."""

from __future__ import annotations

from typing import Final, Literal

from specc.bundle.manifest import LimitsSpec
from specc.catalog.schemes import PLAIN
from specc.catalog.trtllm_models import ENGINE_MODELS, SERVE_FAMILIES, TrtllmModelRow
from specc.catalog.trtllm_versions import Flow
from specc.checkpoint.facts import ModelFacts
from specc.errors import SpeccError
from specc.plan.trtllm_caches import cache_dtype, check_engine_cache
from specc.plan.trtllm_plan import Int4Groups, Layout, TrtllmModelPlan, WeightsForm
from specc.plan.trtllm_quantization import FORMS, quantization_from_choice, refuse_words, refused
from specc.plan.trtllm_stored import StoredMatrices
from specc.recipe.models import ModelChoice
from specc.recipe.schema import Recipe

ROPES: Final = ("none", "linear", "llama3", "yarn")
STORED_FP8: Final = "fp8_e4m3"
STORED_FP4: Final = "fp4_e2m1"
INT4_GROUPS: Final = (64, 128)


def model_plan(
    recipe: Recipe,
    role: Literal["target", "draft"],
    choice: ModelChoice,
    facts: ModelFacts,
    *,
    scheme: str,
    flow: Flow,
    sizes: tuple[int, int],
    limits: LimitsSpec,
    stored: StoredMatrices,
) -> TrtllmModelPlan:
    """Return the layout of a model.

    Args:
        recipe: for the places of errors.
        role: whose model.
        choice: of the recipe.
        facts: of the checkpoint, for texts of the bundle's length.
        scheme: of the weights, decided.
        flow: decides what is written.
        sizes: tp_size and pp_size.
        limits: of the bundle.
        stored: how the checkpoint stores its matrices.

    Raises:
        SpeccError: SPC324 TensorRT-LLM does not take the model so; SPC345 it cannot be split over the GPUs.
    """
    tp_size, pp_size = sizes
    _check_split(recipe, role, facts, tp_size, pp_size)
    if flow == "engine":
        _check_engine_model(recipe, role, facts, limits)
        weights = _engine_weights(recipe, role, facts, scheme=scheme, stored=stored, tp_size=tp_size)
    else:
        _check_serve_model(recipe, role, facts)
        weights = _serve_weights(recipe, role, facts, scheme=scheme, stored=stored)
    quantization = None
    if weights == "quantized":
        quantization = quantization_from_choice(recipe, role, choice, facts, scheme=scheme, tp_size=tp_size)
    else:
        refuse_words(recipe, role, choice, weights)
    layout = _layout(flow, weights)
    int4 = stored.int4 if (layout, weights, scheme) == ("ranks", "stored", "w4a16") else None
    dtype = _plain_dtype(scheme, stored, int4)
    stated = layout == "source" and stored.fp8_caches
    cache = cache_dtype(recipe, role, choice, dtype=dtype, stated=stated)
    if flow == "engine":
        check_engine_cache(recipe, role, cache, weights=weights, scheme=scheme, dtype=dtype)
    return TrtllmModelPlan(
        layout=layout,
        dtype=dtype,
        weights=weights,
        scheme=scheme,
        kv_cache=cache,
        tp_size=tp_size,
        pp_size=pp_size,
        int4=int4,
        quantization=quantization,
        cache_stated=stated or (layout == "modelopt" and cache == "fp8"),
    )


def _layout(flow: Flow, weights: WeightsForm) -> Layout:
    if flow == "engine":
        return "ranks"
    return "modelopt" if weights == "quantized" else "source"


def _plain_dtype(scheme: str, stored: StoredMatrices, int4: Int4Groups | None) -> Literal["f16", "bf16"]:
    return "f16" if scheme == "f16" or (int4 is not None and stored.scale_dtype == "f16") else "bf16"


def _check_serve_model(recipe: Recipe, role: str, facts: ModelFacts) -> None:
    if facts.family not in SERVE_FAMILIES:
        got, fix = f"family {facts.family}", f"a model of {', '.join(SERVE_FAMILIES)}"
        raise refused(recipe, (role, "model"), got, "TensorRT-LLM's PyTorch back end has no such model", fix)


def _serve_weights(recipe: Recipe, role: str, facts: ModelFacts, *, scheme: str, stored: StoredMatrices) -> WeightsForm:
    """Decide how the weights get into a Hugging Face checkpoint of the scheme."""
    own, plain = facts.stored_dtype, facts.stored_dtype in PLAIN
    known = {STORED_FP8: "fp8", STORED_FP4: "nvfp4"} | ({own: "w4a16"} if stored.modelopt_int4 else {})
    if scheme in (own, known.get(own)):
        return "plain" if plain else "stored"
    if plain and stored.shards and facts.experts is None and scheme in FORMS:
        return "quantized"
    why = (
        f"the serve flow places the checkpoint's own files, or quantizes plain ones to {', '.join(FORMS)}; experts and "
        "GGUF files it does not quantize"
    )
    fix = f"{role}.scheme: {known.get(own, own)}, or a checkpoint that stores {scheme}"
    if own == "f32":
        fix = f"a checkpoint that stores {scheme}"  # TensorRT-LLM has no f32
    if stored.int4 is not None and scheme == "w4a16":
        fix = "flow: engine, which takes these codes, or a checkpoint of ModelOpt's W4A16_AWQ"
    raise refused(recipe, (role, "scheme"), f"scheme {scheme} of a checkpoint that stores {own}", why, fix)


def _engine_weights(
    recipe: Recipe, role: str, facts: ModelFacts, *, scheme: str, stored: StoredMatrices, tp_size: int
) -> WeightsForm:
    """Decide how the weights get into rank files of the scheme."""
    own, experts = facts.stored_dtype, facts.experts is not None
    if own == STORED_FP8 and scheme == "fp8" and stored.static_fp8:
        return "stored"
    if scheme == "w4a16" and stored.int4 is not None:
        _check_int4(recipe, role, facts, stored.int4, tp_size)
        return "stored"
    if own not in PLAIN:
        why = (
            "the engine flow takes plain weights, fp8 with one scale of weights and one of inputs for each matrix, and "
            "4 bits in groups of 64 or 128 with scheme w4a16"
        )
        fix = f"the unquantized checkpoint of the same model, with {role}.scheme: fp8, or flow: serve"
        raise refused(recipe, (role, "model"), f"a checkpoint that stores {own}", why, fix)
    if scheme == "nvfp4":
        why = "specc writes no nvfp4 for trtllm-build"
        raise refused(recipe, (role, "scheme"), "scheme nvfp4 in the flow engine", why, "flow: serve")
    if scheme == "fp8" and experts:
        why = "TensorRT-LLM has no fp8 by rows for experts"
        raise refused(recipe, (role, "scheme"), "scheme fp8 of a mixture of experts", why, f"{role}.scheme: bf16")
    return "plain" if scheme in PLAIN else "fp8 rows" if scheme == "fp8" else "at build"


def _check_int4(recipe: Recipe, role: str, facts: ModelFacts, int4: Int4Groups, tp_size: int) -> None:
    """Refuse groups that TensorRT-LLM's kernels do not have, and matrices that its layers would pad.

    Source: `WeightOnlyGroupwiseQuantLinear` of TensorRT-LLM: inputs and outputs are multiples of max(64, group) * tp.
    """
    size, place = int4.group_size, (role, "model")
    if size not in INT4_GROUPS:
        got, fix = f"4 bits in groups of {size}", "a checkpoint with groups of 128"
        raise refused(recipe, place, got, f"TensorRT-LLM has kernels for groups of {INT4_GROUPS}", fix)
    heads = facts.num_attention_heads // tp_size + 2 * max(1, facts.num_key_value_heads // tp_size)
    sizes = {
        "hidden_size": facts.hidden_size,
        "intermediate_size": _inner(facts),
        "the outputs of all heads": facts.num_attention_heads * facts.head_dim,
        "queries, keys and values": heads * facts.head_dim * tp_size,
    }
    uneven = [f"{name} {count}" for name, count in sizes.items() if count % (size * tp_size)]
    if uneven:
        got = f"scheme w4a16 with {', '.join(uneven)} on {tp_size} GPUs"
        why = f"TensorRT-LLM's layers of 4 bits have multiples of {size} inputs and outputs on each GPU"
        raise refused(recipe, (role, "scheme"), got, why, f"fewer GPUs, or {role}.scheme: fp8 of a plain checkpoint")


def _check_split(recipe: Recipe, role: str, facts: ModelFacts, tp_size: int, pp_size: int) -> None:
    uneven = _uneven(facts, tp_size)
    if uneven:
        got, why = f"{', '.join(uneven)} over {tp_size} GPUs", "each GPU holds an equal part of every matrix"
        even = [size for size in range(1, facts.num_attention_heads + 1) if not _uneven(facts, size)]
        near = [*[size for size in even if size < tp_size][-1:], *[size for size in even if size > tp_size][:1]]
        fix = "gpu.count: " + " or ".join(str(size * pp_size) for size in near)
        raise SpeccError("SPC345", recipe.place("gpu", "count"), f"the {role}: {got}", why, fix)
    layers = facts.num_hidden_layers
    if layers < pp_size:
        got, why = f"{layers} layers of the {role} in {pp_size} stages", "each stage holds a layer at least"
        count = tp_size * pp_size
        fix = f"pp_size: {max(size for size in range(1, layers + 1) if count % size == 0)}"
        raise refused(recipe, ("backend", "pp_size"), got, why, fix)


def _uneven(facts: ModelFacts, tp_size: int) -> list[str]:
    """Return which sizes of a model so many GPUs cannot share evenly."""
    kv = facts.num_key_value_heads
    return [
        f"{name} {value}"
        for name, value, bad in (
            ("num_attention_heads", facts.num_attention_heads, facts.num_attention_heads % tp_size),
            ("num_key_value_heads", kv, kv % tp_size if kv >= tp_size else tp_size % kv),
            ("intermediate_size", _inner(facts), _inner(facts) % tp_size),
        )
        if bad
    ]


def _inner(facts: ModelFacts) -> int:
    return facts.intermediate_size if facts.experts is None else facts.experts.moe_intermediate_size


def _check_engine_model(recipe: Recipe, role: str, facts: ModelFacts, limits: LimitsSpec) -> None:
    """Refuse what the model class of an engine would compute otherwise."""
    row = ENGINE_MODELS.get(facts.family)
    place = (role, "model")
    if row is None:
        fix = f"a model of {', '.join(ENGINE_MODELS)}, or flow: serve"
        raise refused(recipe, place, f"family {facts.family}", "specc writes no engine checkpoint of it", fix)
    window = min((layer.window for layer in facts.layers if layer.window), default=0)
    if window and not row.windows and limits.max_length > window:
        got = f"a sliding window of {window} tokens, and texts of {limits.max_length}"
        fix = f"limits of {window} tokens together, or flow: serve"
        raise refused(recipe, ("limits", "max_input"), got, f"{row.architecture} attends to the whole text there", fix)
    if facts.rope.scaling not in ROPES:
        got, fix = f"rotary scaling {facts.rope.scaling}", "flow: serve"
        raise refused(recipe, place, got, f"engines are written with {', '.join(ROPES)}", fix)
    stated = (facts.attention_bias, facts.attention_output_bias)
    if stated not in _allowed_biases(row) or facts.mlp_bias:
        got = f"biases on q, k, v: {stated[0]}, on the output: {stated[1]}, on the feed-forward block: {facts.mlp_bias}"
        raise refused(recipe, place, got, f"{row.architecture} has them on {row.biases}", "flow: serve")


def _allowed_biases(row: TrtllmModelRow) -> tuple[tuple[bool, bool], ...]:
    return {
        "all": ((False, False), (True, True)),
        "inputs": ((True, False), (False, False)),
        "none": ((False, False),),
    }[row.biases]
