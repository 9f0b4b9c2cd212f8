"""Rotary facts from both layouts of configurations, and from GGUF keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.catalog.families import FAMILIES
from specc.checkpoint.facts import RopeFacts
from specc.checkpoint.gguf_rope import rope_from_metadata
from specc.checkpoint.rope import rope_from_config
from specc.checkpoint.values import Values
from specc.errors import SpeccError

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def rope(**config: object) -> RopeFacts:
    values = Values(Path("config.json"), {"max_position_embeddings": 512} | config)
    return rope_from_config(values, FAMILIES["llama"], 64)


def test_both_layouts_mean_the_same() -> None:
    expected = RopeFacts(5e5, "llama3", 8.0, 1.0, 4.0, 8192)
    assert rope(rope_theta=5e5, rope_scaling={"rope_type": "llama3", **LLAMA3}) == expected
    assert rope(rope_theta=5e5, rope_scaling={"type": "llama3", **LLAMA3}) == expected
    assert rope(rope_parameters={"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}) == expected
    both = {"rope_type": "llama3", **LLAMA3}
    assert rope(rope_theta=5e5, rope_scaling=both, rope_parameters=both) == expected


def test_unscaled_and_linear() -> None:
    assert rope() == RopeFacts(10000.0, "none", 1.0, 1.0, 1.0, 0)
    assert rope(rope_theta=3, rope_scaling=None).theta == 3.0
    assert rope(rope_parameters={"rope_type": "default", "rope_theta": 7.0}).theta == 7.0
    assert rope(rope_scaling={"type": "linear", "factor": 2}) == RopeFacts(10000.0, "linear", 2.0, 1.0, 1.0, 0)


@pytest.mark.parametrize(
    ("config", "code", "place"),
    [
        ({"rope_scaling": {"type": "ntk", "factor": 4.0}}, "SPC212", "rope_scaling.type"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "SPC212", "rope_scaling.rope_type"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "SPC210", "rope_parameters.short_factor"),
        (
            {"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 32, "long_factor": [1.0] * 31}},
            "SPC210",
            "rope_scaling.long_factor",
        ),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 0}}, "SPC210", "rope_scaling.beta_fast"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "SPC212", "rope_parameters.full_attention"),
        ({"partial_rotary_factor": 0.5}, "SPC212", "partial_rotary_factor"),
        ({"rope_parameters": {"partial_rotary_factor": 0.25}}, "SPC212", "rope_parameters.partial_rotary_factor"),
        ({"rope_theta": "big"}, "SPC210", "rope_theta"),
        ({"rope_theta": 0}, "SPC210", "rope_theta"),
        ({"rope_theta": float("inf")}, "SPC210", "rope_theta"),
        ({"rope_scaling": [1]}, "SPC210", "rope_scaling"),
        ({"rope_scaling": {"type": "linear"}}, "SPC210", "rope_scaling.factor"),
        ({"rope_scaling": {"type": "llama3", **LLAMA3, "high_freq_factor": 1.0}}, "SPC210", "high_freq_factor"),
        (
            {"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_type": "default"}},
            "SPC210",
            "rope_parameters",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(config: dict[str, object], code: str, place: str) -> None:
    with pytest.raises(SpeccError) as caught:
        rope(**config)
    assert caught.value.code == code
    assert caught.value.place.endswith(place)


def gguf_rope(**keys: object) -> RopeFacts:
    metadata = {f"llama.rope.{key.replace('__', '.')}": value for key, value in keys.items()}
    return rope_from_metadata(Values(Path("m.gguf"), metadata), "llama.", FAMILIES["llama"], 64, {})


def test_gguf_keys() -> None:
    assert gguf_rope(freq_base=float.fromhex("0x1.86a0p+16")) == RopeFacts(100000.0, "none", 1.0, 1.0, 1.0, 0)
    assert gguf_rope(scaling__type="linear", scaling__factor=4.0) == RopeFacts(10000.0, "linear", 4.0, 1.0, 1.0, 0)
    assert gguf_rope(scale_linear=4.0).scaling == "linear"
    assert gguf_rope(scaling__type="none", scaling__factor=4.0).scaling == "none"
    for keys in ({"scaling__type": "ntk", "scaling__factor": 4.0}, {"dimension_count": 32}):
        with pytest.raises(SpeccError) as caught:
            gguf_rope(**keys)
        assert caught.value.code == "SPC212"
