"""config.json of a TensorRT-LLM checkpoint.

Unknown keys are tolerated at the top, and raise inside `quantization` and `mapping`. Keys whose default would be wrong
are always written: hidden_act is gelu there, position_embedding_type learned_absolute.
"""

from __future__ import annotations

from typing import Any, Final

from specc.backends.tensorrt_llm.layout import Layout, parallel_embedding
from specc.catalog.trtllm_models import ENGINE_MODELS
from specc.checkpoint.facts import ModelFacts, RopeFacts
from specc.plan.trtllm_plan import TrtllmModelPlan

CONFIG_FILE: Final = "config.json"
DTYPE_NAMES: Final = {"f16": "float16", "bf16": "bfloat16"}
CLAMP: Final = (-1200.0, 1200.0)
"""What weights are cut to before fp8 rows are scaled; TensorRT-LLM cuts activations to it too."""
RENORMALIZE: Final = 1
QUANT_ALGOS: Final = {
    ("fp8 rows", "fp8"): "FP8_PER_CHANNEL_PER_TOKEN",
    ("stored", "fp8"): "FP8",
    ("stored", "w4a16"): "W4A16_AWQ",
    ("at build", "w8a16"): "W8A16",
    ("at build", "w4a16"): "W4A16",
}


def config_from_layout(layout: Layout) -> dict[str, Any]:
    """Return the content of config.json."""
    facts, plan = layout.facts, layout.plan
    row = ENGINE_MODELS[facts.family]
    further = {"llama": _llama_keys, "qwen": _qwen_keys, "gemma": _gemma_keys}[row.config_class]
    return {
        "architecture": row.architecture,
        "dtype": DTYPE_NAMES[plan.dtype],
        "logits_dtype": "float32",
        "vocab_size": facts.vocab_size,
        "hidden_size": facts.hidden_size,
        "intermediate_size": facts.intermediate_size,
        "num_hidden_layers": facts.num_hidden_layers,
        "num_attention_heads": facts.num_attention_heads,
        "num_key_value_heads": facts.num_key_value_heads,
        "head_size": facts.head_dim,
        "norm_epsilon": facts.rms_norm_eps,
        "hidden_act": "swiglu" if facts.experts is not None else facts.hidden_act,
        "max_position_embeddings": facts.max_position_embeddings,
        "position_embedding_type": "rope_gpt_neox",
        "qk_layernorm": facts.norms.query_key != "none",
        "use_parallel_embedding": parallel_embedding(layout),
        "embedding_sharding_dim": 0,
        "rotary_base": facts.rope.theta,
        "rotary_scaling": rotary_scaling(facts.rope),
        "attn_bias": facts.attention_bias,
        "mlp_bias": facts.mlp_bias,
        **further(facts),
        "mapping": _mapping(facts, plan),
        "quantization": _quantization(plan),
    }


def rotary_scaling(rope: RopeFacts) -> dict[str, Any] | None:
    """Return `rope_scaling` as Hugging Face states it, with both names of the kind's key."""
    if rope.scaling == "none":
        return None
    scaling: dict[str, Any] = {"type": rope.scaling, "rope_type": rope.scaling, "factor": rope.factor}
    if rope.scaling in ("llama3", "yarn"):
        scaling["original_max_position_embeddings"] = rope.original_max_position_embeddings
    if rope.scaling == "llama3":
        scaling |= {"low_freq_factor": rope.low_freq_factor, "high_freq_factor": rope.high_freq_factor}
    if rope.yarn is not None:
        scaling |= {"beta_fast": rope.yarn.beta_fast, "beta_slow": rope.yarn.beta_slow}
        scaling["attention_factor"] = rope.attention_factor
    return scaling


def _llama_keys(facts: ModelFacts) -> dict[str, Any]:
    experts = facts.experts
    moe = {"num_experts": 0, "top_k": 0, "normalization_mode": RENORMALIZE}
    if experts is not None:
        moe |= {"num_experts": experts.num_experts, "top_k": experts.num_experts_per_tok}
    return {"residual_mlp": False, "disable_weight_only_quant_plugin": False, "moe": moe}


def _qwen_keys(facts: ModelFacts) -> dict[str, Any]:
    return {
        "qwen_type": facts.family,
        "seq_length": 8192,
        "use_logn_attn": False,
        "disable_weight_only_quant_plugin": False,
        "moe_intermediate_size": 0,
        "moe_shared_expert_intermediate_size": 0,
        "num_labels": 1,
    }


def _gemma_keys(facts: ModelFacts) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "share_embedding_table": True,
        "inter_layernorms": facts.norms.placement == "around",
        "query_pre_attn_scalar": _scalar(facts),
        "final_logit_softcapping": facts.scales.final_logit_softcapping,
        "attn_logit_softcapping": facts.scales.attn_logit_softcapping,
    }
    if facts.local_rope is not None:
        windows = [layer.window for layer in facts.layers]
        keys |= {
            "sliding_window": max(windows, default=facts.max_position_embeddings),
            "sliding_window_pattern": windows.index(0) + 1 if 0 in windows else facts.num_hidden_layers + 1,
            "rope_local_base_freq": facts.local_rope.theta,
        }
    return keys


def _scalar(facts: ModelFacts) -> int | float:
    """Return what scores are divided by the root of."""
    multiplier = facts.scales.attention_multiplier
    scalar = float(facts.head_dim) if multiplier is None else round(multiplier**-2, 6)
    return int(scalar) if scalar.is_integer() else scalar


def _mapping(facts: ModelFacts, plan: TrtllmModelPlan) -> dict[str, int]:
    mapping = {"world_size": plan.world_size, "tp_size": plan.tp_size, "pp_size": plan.pp_size}
    return mapping if facts.experts is None else mapping | {"moe_tp_size": plan.tp_size, "moe_ep_size": 1}


def _quantization(plan: TrtllmModelPlan) -> dict[str, Any]:
    """Return the quantization; without a list of excluded modules TensorRT-LLM's own holds: head, router, embedding."""
    algo = QUANT_ALGOS.get((plan.weights, plan.scheme))
    keys: dict[str, Any] = {"quant_algo": algo, "kv_cache_quant_algo": "FP8" if plan.kv_cache == "fp8" else None}
    if plan.weights == "fp8 rows":
        keys["clamp_val"] = list(CLAMP)
    if plan.int4 is not None:
        keys |= {
            "group_size": plan.int4.group_size,
            "has_zero_point": plan.int4.zero_point,
            "pre_quant_scale": plan.int4.input_factors,
        }
    return keys
