"""Rotary scaling read from configurations and GGUF tensors gives transformers' frequencies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from specc.catalog.families import FAMILIES
from specc.checkpoint.facts import RopeFacts
from specc.checkpoint.gguf_names import ROPE_FACTORS
from specc.checkpoint.gguf_rope import llama3_factors, rope_from_metadata
from specc.checkpoint.rope import rope_from_config
from specc.checkpoint.values import Values
from specc.errors import SpeccError

HEAD_DIM = 128
LLAMA_31 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
SCALINGS = [LLAMA_31, LLAMA_31 | {"factor": 32.0}]
RTOL = 2e-6
"""transformers computes in float32, a few operations of 2^-24 each."""


def values(**mapping: object) -> Values:
    return Values(Path("m"), mapping)


def from_factors(metadata: Values, factors: np.ndarray) -> RopeFacts:
    tensors = {ROPE_FACTORS: factors.astype(np.float32)}
    return rope_from_metadata(metadata, "llama.", FAMILIES["llama"], HEAD_DIM, tensors)


def inverse_frequencies(scaling: dict[str, object]) -> np.ndarray:
    config = LlamaConfig(
        head_dim=HEAD_DIM, max_position_embeddings=131072, rope_parameters=scaling | {"rope_theta": 5e5}
    )
    inverse, attention_factor = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    assert attention_factor == 1.0
    return inverse.numpy()


@pytest.mark.parametrize("scaling", SCALINGS)
def test_factors_give_the_frequencies_of_transformers(scaling: dict[str, object]) -> None:
    rope = rope_from_config(
        values(rope_theta=5e5, rope_scaling=scaling, max_position_embeddings=131072), FAMILIES["llama"], HEAD_DIM
    )
    plain = 5e5 ** -(np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    np.testing.assert_allclose(plain / llama3_factors(rope, HEAD_DIM), inverse_frequencies(scaling), rtol=RTOL, atol=0)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_gguf_factors_are_recognized(scaling: dict[str, object]) -> None:
    expected = rope_from_config(
        values(rope_theta=5e5, rope_scaling=scaling, max_position_embeddings=131072), FAMILIES["llama"], HEAD_DIM
    )
    plain = (5e5 ** -(np.arange(0, HEAD_DIM, 2, dtype=np.float32) / HEAD_DIM)).astype(np.float32)
    factors = plain / inverse_frequencies(scaling)
    # the conversion writes the ends of the range as they are stated
    for exact in (1.0, scaling["factor"]):
        factors[np.isclose(factors, exact, rtol=RTOL, atol=0)] = exact
    metadata = values(**{"llama.rope.freq_base": 5e5})
    assert from_factors(metadata, factors) == expected


def test_other_factors_are_refused() -> None:
    metadata = values(**{"llama.rope.freq_base": 5e5})
    for factors in (np.linspace(1, 8, 64), np.zeros(64), np.full(64, np.nan), np.ones(8)):
        with pytest.raises(SpeccError, match=r"rope_freqs\.weight") as caught:
            from_factors(metadata, factors)
        assert caught.value.code == "SPC212"
    ones = np.ones(64, dtype=np.float32)
    assert from_factors(metadata, ones).scaling == "none"
