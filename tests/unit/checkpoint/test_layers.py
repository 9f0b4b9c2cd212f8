"""Kinds of layers from configurations: as transformers' own configuration classes fill in absent keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

from specc.catalog.families import FAMILIES
from specc.checkpoint.facts import LayerFacts
from specc.checkpoint.layers import layers_from_config
from specc.checkpoint.values import Values
from specc.errors import SpeccError

COUNT, CONTEXT = 12, 4096
FULL, NEAR = LayerFacts(0, "main", experts=False), LayerFacts(64, "main", experts=False)
LOCAL = LayerFacts(64, "local", experts=False)


def layers(family: str, **keys: object) -> tuple[LayerFacts, ...]:
    return layers_from_config(Values(Path("config.json"), keys), FAMILIES[family], COUNT, CONTEXT)


def pattern(found: tuple[LayerFacts, ...]) -> list[str]:
    return ["sliding_attention" if layer.window else "full_attention" for layer in found or [FULL] * COUNT]


@pytest.mark.parametrize(
    ("family", "config", "keys"),
    [
        ("qwen2", "Qwen2Config", {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 5}),
        ("qwen2", "Qwen2Config", {"sliding_window": 64, "max_window_layers": 5}),
        ("qwen3", "Qwen3Config", {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}),
        ("gemma2", "Gemma2Config", {"sliding_window": 64}),
        ("gemma3", "Gemma3TextConfig", {"sliding_window": 64}),
        ("gemma3", "Gemma3TextConfig", {"sliding_window": 64, "sliding_window_pattern": 3}),
        ("smollm3", "SmolLM3Config", {"use_sliding_window": True, "sliding_window": 64}),
        ("smollm3", "SmolLM3Config", {"sliding_window": 64}),
    ],
)
def test_windows_are_where_transformers_puts_them(family: str, config: str, keys: dict[str, Any]) -> None:
    expected = getattr(transformers, config)(num_hidden_layers=COUNT, **keys)
    assert pattern(layers(family, **keys)) == expected.layer_types
    stated = keys | {"layer_types": expected.layer_types}
    assert layers(family, **stated) == layers(family, **keys)


def test_families_with_one_kind_of_attention() -> None:
    assert layers("mistral", sliding_window=64) == (NEAR,) * COUNT
    assert layers("mistral", sliding_window=None) == ()
    assert layers("mistral", sliding_window=CONTEXT) == (), "it hides nothing"
    assert layers_from_config(Values(Path("c"), {}), FAMILIES["mistral"], 2, 32768)[1].window == 4096
    assert layers("phi3") == ()
    assert layers("qwen3moe", sliding_window=64, mlp_only_layers=[2], decoder_sparse_step=2)[1:4] == (
        LayerFacts(0, "main", experts=True),
        FULL,
        LayerFacts(0, "main", experts=True),
    )


def test_layers_with_a_rotary_embedding_of_their_own_stay_even_where_the_window_hides_nothing() -> None:
    assert layers("gemma3", sliding_window=64)[4:6] == (LOCAL, FULL)
    wide = layers("gemma3", sliding_window=CONTEXT)
    assert wide[4:6] == (LayerFacts(0, "local", experts=False), FULL)


def test_layers_without_rotary_embedding() -> None:
    ropes = [layer.rope for layer in layers("smollm3")]
    assert ropes == ["main", "main", "main", "none"] * 3
    assert [layer.rope for layer in layers("smollm3", no_rope_layer_interval=2)] == ["main", "none"] * 6
    stated = layers("smollm3", no_rope_layers=[0] + [1] * 11)
    assert [layer.rope for layer in stated] == ["none"] + ["main"] * 11


@pytest.mark.parametrize(
    ("family", "keys", "code", "place"),
    [
        ("qwen3", {"layer_types": ["linear_attention"] * COUNT}, "SPC212", "layer_types"),
        ("qwen3", {"layer_types": ["full_attention"] * (COUNT - 1)}, "SPC210", "layer_types"),
        ("llama", {"layer_types": ["sliding_attention"] * COUNT}, "SPC212", "layer_types"),
        ("mistral", {"sliding_window": 64, "layer_types": ["full_attention"] * COUNT}, "SPC212", "layer_types"),
        ("granite", {"sliding_window": 64}, "SPC212", "sliding_window"),
        ("smollm3", {"no_rope_layers": [1]}, "SPC210", "no_rope_layers"),
        ("smollm3", {"no_rope_layers": ["yes"] * COUNT}, "SPC210", "no_rope_layers"),
        ("gemma3", {"sliding_window_pattern": 0}, "SPC210", "sliding_window_pattern"),
        ("mistral", {"sliding_window": -1}, "SPC210", "sliding_window"),
    ],
)
def test_what_cannot_be_built_is_refused(family: str, keys: dict[str, object], code: str, place: str) -> None:
    with pytest.raises(SpeccError) as caught:
        layers(family, **keys)
    assert caught.value.code == code
    assert caught.value.place == f"config.json {place}"
