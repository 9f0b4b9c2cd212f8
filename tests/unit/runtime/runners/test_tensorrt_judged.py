"""The TensorRT runner over the double, for engines that weigh drafts: q has a static width there."""

from __future__ import annotations

import numpy as np
import pytest

from specc.runtime.runners.runner import Arrays
from specc.runtime.runners.tensorrt import TensorRtRunner
from specc.speculation.modes import DRAFT_SUPPORT
from tests.tensorrt_double import DoubleLibrary, lowered_for_rtx, rtx_plan, rtx_profiles
from tests.tiny_engines import tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama

GAMMA, CHUNK, SLOTS, CAPACITY = 3, 8, 3, 64
SIZE = DRAFT_SUPPORT  # of the vocabulary: a draft may be any id


def verify_call(rng: np.random.Generator, past: np.ndarray) -> Arrays:
    """Return a call of verify rows with up to GAMMA drafts, drawn from the q that it states."""
    drafts = rng.integers(0, GAMMA + 1, SLOTS)
    q_ids = np.full((SLOTS, GAMMA + 1, DRAFT_SUPPORT), -1)
    q_probs = np.zeros(q_ids.shape, dtype=np.float32)
    ids = rng.integers(0, SIZE, (SLOTS, GAMMA + 1))
    for b, j in np.ndindex(SLOTS, GAMMA):
        if j < drafts[b]:
            q_ids[b, j] = rng.permutation(SIZE)
            q = rng.dirichlet(np.full(DRAFT_SUPPORT, 20.0))
            q_probs[b, j], ids[b, j + 1] = q, rng.choice(q_ids[b, j], p=q)
    return {
        "input_ids": ids,
        "num_tokens": drafts + 1,
        "past_lengths": past,
        "logit_rows": np.minimum(np.arange(GAMMA + 1), drafts[:, None]),
        "num_draft": drafts,
        "temperature": rng.choice([0.0, 0.7, 100.0, 100.0], SLOTS).astype(np.float32),  # hot enough for q to be near p
        "top_k": rng.choice([0, 0, 0, 5], SLOTS),
        "top_p": rng.choice([1.0, 1.0, 0.8], SLOTS).astype(np.float32),
        "min_p": np.zeros(SLOTS, dtype=np.float32),
        "seed": rng.integers(0, 1 << 32, SLOTS),
        "q_ids": q_ids,
        "q_probs": q_probs,
    }


@pytest.mark.parametrize("acceptance", ["rejection", "block"])
def test_every_call_equals_the_onnxruntime_runner(tmp_path, acceptance):
    graph = tiny_graph_plan(
        variants=("main",),
        capacity_buckets=(CAPACITY,),
        max_logit_rows=GAMMA + 1,
        candidates=32,
        acceptance=acceptance,
    )
    engines = tiny_engines(tmp_path, TinyLlama(vocab_size=SIZE), graph)
    spec = lowered_for_rtx(rtx_plan(engines.plan, rtx_profiles(SLOTS, CHUNK, GAMMA)), engines.source, tmp_path / "rtx")
    assert {tensor.shape for tensor in spec.inputs if tensor.name.startswith("q_")} == {("B", "R", DRAFT_SUPPORT)}
    expected = engines.runner()
    actual = TensorRtRunner(spec, tmp_path / "rtx" / spec.file, DoubleLibrary(spec))
    rng, past = np.random.default_rng(0), np.zeros(SLOTS, dtype=np.int64)
    for runner in (expected, actual):
        runner.reserve(SLOTS, CAPACITY)
    accepted = 0
    for _ in range(14):
        call = verify_call(rng, past)
        want, got = expected.step(0, dict(call)), actual.step(0, dict(call))
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=name)
        past, accepted = want["next_past"], accepted + int(want["num_accepted"].sum())
    assert accepted > 10
    actual.close()
