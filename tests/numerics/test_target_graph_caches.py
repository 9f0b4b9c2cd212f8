"""Caches of the target graph: written in place, stale rows without effect, rows of other slots untouched."""

from __future__ import annotations

import numpy as np
import pytest

from specc.errors import SpeccBug
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.runners.runner import neutral_inputs
from tests.tiny_engines import EMITTED, TinyEngines, tiny_engines


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> TinyEngines:
    return tiny_engines(tmp_path_factory.mktemp("engines"))


@pytest.fixture
def runner(engines: TinyEngines) -> OnnxRuntimeRunner:
    return engines.runner("logits")


def step(runner: OnnxRuntimeRunner, ids: np.ndarray, pasts: list[int], first_slot: int = 0) -> dict[str, np.ndarray]:
    rows, tokens = ids.shape
    inputs = {
        "input_ids": ids.astype(np.int64),
        "num_tokens": np.full(rows, tokens),
        "past_lengths": np.array(pasts),
        "logit_rows": np.full((rows, 1), tokens - 1),
    }
    return runner.step(first_slot, neutral_inputs(runner.spec, rows, inputs))


def ids_of(rows: int, tokens: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, EMITTED, (rows, tokens))


def test_a_call_writes_its_rows_in_the_runners_own_memory_and_no_others(runner: OnnxRuntimeRunner) -> None:
    runner.reserve(4, 64)
    pointers = {name: array.ctypes.data for name, array in runner.caches.arrays.items()}
    step(runner, ids_of(4, 20), [0] * 4)
    before = {name: array.copy() for name, array in runner.caches.arrays.items()}
    step(runner, ids_of(2, 5, 1), [20, 7], first_slot=1)
    assert {name: array.ctypes.data for name, array in runner.caches.arrays.items()} == pointers
    for name, array in runner.caches.arrays.items():
        changed = (array != before[name]).any(axis=(1, 3))  # [slots, C]
        expected = np.zeros_like(changed)
        expected[1, 20:25] = True
        expected[2, 7:12] = True
        np.testing.assert_array_equal(changed, expected, err_msg=name)


def test_the_engine_returns_the_very_memory_it_was_given(runner: OnnxRuntimeRunner) -> None:
    runner.reserve(2, 64)
    step(runner, ids_of(2, 3), [0, 0])
    (bound,) = runner._bindings._bindings.values()
    assert bound.in_place
    returned = [value.data_ptr() for value in bound.binding.get_outputs()[: len(runner.spec.caches)]]
    assert returned == [runner.caches.arrays[cache.input].ctypes.data for cache in runner.spec.caches]
    bound.in_place, bound.pointers = False, (0, *bound.pointers[1:])
    with pytest.raises(SpeccBug, match="returned caches in other memory"):
        step(runner, ids_of(2, 3), [0, 0])


@pytest.mark.parametrize("garbage", [1e30, -1e30, np.float32(1e-40)])
def test_stale_rows_have_no_effect(runner: OnnxRuntimeRunner, garbage: float) -> None:
    runner.reserve(2, 64)
    step(runner, ids_of(2, 30), [0, 0])
    clean = step(runner, ids_of(2, 4, 1), [30, 12])["logits"]
    for array in runner.caches.arrays.values():
        array[0, :, 30:] = garbage
        array[1, :, 12:] = -garbage
    np.testing.assert_array_equal(step(runner, ids_of(2, 4, 1), [30, 12])["logits"], clean)


def test_a_stale_row_that_is_no_number_would_leak_so_new_rows_are_zero(runner: OnnxRuntimeRunner) -> None:
    runner.reserve(1, 64)
    for array in runner.caches.arrays.values():
        assert not array.any()
    step(runner, ids_of(1, 8), [0])
    runner.caches.arrays["value_cache_0"][:, :, 40:] = np.nan
    assert np.isnan(step(runner, ids_of(1, 2), [8])["logits"]).any()


def test_capacity_follows_the_length_and_keeps_what_is_used(runner: OnnxRuntimeRunner, engines: TinyEngines) -> None:
    plain = engines.runner("logits")
    plain.reserve(2, 544)
    text = ids_of(2, 120)
    runner.reserve(1, 10)
    assert runner.caches.capacity == 64
    runner.reserve(2, 60)
    for start, end in ((0, 50), (50, 70), (70, 119), (119, 120)):
        runner.reserve(2, end)
        out = step(runner, text[:, start:end], [start, start])["logits"]
        expected = step(plain, text[:, start:end], [start, start])["logits"]
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    assert runner.caches.capacity == 128
    runner.reserve(2, 10)
    assert runner.caches.capacity == 128, "rows in use were dropped"
    step(runner, text[:, :5], [0, 0])
    runner.reserve(2, 10)
    assert runner.caches.capacity == 128, "one bucket more than needed was given up"
    runner.reserve(2, 130)
    assert runner.caches.capacity > 128
    runner.reserve(2, 10)
    assert runner.caches.capacity == 64
    out = step(runner, text[:, 5:9], [5, 5])["logits"]
    step(plain, text[:, :5], [0, 0])
    np.testing.assert_allclose(out, step(plain, text[:, 5:9], [5, 5])["logits"], rtol=1e-5, atol=1e-5)


def test_slots_are_added_and_given_up_without_loss(runner: OnnxRuntimeRunner) -> None:
    runner.reserve(1, 30)
    text = ids_of(1, 40)
    step(runner, text[:, :20], [0])
    pointer = runner.caches.arrays["key_cache_0"].ctypes.data
    runner.reserve(4, 30)
    step(runner, ids_of(3, 200 // 4, 5)[:, :50], [0, 0, 0], first_slot=1)
    runner.reserve(1, 30)
    assert runner.caches.arrays["key_cache_0"].ctypes.data != pointer
    out = step(runner, text[:, 20:24], [20])["logits"]
    step(runner, text[:, :20], [0])
    np.testing.assert_array_equal(step(runner, text[:, 20:24], [20])["logits"], out)


def test_a_call_that_would_write_beyond_the_capacity_is_a_bug_of_the_caller(runner: OnnxRuntimeRunner) -> None:
    runner.reserve(1, 64)
    step(runner, ids_of(1, 64), [0])
    with pytest.raises(SpeccBug, match="65 cache rows into a capacity of 64"):
        step(runner, ids_of(1, 1), [64])
    with pytest.raises(SpeccBug, match=r"545 cache rows asked .* 544"):
        runner.reserve(1, 545)


def test_slots_and_inputs_are_checked(runner: OnnxRuntimeRunner) -> None:
    runner.reserve(2, 64)
    with pytest.raises(SpeccBug, match="slots 1 to 2 asked, 2 reserved"):
        step(runner, ids_of(2, 3), [0, 0], first_slot=1)
    given = {
        "input_ids": np.zeros((1, 3), dtype=np.int64),
        "num_tokens": np.array([3]),
        "past_lengths": np.array([0]),
        "logit_rows": np.zeros((1, 1), dtype=np.int32),
    }
    inputs = neutral_inputs(runner.spec, 1, given)
    with pytest.raises(SpeccBug, match=r"logit_rows is int32 \[1, 1\]; the engine takes i64 \[1, 1\]"):
        runner.step(0, inputs)
    del inputs["seed"]
    inputs["logit_rows"] = np.zeros((1, 1), dtype=np.int64)
    with pytest.raises(SpeccBug, match=r"seed is nothing; the engine takes i64 \[1\]"):
        runner.step(0, inputs)


def test_variants_share_caches(engines: TinyEngines) -> None:
    main = engines.runner("main")
    full = engines.runner("logits", caches_of=main)
    main.reserve(1, 64)
    text = ids_of(1, 20)
    step(main, text[:, :12], [0])
    shared = step(full, text[:, 12:], [12])
    alone = engines.runner("logits")
    alone.reserve(1, 64)
    step(alone, text[:, :12], [0])
    np.testing.assert_array_equal(shared["logits"], step(alone, text[:, 12:], [12])["logits"])
    main.reserve(1, 100)
    np.testing.assert_allclose(step(full, text[:, 12:], [12])["logits"], shared["logits"], rtol=1e-5, atol=1e-5)


def test_padding_and_the_other_rows_do_not_change_a_rows_picks(runner: OnnxRuntimeRunner) -> None:
    runner.reserve(3, 64)
    text = ids_of(3, 24)
    step(runner, text[:, :16], [0, 0, 0])
    together = step(runner, text[:, 16:20], [16, 16, 16])
    for slot in range(3):
        alone = step(runner, text[slot : slot + 1, 16:20], [16], first_slot=slot)
        np.testing.assert_allclose(alone["logits"][0], together["logits"][slot], rtol=1e-5, atol=1e-5)
        assert alone["next_token"][0] == together["next_token"][slot]
