"""The TensorRT runner's own logic over the double: it must agree with the ONNX Runtime runner call by call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from specc.errors import SpeccBug
from specc.runtime.runners import tensorrt
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.runners.runner import Arrays
from specc.runtime.runners.tensorrt import TensorRtRunner
from tests.tensorrt_double import DoubleLibrary, lowered_for_rtx, rtx_plan, rtx_profiles
from tests.tiny_engines import EMITTED, TinyEngines, tiny_engines, tiny_graph_plan

GAMMA, CHUNK, SLOTS, CAPACITY = 4, 12, 4, 128


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> TinyEngines:
    graph = tiny_graph_plan(variants=("main",), capacity_buckets=(CAPACITY,), max_logit_rows=GAMMA + 1, candidates=32)
    return tiny_engines(tmp_path_factory.mktemp("tensorrt"), graph=graph)


@pytest.fixture(scope="module")
def library(engines: TinyEngines) -> Callable[..., DoubleLibrary]:
    plan = rtx_plan(engines.plan, rtx_profiles(SLOTS, CHUNK, GAMMA))
    spec = lowered_for_rtx(plan, engines.source, engines.folder.parent / "rtx")
    return lambda **options: DoubleLibrary(spec, **options)


def runner_over(engines: TinyEngines, double: DoubleLibrary) -> TensorRtRunner:
    return TensorRtRunner(double.spec, engines.folder.parent / "rtx" / double.spec.file, double)


def random_call(rng: np.random.Generator, past: np.ndarray, rows: int) -> Arrays:
    """Return a batch of idle, chunk, AR and verify rows for slots that hold `past` rows."""
    kinds = rng.choice(["idle", "chunk", "ar", "verify"], size=rows, p=[0.15, 0.25, 0.2, 0.4])
    drafts = np.array([rng.integers(1, GAMMA + 1) if kind == "verify" else 0 for kind in kinds])
    tokens = np.array([{"idle": 0, "chunk": rng.integers(1, CHUNK + 1)}.get(kind, 1) for kind in kinds]) + drafts
    width, height = max(int(tokens.max()), 1), int(drafts.max()) + 1
    anchor = np.maximum(tokens - drafts - 1, 0)
    logit_rows = np.minimum(anchor[:, None] + np.arange(height), np.maximum(tokens - 1, 0)[:, None])
    return {
        "input_ids": rng.integers(0, EMITTED, size=(rows, width)),
        "num_tokens": tokens,
        "past_lengths": past.copy(),
        "logit_rows": logit_rows,
        "num_draft": drafts,
        "temperature": rng.choice([0.0, 0.7, 1.3], size=rows).astype(np.float32),
        "top_k": rng.choice([0, 5], size=rows),
        "top_p": rng.choice([1.0, 0.8], size=rows).astype(np.float32),
        "min_p": rng.choice([0.0, 0.05], size=rows).astype(np.float32),
        "seed": rng.integers(0, 1 << 32, size=rows),
    }


def assert_same_text(expected: OnnxRuntimeRunner, actual: TensorRtRunner, seed: int, calls: int) -> None:
    rng = np.random.default_rng(seed)
    held = np.zeros(SLOTS, dtype=np.int64)
    for _ in range(calls):
        first = int(rng.integers(0, SLOTS))
        rows = int(rng.integers(1, SLOTS - first + 1))
        slots = slice(first, first + rows)
        held[slots] = np.where(held[slots] > CAPACITY - 2 * CHUNK, 0, held[slots])
        call = random_call(rng, held[slots], rows)
        want, got = expected.step(first, dict(call)), actual.step(first, dict(call))
        assert set(want) == set(got)
        for name, array in want.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_array_equal(got[name], array, err_msg=name)
        held[slots] = want["next_past"]


@pytest.mark.parametrize("capturable", [False, True])
def test_every_call_equals_the_onnxruntime_runner(
    engines: TinyEngines, library: Callable[..., DoubleLibrary], capturable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorrt, "CAPTURE_AFTER", 1)
    monkeypatch.setattr(tensorrt, "PREPARED_CALLS", 12)
    double = library(capturable=capturable)
    expected, actual = engines.runner(), runner_over(engines, double)
    for runner in (expected, actual):
        runner.reserve(SLOTS, CAPACITY)
    assert_same_text(expected, actual, seed=3, calls=60)
    assert double.the_device.counts["upload"] == double.the_device.counts["download"] == 60
    assert (double.the_device.counts.get("capture", 0) > 0) == capturable
    actual.close()
    assert double.the_device.live_blocks == 0
    assert double.the_device.counts.get("release", 0) == double.the_device.counts.get("capture", 0)


def test_graphs_are_captured_per_shape_and_first_slot(
    engines: TinyEngines, library: Callable[..., DoubleLibrary]
) -> None:
    double = library(capturable=True)
    runner = runner_over(engines, double)
    runner.reserve(SLOTS, CAPACITY)
    call = random_call(np.random.default_rng(0), np.zeros(1, dtype=np.int64), 1)
    call |= {"num_tokens": np.array([1]), "num_draft": np.array([0]), "input_ids": np.array([[5]])}
    call["logit_rows"] = np.array([[0]])
    for _ in range(tensorrt.CAPTURE_AFTER + 3):
        runner.step(0, call)
    counts = double.the_device.counts
    assert (counts["capture"], counts["launch"]) == (1, 3)
    runner.step(1, call)
    assert (counts["capture"], counts["launch"]) == (1, 3)
    for _ in range(tensorrt.CAPTURE_AFTER):
        runner.step(1, call)
    assert (counts["capture"], counts["launch"]) == (2, 4)


def test_more_slots_keep_what_the_caches_hold(
    engines: TinyEngines, library: Callable[..., DoubleLibrary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for shapes whose CUDA graph was captured over the caches' old addresses."""
    monkeypatch.setattr(tensorrt, "CAPTURE_AFTER", 0)
    double = library(capturable=True)
    expected, actual = engines.runner(), runner_over(engines, double)
    shape = random_call(np.random.default_rng(13), np.zeros(2, dtype=np.int64), 2)
    past = np.zeros(2, dtype=np.int64)
    for slots in (2, 3, 4, 4):
        for runner in (expected, actual):
            runner.reserve(slots, CAPACITY)
        call = shape | {"past_lengths": past}
        want, got = expected.step(0, dict(call)), actual.step(0, dict(call))
        np.testing.assert_array_equal(got["tokens"], want["tokens"])
        past = want["next_past"]
    assert (past >= 4).all()
    assert double.the_device.counts["release"] == 2
    assert double.the_device.live_blocks == 2 + len(double.spec.caches)


def test_what_the_scheduler_must_not_ask(engines: TinyEngines, library: Callable[..., DoubleLibrary]) -> None:
    runner = runner_over(engines, library())
    runner.reserve(2, CAPACITY)
    rng = np.random.default_rng(1)
    with pytest.raises(SpeccBug, match=f"{CAPACITY + 1} cache rows were asked of an engine that has {CAPACITY}"):
        runner.reserve(2, CAPACITY + 1)
    with pytest.raises(SpeccBug, match="rows 1 to 2 of 2 reserved slots"):
        runner.step(1, random_call(rng, np.zeros(2, dtype=np.int64), 2))
    late = random_call(rng, np.array([0, CAPACITY - GAMMA]), 2)
    late["input_ids"] = np.zeros((2, 2), dtype=np.int64)
    late["logit_rows"] = np.zeros((2, 2), dtype=np.int64)
    with pytest.raises(SpeccBug, match=f"a call of {GAMMA + 1} tokens would end at cache row {CAPACITY + 1}"):
        runner.step(0, late)
    wrong = random_call(rng, np.zeros(2, dtype=np.int64), 2)
    with pytest.raises(SpeccBug, match="input seed is float64, the engine takes int64"):
        runner.step(0, {**wrong, "seed": np.zeros(2)})
    with pytest.raises(SpeccBug, match=r"input seed has shape \(3,\), the call needs \(2,\)"):
        runner.step(0, {**wrong, "seed": np.zeros(3, dtype=np.int64)})


def test_half_precision_stays_near_float32(engines: TinyEngines) -> None:
    """The graph as TensorRT-RTX gets it, in float16; the largest difference measured is 0.023 at logits up to 10."""
    graph = replace(engines.plan.graph, features=("logits",))
    logits = {}
    ids = np.random.default_rng(2).integers(0, EMITTED, size=(1, CHUNK))
    for dtype in ("f32", "f16"):
        plan = replace(engines.plan, graph=replace(graph, compute_dtype=dtype))
        plan = rtx_plan(plan, rtx_profiles(SLOTS, CHUNK, GAMMA))
        spec = lowered_for_rtx(plan, engines.source, engines.folder.parent / dtype)
        runner = TensorRtRunner(spec, engines.folder.parent / dtype / spec.file, DoubleLibrary(spec))
        runner.reserve(1, CAPACITY)
        call = random_call(np.random.default_rng(0), np.zeros(1, dtype=np.int64), 1)
        call |= {"input_ids": ids, "num_tokens": np.array([CHUNK]), "num_draft": np.array([0])}
        rows = CHUNK - 1 - np.arange(GAMMA + 1)[None, ::-1]
        logits[dtype] = runner.step(0, call | {"logit_rows": rows})["logits"]
    assert logits["f16"].dtype == np.float32
    assert np.abs(logits["f32"]).max() > 3
    np.testing.assert_allclose(logits["f16"], logits["f32"], rtol=0, atol=0.1)
