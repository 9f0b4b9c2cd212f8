"""Two TensorRT runners over one set of caches, on the double: the unrolled draft engine beside the single-step one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specc.backends.tensorrt import spec_from_lowered
from specc.backends.tensorrt_rows import TENSORRT_RTX
from specc.bundle.manifest import LimitsSpec
from specc.catalog.capabilities import BACKENDS
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.plan.profiles import draft_profiles
from specc.progress import silent
from specc.runtime.runners.runner import Arrays
from specc.runtime.runners.tensorrt import Beside, TensorRtRunner
from tests.tensorrt_double import DoubleLibrary, HostDevice, rtx_plan
from tests.tiny_engines import EMITTED, tiny_engines, tiny_graph_plan

SLOTS, CHUNK, CAPACITY, STEPS = 3, 8, 64, 3


def draft_call(ids: np.ndarray, count: np.ndarray, past: np.ndarray) -> Arrays:
    rows = len(count)
    return {
        "input_ids": ids,
        "num_tokens": count,
        "past_lengths": past.copy(),
        "temperature": np.full(rows, 0.9, dtype=np.float32),
        "top_k": np.zeros(rows, dtype=np.int64),
        "top_p": np.ones(rows, dtype=np.float32),
        "min_p": np.zeros(rows, dtype=np.float32),
        "seed": np.arange(rows),
    }


def test_both_engines_read_and_write_the_same_rows(tmp_path):
    graph = tiny_graph_plan(
        role="draft", variants=("main", "unrolled"), capacity_buckets=(CAPACITY,), max_logit_rows=1, steps=STEPS
    )
    engines = tiny_engines(tmp_path, graph=graph)
    profiles = draft_profiles(BACKENDS["tensorrt-rtx"], LimitsSpec(SLOTS, 32, 16, 48, CHUNK, 4, STEPS))
    plan = rtx_plan(engines.plan, profiles)
    plan = replace(plan, graph=replace(plan.graph, variants=("main", "unrolled")))
    folder = tmp_path / "rtx"
    folder.mkdir()
    device, runners = HostDevice(), []
    for lowered in lowered_from_plan(plan, engines.source, folder, silent).graphs:
        spec = spec_from_lowered(lowered, plan, TENSORRT_RTX, lowered.file)
        owner = Beside(caches_of=runners[0]) if runners else Beside()
        runners.append(TensorRtRunner(spec, folder / spec.file, DoubleLibrary(spec, the_device=device), owner))
    expected = engines.runner()
    pairs = [(expected, runners[0]), (engines.runner("unrolled", caches_of=expected), runners[1])]
    rng, past = np.random.default_rng(3), np.zeros(SLOTS, dtype=np.int64)
    for slots in (1, SLOTS):  # the caches move as the batch grows
        for want, got in pairs:
            want.reserve(slots, CAPACITY)
            got.reserve(slots, CAPACITY)
        for burst, width in ((0, CHUNK), (1, 1), (0, 2), (1, 2), (0, 1), (1, 1)):
            count = np.full(slots, width)
            call = draft_call(rng.integers(0, EMITTED, (slots, width)), count, past[:slots])
            want, got = (runner.step(0, dict(call)) for runner in pairs[burst])
            name = "drafts" if burst else "next_token"
            np.testing.assert_array_equal(got[name], want[name])
            past[:slots] += width + (STEPS - 1) * burst
    for runner in reversed(runners):
        runner.close()
    assert device.live_blocks == 0
