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


WIDTHS = {"keys": (2, 4), "values": (2, 4), "wide": (3, 8), "narrow": (1, 2), "last": (2, 4)}
SEVERAL = replace(
    SPEC,
    inputs=tuple(TensorSpec(name, "f32", ("B", kv, "C", d), True, None) for name, (kv, d) in WIDTHS.items()),
    caches=tuple(CacheSpec(n, name, f"{name}_out", "linear") for n, name in enumerate(WIDTHS)),
)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 512)), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_growing_in_place_moves_what_is_in_use_and_leaves_zeros(asks, seed):
    rng, caches = np.random.default_rng(seed), HostCaches(SEVERAL)
    held = {name: [] for name in WIDTHS}
    for slots, length in asks:
        before = caches.used.copy()
        caches.reserve(slots, length)
        for name, array in caches.arrays.items():
            assert array.flags.c_contiguous
            rows = int(before[: min(slots, len(before))].max(initial=0))
            for slot in range(caches.slots):
                kept = held[name][slot] if slot < min(slots, len(held[name])) else None
                used = 0 if kept is None else int(before[slot])
                if used:
                    np.testing.assert_array_equal(array[slot, :, :used], kept[:, :used])
                if caches.slots != len(before):
                    assert not array[slot, :, max(rows, used) :].any()
        for slot in range(caches.slots):
            caches.used[slot] = rng.integers(0, length + 1) if slot < slots else 0
            for array in caches.arrays.values():
                array[slot] = rng.random(array[slot].shape, dtype=np.float32)
        held = {name: [row.copy() for row in array] for name, array in caches.arrays.items()}


@pytest.mark.parametrize(("first", "asks"), [((2, 100), [(2, 150), (2, 200), (2, 250)]), ((1, 60), [(2, 64)])])
def test_growing_within_twice_the_memory_asks_for_none(first, asks):
    caches = HostCaches(SEVERAL)
    caches.reserve(*first)
    memory = {id(array.base) for array in caches.arrays.values()}
    for slots, length in asks:
        moves = caches.moves
        caches.reserve(slots, length)
        assert caches.moves == moves + 1
        assert {id(array.base) for array in caches.arrays.values()} == memory
    caches.reserve(3, 300)
    assert {id(array.base) for array in caches.arrays.values()} != memory
