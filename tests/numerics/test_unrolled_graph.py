"""The unrolled draft graph against single steps of the same weights: the same drafts, laws and cache rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specc.checkpoint.facts import PLAIN_LAYER, LayerFacts
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.runners.runner import Arrays, neutral_inputs
from specc.speculation.modes import MODES
from tests.tiny_engines import EMITTED, TinyEngines, tiny_engines, tiny_graph_plan

STEPS, ROWS, CHUNK = 4, 3, 7
# float32: the same sums over cache rows in another order.
ATOL = 2e-5
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.2},
    {"temperature": 0.9, "top_k": 12, "top_p": 0.8, "min_p": 0.02},
)


@pytest.fixture(scope="module", params=["greedy", "coupled", "rejection", "windows"])
def engines(request, tmp_path_factory) -> TinyEngines:
    graph = tiny_graph_plan(
        role="draft",
        variants=("main", "unrolled"),
        max_logit_rows=1,
        acceptance="coupled" if request.param == "windows" else request.param,
        steps=STEPS,
    )
    layers = (LayerFacts(6, "main", experts=False), PLAIN_LAYER) if request.param == "windows" else ()
    return tiny_engines(tmp_path_factory.mktemp(request.param), graph=graph, layers=layers)


def stepped(runner: OnnxRuntimeRunner, ids: Any, fed: Any, past: Any, settings: dict[str, Any]) -> Arrays:
    given: Arrays = {
        "input_ids": np.asarray(ids, dtype=np.int64),
        "num_tokens": np.asarray(fed, dtype=np.int64),
        "past_lengths": np.asarray(past, dtype=np.int64),
    }
    if any(tensor.name == "seed" for tensor in runner.spec.inputs):
        given["seed"] = np.arange(ROWS, dtype=np.int64) + 3
        for name, value in settings.items():
            given[name] = np.full(ROWS, value, dtype=np.int64 if name == "top_k" else np.float32)
    return runner.step(0, neutral_inputs(runner.spec, ROWS, given))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("fed", [(1, 2, 1), (2, 2, 2), (1, 1, 1), (0, 2, 1), (0, 1, 0)], ids=str)
def test_a_burst_is_its_single_steps(engines, settings, fed):
    if settings["temperature"] and not MODES[engines.plan.graph.acceptance].samples:
        pytest.skip("greedy engines take no temperature")
    rng = np.random.default_rng(1)
    single, alone = engines.runner(), engines.runner()
    unrolled = engines.runner("unrolled", caches_of=single)
    for runner in (single, alone):
        runner.reserve(ROWS, 40)
    chunk, lengths = rng.integers(0, EMITTED, (ROWS, CHUNK)), np.array([CHUNK, 3, 5])
    for runner in (single, alone):
        stepped(runner, chunk, lengths, np.zeros(ROWS), settings)
    count = np.array(fed)
    ids = rng.integers(0, EMITTED, (ROWS, max(fed)))
    before = {name: array.copy() for name, array in single.caches.arrays.items()}
    burst = stepped(unrolled, ids, count, lengths, settings)
    out, past, active = stepped(alone, ids, count, lengths, settings), lengths + count, count > 0
    for step in range(STEPS):
        assert burst["drafts"][:, step].tolist() == out["next_token"].tolist()
        if "q_ids" in out:
            assert (burst["q_ids"][active, step] == out["q_ids"][active]).all()
            np.testing.assert_allclose(burst["q_probs"][active, step], out["q_probs"][active], rtol=0, atol=ATOL)
        if step < STEPS - 1:
            out = stepped(alone, np.maximum(out["next_token"], 0)[:, None], active, past, settings)
            past = past + active
    for name, array in single.caches.arrays.items():
        assert np.isfinite(array).all()
        for row in range(ROWS):
            end = past[row] if active[row] else lengths[row]
            wanted = alone.caches.arrays[name][row, :, :end]
            np.testing.assert_allclose(array[row, :, :end], wanted, rtol=0, atol=ATOL)
            np.testing.assert_array_equal(array[row, :, : lengths[row]], before[name][row, :, : lengths[row]])
