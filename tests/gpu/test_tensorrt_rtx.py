"""TensorRT-RTX engines on a card, against the same lowered graph in ONNX Runtime.

docs/tensorrt-rtx.md says what they settle. They need a GPU of an SM that TensorRT-RTX serves, its driver,
`tensorrt_rtx` and `cuda-python`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_build import set_targets
from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccError
from specc.lower.lowered import Lowered, LoweredGraph
from specc.lower.place import link_or_copy
from specc.plan.plan import Plan
from specc.progress import silent
from specc.runtime.runners.runner import Arrays, TargetRunner, neutral_inputs
from specc.runtime.runners.tensorrt import TensorRtRunner, tensorrt_runner
from specc.runtime.runners.tensorrt_cuda import cuda_device
from specc.runtime.runners.tensorrt_vendor import vendor_library
from tests.tensorrt_double import DoubleLibrary, HostDevice, lowered_for_rtx, rtx_plan, rtx_profiles
from tests.tiny_engines import EMITTED, plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

pytestmark = pytest.mark.gpu

Pair: TypeAlias = tuple[TensorRtRunner, TensorRtRunner]

GAMMA, CHUNK, SLOTS, CAPACITY = 4, 16, 4, 128
# float16 and float32 differ by 0.023 at logits of up to 10 in ONNX Runtime; kernels on a card add in other orders.
LOGIT_TOLERANCE = 0.1
SIZES = TinyLlama(hidden_size=128, intermediate_size=256, num_attention_heads=4, num_key_value_heads=2, head_dim=64)


@dataclass
class Card:
    """An engine on the card, and its graph in ONNX Runtime."""

    folder: Path
    plan: Plan
    spec: EngineSpec
    onnx_spec: EngineSpec

    def on_card(self) -> TensorRtRunner:
        return tensorrt_runner(self.folder, self.spec)

    def on_cpu(self) -> TensorRtRunner:
        device = HostDevice(self.spec.compute_capabilities[0])
        library = DoubleLibrary(self.onnx_spec, the_device=device)
        return TensorRtRunner(self.onnx_spec, self.folder / "lowered" / self.onnx_spec.file, library)


def build(folder: Path, sm: str) -> Card:
    source = source_from_sizes(folder / "source", replace(SIZES, stored="f16"))
    graph = tiny_graph_plan(
        compute_dtype="f16",
        capacity_buckets=(CAPACITY,),
        max_logit_rows=GAMMA + 1,
        candidates=64,
        features=("logits",),
    )
    plan = rtx_plan(plan_from_facts(source.facts, graph), rtx_profiles(SLOTS, CHUNK, GAMMA), sms=(sm,))
    spec = lowered_for_rtx(plan, source, folder / "lowered")
    lowered_graph = LoweredGraph("target", "main", spec.file, spec.inputs, spec.outputs, spec.caches)
    lowered = Lowered(folder / "lowered", (lowered_graph,), ())
    (built,) = TensorRtBackend().engines_from_lowered(lowered, plan, folder, link_or_copy, silent)
    return Card(folder, plan, built, spec)


@pytest.fixture(scope="module")
def sm() -> str:
    """Return the SM of the card here, or skip where TensorRT-RTX does not serve it or is not here."""
    trt = pytest.importorskip("tensorrt_rtx")
    found = cuda_device().compute_capability
    config = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_builder_config()
    try:
        set_targets(trt, config, (found,))
    except SpeccError as error:
        pytest.skip(error.got)
    return found


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory, sm: str) -> Card:
    return build(tmp_path_factory.mktemp("card"), sm)


@pytest.fixture
def runners(card: Card) -> Iterator[Pair]:
    pair = card.on_card(), card.on_cpu()
    for runner in pair:
        runner.reserve(SLOTS, CAPACITY)
    yield pair
    for runner in pair:
        runner.close()


def chunk_call(spec: EngineSpec, ids: list[list[int]], past: list[int]) -> Arrays:
    """Return a call of chunks of equal or shorter length; R is 1."""
    width = max(map(len, ids))
    counts = np.array([len(row) for row in ids])
    given = {
        "input_ids": np.array([row + [0] * (width - len(row)) for row in ids]),
        "num_tokens": counts,
        "past_lengths": np.array(past),
        "logit_rows": np.maximum(counts - 1, 0)[:, None],
    }
    return neutral_inputs(spec, len(ids), given)


def verify_call(spec: EngineSpec, anchors: list[int], drafts: list[list[int]], past: list[int]) -> Arrays:
    """Return a verify call with as many drafts in every row."""
    rows = [[anchor, *draft] for anchor, draft in zip(anchors, drafts, strict=True)]
    given = {
        "input_ids": np.array(rows),
        "num_tokens": np.full(len(rows), len(rows[0])),
        "past_lengths": np.array(past),
        "logit_rows": np.tile(np.arange(len(rows[0])), (len(rows), 1)),
        "num_draft": np.full(len(rows), len(rows[0]) - 1),
    }
    return neutral_inputs(spec, len(rows), given)


def greedy_ids(runner: TargetRunner, prompt: list[int], count: int) -> list[int]:
    """Return AR greedy ids after a prompt in slot 0."""
    outputs = runner.step(0, chunk_call(runner.spec, [prompt], [0]))
    ids = [int(outputs["next_token"][0])]
    while len(ids) < count:
        outputs = runner.step(0, chunk_call(runner.spec, [[ids[-1]]], [int(outputs["next_past"][0])]))
        ids.append(int(outputs["next_token"][0]))
    return ids


def test_logits_and_ragged_pasts(card: Card, runners: Pair) -> None:
    """Rows of different pasts in one call: the mask must hide exactly what is stale in each."""
    rng = np.random.default_rng(0)
    lengths = [3, 16, 1, 9]
    prompts = [rng.integers(0, EMITTED, size=n).tolist() for n in lengths]
    drafts = rng.integers(0, EMITTED, size=(SLOTS, GAMMA)).tolist()
    calls = [
        chunk_call(card.spec, prompts, [0] * SLOTS),
        verify_call(card.spec, [1, 2, 3, 4], drafts, lengths),
        chunk_call(card.spec, [[5], [6], [7], [8]], [length + 1 for length in lengths]),
        chunk_call(card.spec, [[9, 10, 11], [], [12], [13, 14]], [length + 2 for length in lengths]),
    ]
    for call in calls:
        got, want = (runner.step(0, dict(call)) for runner in runners)
        live = call["num_tokens"] > 0
        np.testing.assert_allclose(got["logits"][live], want["logits"][live], rtol=0, atol=LOGIT_TOLERANCE)
        for name in ("next_past", "accepted_rows"):
            assert got[name].shape == want[name].shape


def test_greedy_ids_equal_onnxruntime_where_no_two_logits_are_close(runners: Pair) -> None:
    on_card, on_cpu = runners
    prompt = list(range(30, 42))
    ids = greedy_ids(on_card, prompt, 40)
    outputs = on_cpu.step(0, chunk_call(on_cpu.spec, [prompt], [0]))
    for token in ids:
        logits = outputs["logits"][0, 0]
        assert logits.max() - logits[token] <= 2 * LOGIT_TOLERANCE
        outputs = on_cpu.step(0, chunk_call(on_cpu.spec, [[token]], [int(outputs["next_past"][0])]))


@pytest.mark.parametrize("wrong_at", [0, 2, GAMMA])
def test_speculative_ids_equal_ar_ids(card: Card, runners: Pair, wrong_at: int) -> None:
    """An oracle that errs at one place of each burst; AR and verify run different attention kernels."""
    runner = runners[0]
    prompt, count = list(range(60, 70)), 40
    expected = greedy_ids(runner, prompt, count + GAMMA + 1)
    outputs = runner.step(0, chunk_call(card.spec, [prompt], [0]))
    ids, past = [int(outputs["next_token"][0])], int(outputs["next_past"][0])
    while len(ids) < count:
        draft = expected[len(ids) : len(ids) + GAMMA]
        if wrong_at < GAMMA:
            draft[wrong_at] = (draft[wrong_at] + 1) % EMITTED
        outputs = runner.step(0, verify_call(card.spec, [ids[-1]], [draft], [past]))
        accepted = int(outputs["num_accepted"][0])
        assert accepted == wrong_at
        ids += outputs["tokens"][0, : accepted + 1].tolist()
        past = int(outputs["next_past"][0])
    assert ids[:count] == expected[:count]


def test_sampled_picks_use_the_same_noise_as_onnxruntime(card: Card, runners: Pair) -> None:
    """At a temperature that drowns the logits the pick is the noise's alone, so integers decide and must agree."""
    prompt = list(range(100, 108))
    agreed = 0
    for seed in range(40):
        call = chunk_call(card.spec, [prompt], [0]) | {
            "temperature": np.array([1e4], dtype=np.float32),
            "top_k": np.array([0 if seed % 2 else 50]),
            "seed": np.array([seed * 99991]),
        }
        got, want = (runner.step(1, dict(call)) for runner in runners)
        agreed += int(got["next_token"][0] == want["next_token"][0])
    assert agreed >= 38


def test_caches_are_written_in_place_and_nowhere_else(card: Card, runners: Pair) -> None:
    on_card, on_cpu = runners
    held = []
    for runner in (on_card, on_cpu):
        runner.step(1, chunk_call(card.spec, [[1, 2, 3, 4, 5]], [0]))
        runner.step(1, verify_call(card.spec, [6], [[7, 8, 9, 10]], [5]))
        address = runner._caches["key_cache_1"]
        nbytes = SLOTS * runner._row_bytes["key_cache_1"]
        block = np.zeros(nbytes, dtype=np.uint8)
        runner.device.download(block, address, runner.stream)
        runner.device.synchronize(runner.stream)
        held.append(block.view(np.float16).reshape(SLOTS, SIZES.num_key_value_heads, CAPACITY, SIZES.head_dim))
    assert held[1][1, :, :10].any()
    np.testing.assert_allclose(held[0].astype(np.float32), held[1].astype(np.float32), rtol=0, atol=0.05)
    for slot in (0, 2, 3):
        assert not held[0][slot].any()
    assert not held[0][1, :, 10:].any()


def test_the_engine_says_that_caches_alias(card: Card) -> None:
    engine = vendor_library("tensorrt-rtx").engine(card.folder / card.spec.file)._engine
    for cache in card.spec.caches:
        assert engine.get_aliased_input_tensor(cache.output) == cache.input


def test_repeated_shapes_give_the_same_answer_every_time(card: Card, runners: Pair) -> None:
    """The library replaces kernels and captures CUDA graphs behind our back after the first executions of a shape."""
    runner = runners[0]
    runner.step(0, chunk_call(card.spec, [list(range(16))], [0]))
    answers = []
    for _ in range(30):
        outputs = runner.step(0, verify_call(card.spec, [1], [[2, 3, 4, 5]], [16]))
        answers.append(outputs["logits"])
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], rtol=0, atol=LOGIT_TOLERANCE)


def test_the_library_refuses_an_engine_of_another_gpu(tmp_path: Path, sm: str) -> None:
    """Even where a manifest says otherwise."""
    other = "12.0" if sm != "12.0" else "8.9"
    built = build(tmp_path, other)
    lying = replace(built.spec, compute_capabilities=(sm,))
    with pytest.raises(SpeccError) as caught:
        tensorrt_runner(built.folder, lying)
    assert caught.value.code == "SPC528"
