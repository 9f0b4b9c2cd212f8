"""Caches in host memory: what is in use survives every change of slots and capacity, and changes are few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.manifest import CacheSpec, TensorSpec
from specc.errors import SpeccBug
from specc.plan.limits import buckets_from_capacity
from specc.runtime.runners.caches import HostCaches
from tests.double_runner import toy_spec

BUCKETS = buckets_from_capacity(512)
SPEC = replace(
    toy_spec(),
    inputs=(TensorSpec("cache", "f32", ("B", 2, "C", 4), True, None),),
    caches=(CacheSpec(0, "cache", "cache_out", "linear"),),
    capacity_buckets=BUCKETS,
)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 512), st.integers(0, 3)), max_size=20), st.randoms())
@settings(max_examples=100, deadline=None)
def test_rows_in_use_survive_and_all_that_is_asked_fits(asks, random):
    caches, held = HostCaches(SPEC), {}
    for slots, length, slot in asks:
        caches.reserve(slots, length)
        held = {s: rows for s, rows in held.items() if s < slots}
        needed = max(length, *map(len, held.values()), 0)
        smallest = next(index for index, bucket in enumerate(BUCKETS) if bucket >= needed)
        assert caches.slots >= slots
        assert caches.capacity in BUCKETS[smallest : smallest + 2]
        array = caches.arrays["cache"]
        assert array.shape == (caches.slots, 2, caches.capacity, 4)
        for s, rows in held.items():
            assert np.array_equal(array[s, 0, : len(rows), 0], rows)
        if slot < slots:
            rows = np.array([random.random() for _ in range(random.randint(0, length))], dtype=np.float32)
            array[slot, 0, : len(rows), 0] = rows
            caches.used[slot] = len(rows)
            held[slot] = rows


def test_calls_of_one_token_and_of_several_do_not_move_memory_in_turns():
    caches = HostCaches(SPEC)
    for past in range(90, 128):
        for tokens in (9, 1):
            caches.reserve(1, past + tokens)
            caches.used[0] = past + tokens
    assert caches.capacity == 160
    assert caches.moves == 2  # to 128 rows and to 160


def test_a_short_request_after_a_long_one_gets_short_caches():
    caches = HostCaches(SPEC)
    caches.reserve(1, 500)
    caches.reserve(1, 60)
    assert caches.capacity == BUCKETS[0]


def test_more_than_the_largest_bucket_is_a_bug():
    with pytest.raises(SpeccBug, match="513 cache rows asked"):
        HostCaches(SPEC).reserve(1, 513)


def test_short_tensors_share_blocks_and_long_ones_stand_alone(monkeypatch):
    monkeypatch.setattr("specc.runtime.runners.caches.BLOCK_BYTES", 12 << 10)
    names = [f"cache{n}" for n in range(7)]
    spec = replace(
        SPEC,
        inputs=tuple(TensorSpec(name, "f32", ("B", 2, "C", 4), True, None) for name in names),
        caches=tuple(CacheSpec(n, name, f"{name}_out", "linear") for n, name in enumerate(names)),
    )
    caches = HostCaches(spec)
    for slots, together in ((1, [3, 3, 1]), (4, [1] * 7)):  # of 4 and of 16 KB each
        caches.reserve(slots, 100)
        blocks = [id(array.base) for array in caches.arrays.values()]
        assert [blocks.count(block) for block in dict.fromkeys(blocks)] == together
        assert all(array.flags.c_contiguous and not array.any() for array in caches.arrays.values())
        for n, array in enumerate(caches.arrays.values()):
            array[:] = n
        assert [float(array.max()) for array in caches.arrays.values()] == [float(n) for n in range(7)]
        for array in caches.arrays.values():
            array[:] = 0
