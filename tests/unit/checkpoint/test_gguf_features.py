"""Keys of single families in GGUF metadata, and what llama.cpp fixes in its code instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.catalog.families import FAMILIES
from specc.checkpoint.facts import ScaleFacts
from specc.checkpoint.gguf_features import keys_from_family, layers_from_metadata, scales_from_metadata
from specc.checkpoint.values import Values
from specc.errors import SpeccError

SIZES = {"hidden_size": 4608, "num_attention_heads": 32, "head_dim": 128, "num_hidden_layers": 46}


def metadata(**keys: object) -> Values:
    return Values(Path("m.gguf"), {f"a.{key.replace('__', '.')}": value for key, value in keys.items()})


def windows(family: str, count: int, **keys: object) -> list[int]:
    values = metadata(context_length=8192, **keys)
    found = layers_from_metadata(values, "a.", FAMILIES[family], count)
    return [layer.window for layer in found] or [0] * count


def test_windows() -> None:
    assert windows("gemma2", 4, attention__sliding_window=64) == [64, 0, 64, 0]
    assert windows("gemma2", 2) == [4096, 0], "llama.cpp's default"
    assert windows("gemma3", 7, attention__sliding_window=64) == [64] * 5 + [0, 64]
    assert windows("phi3", 2, attention__sliding_window=64) == [64, 64]
    assert windows("phi3", 2, attention__sliding_window=0) == [0, 0]
    assert windows("gemma2", 2, attention__sliding_window=64, attention__sliding_window_pattern=2) == [64, 0]
    with pytest.raises(SpeccError, match="sliding_window_pattern") as caught:
        windows("gemma3", 7, attention__sliding_window=64, attention__sliding_window_pattern=[True, False])
    assert caught.value.code == "SPC212"


def test_the_largest_gemma_divides_scores_by_another_number() -> None:
    large = scales_from_metadata(metadata(), "a.", FAMILIES["gemma2"], SIZES)
    assert large.attention_multiplier == pytest.approx(144**-0.5, rel=1e-12)
    small = scales_from_metadata(metadata(), "a.", FAMILIES["gemma2"], SIZES | {"num_hidden_layers": 42})
    assert small.attention_multiplier == pytest.approx(128**-0.5, rel=1e-12)


def test_multipliers_are_the_decimals_that_the_configuration_had() -> None:
    values = metadata(
        embedding_scale=12.0, residual_scale=0.2199999988079071, attention__scale=0.0078125, logit_scale=8.0
    )
    assert scales_from_metadata(values, "a.", FAMILIES["granite"], SIZES) == ScaleFacts(12.0, 0.22, 0.0078125, 8.0)


def test_a_family_reads_only_its_own_keys() -> None:
    assert keys_from_family(FAMILIES["llama"]) == {"rope.scaling.attn_factor"}
    assert "expert_count" in keys_from_family(FAMILIES["qwen3moe"])
    assert "attention.sliding_window" not in keys_from_family(FAMILIES["qwen3"])
