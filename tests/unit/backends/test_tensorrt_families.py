"""Engines of tiny models of other families than Llama, built by the installed TensorRT-RTX without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_file import attention_kernels
from specc.errors import SpeccBug
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.progress import silent
from tests.tensorrt_double import rtx_plan, rtx_profiles
from tests.tiny_engines import plan_from_facts, tiny_graph_plan
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family, opened

GRAPH = {
    "compute_dtype": "f16",
    "capacity": 128,
    "capacity_buckets": (128,),
    "max_logit_rows": 5,
    "acceptance": "greedy",
    "variants": ("main",),
}
FAMILIES = {
    "window, part of each head, fused tensors": TinyFamily(
        "Phi3Config",
        "Phi3ForCausalLM",
        {
            "head_dim": ...,
            "num_hidden_layers": 1,
            "sliding_window": 37,
            "rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.75},
        },
    ),
    "four norms, GELU, two rotary embeddings, capped logits": TinyFamily(
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {
            "num_hidden_layers": 2,
            "sliding_window": 37,
            "sliding_window_pattern": 2,
            "final_logit_softcapping": 20.0,
            "tie_word_embeddings": True,
        },
    ),
}
EXPERTS = TinyFamily(
    "Qwen3MoeConfig",
    "Qwen3MoeForCausalLM",
    {"num_hidden_layers": 1, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
)


def build(family: TinyFamily, folder: Path) -> Path:
    source = opened(folder_from_model(model_from_family(family), folder / "source"))
    plan = rtx_plan(plan_from_facts(source.facts, tiny_graph_plan(**GRAPH)), rtx_profiles(4, 32, 4), sms=("8.9",))
    for name in ("lowered", "engines"):
        (folder / name).mkdir()
    lowered = lowered_from_plan(plan, source, folder / "lowered", silent)
    (spec,) = TensorRtBackend().engines_from_lowered(lowered, plan, folder / "engines", link_or_copy, silent)
    return folder / "engines" / spec.file


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_builds_with_fused_attention(name: str, tmp_path: Path) -> None:
    assert set(attention_kernels(build(FAMILIES[name], tmp_path))) == {"_gemm_mha_v2", "_gemv_mha_v1"}


def test_a_graph_of_experts_does_not_reach_the_parser(tmp_path: Path) -> None:
    with pytest.raises(SpeccBug, match="NonZero"):
        build(EXPERTS, tmp_path)
