"""The verification of the target graph, after each back end's passes and compiled, through the checks of the law."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.graph.verify import verify_graph
from specc.lower.passes import apply_passes
from specc.plan.plan import GraphPlan
from specc.speculation.sampling import SamplingRows
from tests.sampling_law import (
    CANDIDATES,
    FALSE_ALARM,
    LOGITS,
    SEEDS,
    SETTINGS,
    TIED,
    Sampler,
    Setting,
    adjacent_rows_p,
    batch_rows_p,
    differs_from_oracle,
    differs_from_single_calls,
    marginal_p,
    mixed_batch,
)

LOWERINGS = ("canonical", "onnxruntime", "tensorrt-rtx")


@cache
def compiled(lowering: str, vocab_size: int) -> onnxruntime.InferenceSession:
    plan = GraphPlan("f32", 64, (64,), 8, "coupled", CANDIDATES, (), ("main",))
    model = verify_graph(plan, vocab_size)
    if lowering != "canonical":
        apply_passes(model, plan, lowering)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def compiled_sampler(lowering: str) -> Sampler:
    """Return the compiled verification as a sampler of chains: a call reveals the picks up to its first rejection.

    Row 0 is the anchor. Each pass drafts what the passes before it revealed, so pass j reveals row j.
    """

    def sampler(logits: np.ndarray, sampling: SamplingRows, positions: np.ndarray) -> np.ndarray:
        batch, rows, width = logits.shape
        past = positions[:, 0] - 1
        np.testing.assert_array_equal(positions, past[:, None] + np.arange(rows) + 1)
        picks = np.zeros((batch, rows), dtype=np.int64)
        for known in range(rows):
            feeds = {
                "logits": logits,
                "input_ids": np.concatenate([np.zeros((batch, 1), dtype=np.int64), picks[:, : rows - 1]], axis=1),
                "num_tokens": np.full(batch, rows),
                "past_lengths": past,
                "logit_rows": np.tile(np.arange(rows), (batch, 1)),
                "num_draft": np.full(batch, known),
                "temperature": sampling.temperature,
                "top_k": sampling.top_k,
                "top_p": sampling.top_p,
                "min_p": sampling.min_p,
                "seed": sampling.seed,
            }
            tokens, accepted = compiled(lowering, width).run(["tokens", "num_accepted"], feeds)
            assert (accepted == known).all()
            picks[:, known] = tokens[:, known]
        return picks

    return sampler


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("logits", [LOGITS, TIED], ids=["distinct", "tied"])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_compiled_verification_has_the_stated_law(lowering, logits, name):
    assert marginal_p(compiled_sampler(lowering), logits, SETTINGS[name]) > FALSE_ALARM


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_its_positions_and_seeds_are_independent(lowering):
    sampler = compiled_sampler(lowering)
    assert adjacent_rows_p(sampler, LOGITS, Setting(), SEEDS, CANDIDATES) > FALSE_ALARM
    assert batch_rows_p(sampler, LOGITS, Setting(), SEEDS, CANDIDATES) > FALSE_ALARM


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_it_picks_as_the_oracle_alone_and_in_a_batch(lowering):
    sampler = compiled_sampler(lowering)
    wrong, near = differs_from_oracle(sampler, *mixed_batch(), candidates=CANDIDATES, epsilon=1e-5)
    assert (wrong, near) == (0, 0)
    assert differs_from_single_calls(sampler, *mixed_batch()) == 0
