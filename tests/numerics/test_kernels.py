"""Single kernels in Triton's interpreter: noise bit for bit, the kept ids of a row, and the fused head."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specc.plugin.operators import OPERATORS
from specc.speculation.noise import Stream, gumbel, noise_bits
from specc.speculation.sampling import SamplingRows, kept_candidates
from tests import kernel_noise
from tests.kernel_chain import TORCH, launched


@pytest.mark.parametrize("stream", Stream)
def test_noise_equals_the_oracle_bit_for_bit(stream: Stream) -> None:
    tokens = np.concatenate([np.arange(500), 2**31 - 1 - np.arange(12)])
    for seed, position in ((0, 0), (1, 65535), (2**32 - 1, 131072), (123456789, 2**32 - 1)):
        bits, values = kernel_noise.drawn(seed, position, tokens, stream)
        expected = noise_bits(np.array(seed), stream, np.array(position), tokens)
        np.testing.assert_array_equal(bits, expected)
        np.testing.assert_array_equal(values, gumbel(expected))


@pytest.mark.parametrize("levels", [0, 4])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_kept_ids_equal_the_oracles(dtype: str, levels: int) -> None:
    """Rows of every kind of truncation, in a vocabulary of more than one block, with 100 candidates."""
    rng, size, candidates = np.random.default_rng(0), 2500, 100
    logits = rng.integers(-levels, levels, (7, 1, size)) if levels else rng.standard_normal((7, 1, size)) * 3
    logits = torch.from_numpy(logits).to(TORCH[dtype])
    tensors = {"logits": torch.nn.functional.pad(logits, (0, 12), value=1000)}  # the head's padding
    logits = logits.float().numpy()
    sampling = SamplingRows(
        temperature=np.array([1, 1, 1, 0.5, 2, 1, 0], dtype=np.float32),
        top_k=np.array([0, 7, 0, 0, 40, 5000, 3]),
        top_p=np.array([1, 1, 0.3047, 1, 0.8713, 2, 0.5], dtype=np.float32),  # no rank ends on it
        min_p=np.array([0, 0, 0, 0.2, 0.01, 0, 0], dtype=np.float32),
        seed=np.zeros(7, dtype=np.int64),
    )
    tensors |= {name: torch.from_numpy(value) for name, value in vars(sampling).items()}
    launched(OPERATORS["RowThresholds"], tensors, dtype, vocab_size=size, candidates=candidates)  # type: ignore[arg-type]
    last_logit, last_id = (tensors[name].numpy()[..., None] for name in ("last_logit", "last_id"))
    ids = np.arange(size)
    kept = (logits > last_logit) | ((logits == last_logit) & (ids <= last_id))
    expected = kept_candidates(logits, sampling, candidates)
    expected[6] = True  # a greedy row is not truncated
    np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_the_fused_head_picks_as_a_product_and_partials_do(dtype: str) -> None:
    """Small integers multiply exactly, and tie everywhere; 300 ids of 320 are the tokenizer's."""
    rng = np.random.default_rng(1)
    hidden, weight = rng.integers(-2, 3, (2, 3, 72)), rng.integers(-1, 2, (320, 72))
    call = {
        "input_ids": rng.integers(0, 300, (2, 3)),
        "num_tokens": np.array([3, 2]),
        "past_lengths": np.array([5, 0]),
        "logit_rows": np.array([[0, 1, 2], [0, 1, 1]]),
        "num_draft": np.array([2, 1]),
    }
    picks = (hidden @ weight.T)[..., :300].argmax(axis=-1)
    call["input_ids"][0, 1], call["input_ids"][1, 1] = picks[0, 0], picks[1, 0]
    tensors = {name: torch.from_numpy(value) for name, value in call.items()}
    tensors |= {
        "hidden": torch.from_numpy(hidden).to(TORCH[dtype]),
        "weight": torch.from_numpy(weight).to(TORCH[dtype]),
    }
    for name in ("GreedyHeadPartials", "GreedyAccept"):
        constants = {"UPCAST": 1} if name == "GreedyHeadPartials" else {}
        launched(OPERATORS[name], tensors, dtype, vocab_size=300, candidates=0, **constants)  # type: ignore[arg-type]
    accepted = [1 + (call["input_ids"][0, 2] == picks[0, 1]), 1]
    np.testing.assert_array_equal(tensors["num_accepted"], accepted)
    for row, count in enumerate(accepted):
        np.testing.assert_array_equal(tensors["tokens"][row, : count + 1], picks[row, : count + 1])
    assert tensors["values"].shape == (2, 3, 3, 1), "three tiles of 128 ids"
