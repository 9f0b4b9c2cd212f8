from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specc.bundle.manifest import EngineSpec, LimitsSpec, TensorSpec
from specc.catalog.capabilities import BACKENDS
from specc.errors import SpeccBug
from specc.plan.profiles import draft_profiles
from specc.runtime.runners.tensorrt_calls import CallShape, call_shape_from_inputs, cut_outputs, fill_inputs
from specc.runtime.runners.tensorrt_layout import ALIGNMENT, layout_from_tensors
from tests.double_runner import toy_spec
from tests.draft_runner import toy_draft_spec
from tests.tensorrt_double import rtx_profiles

PREFILL, DECODE, VERIFY = range(3)


def spec_with(**options: bool) -> EngineSpec:
    return replace(toy_spec(), profiles=rtx_profiles(4, 32, 4, **options), capacity=64)


def call(batch: int, tokens: int, rows: int) -> dict[str, np.ndarray]:
    return {"input_ids": np.zeros((batch, tokens), np.int64), "logit_rows": np.zeros((batch, rows), np.int64)}


@pytest.mark.parametrize(
    ("tokens", "rows", "expected"),
    [
        (1, 1, CallShape(DECODE, 2, 1, 1)),
        (2, 2, CallShape(VERIFY, 2, 5, 5)),
        (5, 5, CallShape(VERIFY, 2, 5, 5)),
        (3, 1, CallShape(VERIFY, 2, 5, 5)),
        (6, 1, CallShape(PREFILL, 2, 6, 1)),
        (32, 5, CallShape(PREFILL, 2, 32, 5)),
    ],
)
def test_a_call_runs_under_the_narrowest_profile_that_holds_it(tokens: int, rows: int, expected: CallShape) -> None:
    assert call_shape_from_inputs(spec_with(), call(2, tokens, rows)) == expected


def test_a_profile_with_room_needs_no_padding() -> None:
    assert call_shape_from_inputs(spec_with(static_verify=False), call(2, 3, 2)) == CallShape(VERIFY, 2, 3, 2)


@pytest.mark.parametrize(("batch", "tokens", "rows"), [(5, 1, 1), (1, 33, 1), (1, 5, 6)])
def test_a_call_beyond_every_profile_is_a_bug(batch: int, tokens: int, rows: int) -> None:
    with pytest.raises(SpeccBug, match=f"B={batch}, S={tokens}, R={rows} fits no profile"):
        call_shape_from_inputs(spec_with(), call(batch, tokens, rows))


def test_padding_is_what_the_abi_asks_and_is_cut_off_again() -> None:
    given = {"input_ids": np.array([[7, 8]]), "logit_rows": np.array([[0, 1]]), "seed": np.array([3])}
    target = {"input_ids": np.full((1, 5), 99), "logit_rows": np.full((1, 4), 99), "seed": np.array([99])}
    fill_inputs(target, given)
    assert target["input_ids"].tolist() == [[7, 8, 0, 0, 0]]
    assert target["logit_rows"].tolist() == [[0, 1, 1, 1]]
    assert target["seed"].tolist() == [3]
    taps = TensorSpec("taps", "f32", ("B", "S", 3), True, None)
    outputs = (TensorSpec("tokens", "i64", ("B", "R"), True, None), taps)
    padded = {"tokens": np.arange(4)[None], "taps": np.arange(15, dtype=np.float32).reshape(1, 5, 3)}
    cut = cut_outputs(padded, replace(toy_spec(), outputs=outputs), tokens=2, rows=3)
    assert cut["tokens"].tolist() == [[0, 1, 2]]
    assert cut["taps"].shape == (1, 2, 3)
    padded["tokens"][:] = -5
    assert cut["tokens"].tolist() == [[0, 1, 2]]


def test_a_draft_call_has_one_logit_row_and_no_input_of_that_name() -> None:
    profiles = draft_profiles(BACKENDS["tensorrt-rtx"], LimitsSpec(4, 64, 32, 96, 32, 4, 4))
    spec = replace(toy_draft_spec(), profiles=profiles, capacity=64)
    shapes = [call_shape_from_inputs(spec, {"input_ids": np.zeros((2, tokens), np.int64)}) for tokens in (1, 2, 3)]
    assert shapes == [CallShape(2, 2, 1, 1), CallShape(1, 2, 2, 1), CallShape(0, 2, 3, 1)]


def test_laws_of_drafts_are_padded_with_their_neutral_fill() -> None:
    given = {"q_ids": np.array([[[3, 4]]]), "q_probs": np.array([[[0.5, 0.5]]], dtype=np.float32)}
    target = {"q_ids": np.full((1, 2, 3), 99), "q_probs": np.full((1, 2, 3), 99, dtype=np.float32)}
    fill_inputs(target, given)
    assert target["q_ids"].tolist() == [[[3, 4, -1], [-1, -1, -1]]]
    assert target["q_probs"].tolist() == [[[0.5, 0.5, 0], [0, 0, 0]]]


def test_a_layout_has_aligned_places_that_do_not_overlap() -> None:
    tensors = [tensor for tensor in toy_spec().inputs if tensor.name != "cache"]
    layout = layout_from_tensors(tensors, {"B": 3, "S": 50, "R": 5})
    block = np.zeros(layout.nbytes, dtype=np.uint8)
    views = layout.views(block)
    assert all(place.offset % ALIGNMENT == 0 for place in layout.places)
    assert views["input_ids"].shape == (3, 50)
    assert views["temperature"].dtype == np.float32
    for number, view in enumerate(views.values(), 1):
        assert not view.any()
        view[:] = number
    assert sorted({int(view.flat[0]) for view in views.values()}) == list(range(1, len(views) + 1))
