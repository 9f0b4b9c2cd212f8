"""Lengths and capacities keep the invariants of the engine ABI for any limits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from specc.bundle.manifest import LimitsSpec
from specc.catalog.capabilities import BACKENDS
from specc.errors import SpeccError
from specc.plan.limits import ALIGNMENT, bound_lengths, lengths_from_recipe
from specc.plan.profiles import batch_buckets, profiles_from_limits
from specc.recipe.schema import Recipe

BACKEND = st.sampled_from(list(BACKENDS.values()))


def recipe(draft: str = "ngram", **keys) -> Recipe:
    base = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": draft, "gpu": "cpu"}
    return Recipe.model_validate(base | keys)


@given(
    backend=BACKEND,
    max_input=st.integers(1, 5000),
    max_output=st.integers(1, 5000),
    chunk=st.none() | st.integers(1, 3000),
    max_gamma=st.none() | st.integers(0, 64),
    context=st.integers(1, 9000),
)
def test_every_call_stays_inside_the_cache(*, backend, max_input, max_output, chunk, max_gamma, context) -> None:
    gamma = {} if max_gamma is None else {"max": max_gamma}
    limits = {"max_input": max_input, "max_output": max_output, "prefill_chunk": chunk}
    assume(max_input <= context)
    assume((8 if max_gamma is None else max_gamma) + 1 <= min(max_input + max_output, context))
    lengths = lengths_from_recipe(recipe(limits=limits, gamma=gamma), backend, context)
    spec = lengths.limits
    assert spec.max_length == min(max_input + max_output, context)
    assert 1 <= spec.prefill_chunk <= max_input
    assert 0 <= spec.default_gamma <= spec.max_gamma
    longest_call = max(spec.prefill_chunk, spec.max_gamma + 1)
    # Before a call a row holds max_length - 1 tokens at most; beside the call, one token that makes it even, and a
    # spare row.
    even = longest_call + longest_call % 2
    assert spec.max_length - 1 + even + 1 <= lengths.capacity < spec.max_length + even + ALIGNMENT
    assert lengths.capacity % ALIGNMENT == 0
    bound = bound_lengths(lengths.capacity, "native")
    assert bound[-1] == bound_lengths(lengths.capacity, "fused")[-1] == lengths.capacity
    assert all(1.5 * a >= b > a for a, b in pairwise(bound))
    assert all(1.25 * a >= b for a, b in pairwise(bound) if a >= 128)
    assert all(2 * a >= b > a for a, b in pairwise(bound_lengths(lengths.capacity, "fused")))
    for profile in profiles_from_limits(backend, spec):
        for low, opt, high in (profile.batch, profile.tokens, profile.logit_rows):
            assert 1 <= low <= opt <= high
        assert profile.logit_rows[2] <= profile.tokens[2] <= longest_call


@pytest.mark.parametrize(
    ("gamma", "expected"),
    [({}, (8, 5)), ({"max": 3}, (3, 3)), ({"max": 20}, (20, 5)), ({"default": 12}, (12, 12)), ({"max": 0}, (0, 0)),
     ({"max": 6, "default": 2}, (6, 2))],
)  # fmt: skip
def test_gamma(gamma, expected) -> None:
    spec = lengths_from_recipe(recipe(gamma=gamma), BACKENDS["onnxruntime"], 8192).limits
    assert (spec.max_gamma, spec.default_gamma) == expected


def test_without_a_drafter_gamma_is_zero() -> None:
    lengths = lengths_from_recipe(recipe("none"), BACKENDS["tensorrt-rtx"], 8192)
    assert lengths.limits.max_gamma == 0
    assert [profile.name for profile in profiles_from_limits(BACKENDS["tensorrt-rtx"], lengths.limits)] == [
        "prefill",
        "decode",
    ]


def test_what_was_derived_is_said() -> None:
    lengths = lengths_from_recipe(recipe(limits={"max_input": 100, "prefill_chunk": 200}), BACKENDS["onnxruntime"], 900)
    assert "max_length 900" in lengths.notes[0]
    assert "gamma auto" in lengths.notes[1]
    assert "prefill_chunk 100 instead of 200" in lengths.notes[2]


def test_profiles_of_a_tensorrt_engine() -> None:
    lengths = lengths_from_recipe(recipe(gamma=4), BACKENDS["tensorrt-rtx"], 8192)
    shapes = {p.name: (p.tokens, p.logit_rows) for p in profiles_from_limits(BACKENDS["tensorrt-rtx"], lengths.limits)}
    assert shapes == {
        "prefill": ((1, 512, 512), (1, 1, 5)),
        "decode": ((1, 1, 1), (1, 1, 1)),
        "verify": ((1, 5, 5), (1, 5, 5)),
    }


def test_a_context_too_short_is_an_error() -> None:
    with pytest.raises(SpeccError, match="SPC304"):
        lengths_from_recipe(recipe(), BACKENDS["onnxruntime"], 512)


@pytest.mark.parametrize(("most", "buckets"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_batches_that_calls_are_padded_to(most: int, buckets: tuple[int, ...]) -> None:
    limits = LimitsSpec(most, 64, 64, 128, 32, 4, 4)
    assert batch_buckets(BACKENDS["tensorrt"], limits) == buckets
    assert batch_buckets(BACKENDS["tensorrt-rtx"], limits) == ()
