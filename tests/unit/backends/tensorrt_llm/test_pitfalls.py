"""What broke for others, as their reports tell it: each is a rule that the files must keep."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from ml_dtypes import float8_e4m3fn

from specc.backends.tensorrt_llm.config import config_from_layout
from specc.backends.tensorrt_llm.layout import layout_from_facts, rank_tensors, ranks_of
from specc.backends.tensorrt_llm.pieces import RankTensor
from specc.backends.tensorrt_llm.values import cut_rows, fp8_codes, row_scales
from specc.plan.trtllm_plan import Int4Groups
from tests.published_speedups import llama_like
from tests.rank_files import model_plan

LLAMA = llama_like(256, 512, 5, (8, 2), 1003)


def tensors_of(facts: Any = LLAMA, **plan: Any) -> list[dict[str, RankTensor]]:
    made = model_plan(**plan)
    layout = layout_from_facts(facts, made)
    return [{tensor.name: tensor for tensor in rank_tensors(layout, rank)} for rank in ranks_of(made)]


def config_of(facts: Any = LLAMA, **plan: Any) -> dict[str, Any]:
    return config_from_layout(layout_from_facts(facts, model_plan(**plan)))


def test_values_beyond_the_range_of_fp8_end_there() -> None:
    """A plain cast makes 465 and more a NaN; 464 is the last that rounds to 448."""
    assert np.isnan(np.array([465.0], np.float32).astype(float8_e4m3fn).astype(np.float32)).all()
    values = np.array([[465.0, -1000.0, 448.0, 0.0]], np.float32)
    codes = fp8_codes(values, np.ones(1, np.float32)).astype(np.float32)
    assert codes.tolist() == [[448.0, -448.0, 448.0, 0.0]]


def test_rows_of_zeros_have_a_scale_and_outliers_are_cut() -> None:
    values = cut_rows(np.array([[0.0, 0.0], [5000.0, -600.0]], np.float32))
    assert values.tolist() == [[0.0, 0.0], [1200.0, -600.0]]
    assert row_scales(values).tolist() == pytest.approx([1 / (448 * 512), 1200 / 448])
    assert np.isfinite(fp8_codes(values, row_scales(values)).astype(np.float32)).all()


@pytest.mark.parametrize("tp", [2, 4])
def test_a_vocabulary_that_does_not_divide_pads_the_head_and_not_the_configuration(tp: int) -> None:
    each = -(-1003 // tp)
    ranks = tensors_of(tp_size=tp)
    assert {rank["lm_head.weight"].shape[0] for rank in ranks} == {each}
    assert [piece.source for piece in ranks[-1]["lm_head.weight"].pieces] == ["lm_head.weight", None]
    assert config_of(tp_size=tp)["vocab_size"] == 1003


def test_codes_of_4_bits_pad_no_vocabulary() -> None:
    """Heads stay plain, so nothing needs multiples of 64; a configuration of 1024 would ask for other heads."""
    int4 = {"weights": "stored", "scheme": "w4a16", "int4": Int4Groups(64, zero_point=False, input_factors=False)}
    (rank,) = tensors_of(llama_like(256, 512, 1, (8, 8), 1003), **int4)
    assert rank["lm_head.weight"].shape == rank["transformer.vocab_embedding.weight"].shape == (1003, 256)
    assert config_of(llama_like(256, 512, 1, (8, 8), 1003), **int4)["vocab_size"] == 1003


def test_no_list_of_excluded_modules_is_written() -> None:
    """A list replaces TensorRT-LLM's own, and would then quantize routers."""
    for changes in ({}, {"weights": "fp8 rows", "scheme": "fp8"}, {"weights": "at build", "scheme": "w4a16"}):
        assert "exclude_modules" not in config_of(**changes)["quantization"]


def test_what_the_builder_quantizes_is_written_plain() -> None:
    """A scale beside it, or its absence beside codes, is what `per_channel_scale` errors tell of."""
    for scheme, algorithm in (("w8a16", "W8A16"), ("w4a16", "W4A16")):
        (rank,) = tensors_of(weights="at build", scheme=scheme)
        assert config_of(weights="at build", scheme=scheme)["quantization"]["quant_algo"] == algorithm
        assert {tensor.dtype for tensor in rank.values()} == {"bf16"}
        assert not any("scale" in name for name in rank)


def test_a_tied_head_is_written() -> None:
    tied = dataclasses.replace(LLAMA, tie_word_embeddings=True)
    first, second = tensors_of(tied, pp_size=2)
    assert second["lm_head.weight"].pieces[0].source == "model.embed_tokens.weight"
    assert "transformer.vocab_embedding.weight" in first
    assert "transformer.vocab_embedding.weight" not in second


def test_layers_of_every_stage_begin_at_0_and_the_first_stages_have_more() -> None:
    counts = [len({name.split(".")[2] for name in rank if ".layers." in name}) for rank in tensors_of(pp_size=3)]
    assert counts == [2, 2, 1]
    assert all("transformer.layers.0.mlp.fc.weight" in rank for rank in tensors_of(pp_size=3))


def test_keys_that_would_default_wrongly_are_written() -> None:
    config = config_of()
    assert (config["hidden_act"], config["position_embedding_type"]) == ("silu", "rope_gpt_neox")
    assert (config["intermediate_size"], config["head_size"], config["logits_dtype"]) == (512, 32, "float32")
    assert "rank" not in config["mapping"]
    assert set(config["quantization"]) <= {"quant_algo", "kv_cache_quant_algo", "clamp_val"}
