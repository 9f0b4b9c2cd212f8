"""Whether TensorRT-LLM takes a model in a flow, and how the model is laid out for it."""

from __future__ import annotations

from typing import Final, Literal

from specc.bundle.manifest import LimitsSpec
from specc.catalog.schemes import PLAIN
from specc.catalog.trtllm_models import ENGINE_MODELS, SERVE_FAMILIES, TrtllmModelRow
from specc.catalog.trtllm_versions import Flow
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.plan.trtllm_plan import TrtllmModelPlan
from specc.recipe.models import ModelChoice
from specc.recipe.schema import Recipe

ROPES: Final = ("none", "linear", "llama3", "yarn")
STORED_FP8: Final = "fp8_e4m3"
INT4_GROUP: Final = 128


def refused(recipe: Recipe, path: tuple[str, ...], got: str, why: str, fix: str) -> SpeccError:
    """Return SPC324 for a field of the recipe."""
    return SpeccError("SPC324", recipe.place(*path), got, why, fix)


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
    static_scales: bool,
    shards: bool,
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
        static_scales: every matrix of the checkpoint has a scale of its weights and one of its inputs.
        shards: its weights lie in safetensors files.

    Raises:
        SpeccError: SPC324 TensorRT-LLM does not take the model so; SPC345 it cannot be split over the GPUs.
    """
    tp_size, pp_size = sizes
    _check_split(recipe, role, facts, tp_size, pp_size)
    if flow == "engine":
        _check_engine_model(recipe, role, facts, limits)
    elif facts.family not in SERVE_FAMILIES:
        got, fix = f"family {facts.family}", f"a model of {', '.join(SERVE_FAMILIES)}"
        raise refused(recipe, (role, "model"), got, "TensorRT-LLM's PyTorch back end has no such model", fix)
    dtype: Literal["f16", "bf16"] = "f16" if scheme == "f16" else "bf16"
    weights = _weights(
        recipe, role, facts, scheme=scheme, flow=flow, static_scales=static_scales, shards=shards, tp_size=tp_size
    )
    return TrtllmModelPlan(
        layout="ranks" if flow == "engine" else "source" if weights in ("plain", "stored") else "modelopt",
        dtype=dtype,
        weights=weights,
        scheme=scheme,
        kv_cache=_cache(recipe, role, choice, scheme=scheme, dtype=dtype, flow=flow),
        tp_size=tp_size,
        pp_size=pp_size,
    )


def has_static_scales(source: SourceCheckpoint) -> bool:
    """Return whether every projection has one scale of its weights and one of its inputs, as ModelOpt calibrates."""
    projections = [header for name, header in source.headers.items() if name.endswith("_proj.weight")]
    return bool(projections) and all(
        header.packed is not None
        and header.packed.layout == "rows"
        and header.packed.format is not None
        and header.packed.format.granularity == "tensor"
        and {"weight_scale", "input_scale"} <= set(header.packed.tensors)
        for header in projections
    )


def has_shards(source: SourceCheckpoint) -> bool:
    """Return whether all weights lie in safetensors files: a GGUF file is no part of a Hugging Face checkpoint."""
    return all(header.file.suffix == ".safetensors" for header in source.headers.values())


def _weights(
    recipe: Recipe,
    role: str,
    facts: ModelFacts,
    *,
    scheme: str,
    flow: Flow,
    static_scales: bool,
    shards: bool,
    tp_size: int,
) -> Literal["plain", "at build", "fp8 rows", "int4 groups", "stored"]:
    """Decide how the weights get from what the checkpoint stores to the scheme."""
    stored = facts.stored_dtype
    plain = stored in PLAIN
    if flow == "serve":
        if scheme == stored or (stored == STORED_FP8 and scheme == "fp8"):
            return "plain" if plain else "stored"
        if plain and scheme == "fp8" and shards and facts.experts is None:
            return "fp8 rows"
        if plain and scheme == "w4a16" and shards and facts.experts is None:
            _check_groups(recipe, role, facts, tp_size)
            return "int4 groups"
        why = (
            "the serve flow places the checkpoint's own files, or quantizes plain ones to fp8 by rows or w4a16, which "
            "need no calibration; experts and GGUF files it does not quantize"
        )
        fix = f"{role}.scheme: {'fp8' if stored == STORED_FP8 else stored}, or a checkpoint that stores {scheme}"
        raise refused(recipe, (role, "scheme"), f"scheme {scheme} of a checkpoint that stores {stored}", why, fix)
    experts = facts.experts is not None
    if stored == STORED_FP8 and scheme == "fp8" and static_scales and not experts:
        return "stored"
    if not plain:
        why = "the engine flow takes plain weights, or fp8 with one scale of weights and one of inputs for each matrix"
        fix = f"the unquantized checkpoint of the same model, with {role}.scheme: fp8, or flow: serve"
        raise refused(recipe, (role, "model"), f"a checkpoint that stores {stored}", why, fix)
    if scheme == "fp8" and experts:
        why = "TensorRT-LLM has no fp8 by rows for experts"
        raise refused(recipe, (role, "scheme"), "scheme fp8 of a mixture of experts", why, f"{role}.scheme: bf16")
    if scheme in PLAIN:
        return "plain"
    return "fp8 rows" if scheme == "fp8" else "at build"


def _check_groups(recipe: Recipe, role: str, facts: ModelFacts, tp_size: int) -> None:
    """Refuse matrices whose inputs, as each GPU holds them, are not whole groups of 128."""
    inputs = {
        "hidden_size": facts.hidden_size,
        "the heads' outputs of a GPU": facts.num_attention_heads * facts.head_dim // tp_size,
        "intermediate_size of a GPU": facts.intermediate_size // tp_size,
    }
    uneven = [f"{name} {size}" for name, size in inputs.items() if size % INT4_GROUP]
    if uneven:
        got, why = f"scheme w4a16 with {', '.join(uneven)}", f"TensorRT-LLM's int4 has groups of {INT4_GROUP} inputs"
        raise refused(recipe, (role, "scheme"), got, why, f"{role}.scheme: fp8, or fewer GPUs")


def _cache(recipe: Recipe, role: str, choice: ModelChoice, *, scheme: str, dtype: str, flow: Flow) -> str:
    """Return the dtype of the caches, refusing the one that costs an engine its paged-context attention."""
    cache = choice.kv_cache or dtype
    if cache == "fp8" and flow == "engine" and scheme != "fp8":
        why = (
            "trtllm-build then switches paged-context attention off without a word, which drafts from a draft engine "
            "and reused prefixes need"
        )
        got = f"caches of fp8 beside weights of {scheme}"
        raise refused(recipe, (role, "kv_cache"), got, why, f"kv_cache: {dtype}, or {role}.scheme: fp8")
    return cache


def _check_split(recipe: Recipe, role: str, facts: ModelFacts, tp_size: int, pp_size: int) -> None:
    kv = facts.num_key_value_heads
    uneven = [
        f"{name} {value}"
        for name, value, bad in (
            ("num_attention_heads", facts.num_attention_heads, facts.num_attention_heads % tp_size),
            ("num_key_value_heads", kv, kv % tp_size if kv >= tp_size else tp_size % kv),
            ("intermediate_size", _inner(facts), _inner(facts) % tp_size),
        )
        if bad
    ]
    if uneven:
        got, why = f"{', '.join(uneven)} over {tp_size} GPUs", "each GPU holds an equal part of every matrix"
        raise SpeccError("SPC345", recipe.place("gpu", "count"), f"the {role}: {got}", why, "another gpu.count")
    if facts.num_hidden_layers < pp_size:
        got = f"{facts.num_hidden_layers} layers of the {role} in {pp_size} stages"
        raise refused(recipe, ("backend", "pp_size"), got, "each stage holds a layer at least", "a smaller pp_size")


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
