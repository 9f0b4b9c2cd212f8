"""Rounding against plain loops over groups, and the promise of the search: never a larger error."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from specc.catalog.weight_formats import WeightFormat
from specc.errors import SpeccBug
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.quantized_from_float import quantized_from_float

FORMATS = (
    WeightFormat("int4", "group", 32, zero_point=False, scale_dtype="f16"),
    WeightFormat("uint4", "group", 16, zero_point=True, scale_dtype="bf16"),
    WeightFormat("int8", "channel", None, zero_point=False),
    WeightFormat("int8", "group", 32, zero_point=True, scale_dtype="f16"),
    WeightFormat("int8", "tensor", None, zero_point=False),
    WeightFormat("fp8_e4m3", "tensor", None, zero_point=False),
    WeightFormat("fp8_e4m3", "channel", None, zero_point=False),
    WeightFormat("fp4_e2m1", "group", 16, zero_point=False, scale_dtype="fp8_e4m3"),
)
STORED = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "fp8_e4m3": ml_dtypes.float8_e4m3fn}
ENDS = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "fp8_e4m3": (-448, 448), "fp4_e2m1": (-6, 6)}
FP4 = np.array(sorted({sign * value for sign in (1, -1) for value in (0, 0.5, 1, 1.5, 2, 3, 4, 6)}))


def _weight(rows: int = 12, columns: int = 96) -> np.ndarray:
    rng = np.random.default_rng(5)
    weight = rng.standard_t(4, size=(rows, columns)) * 0.02
    weight[3] = 0
    weight[4, :48] = np.abs(weight[4, :48])
    return weight.astype(np.float32)


def _naive(weight: np.ndarray, form: WeightFormat) -> np.ndarray:
    """Round one group after the other, in float64 but for what is stored."""
    low, high = ENDS[form.element]
    size = {"group": form.group_size, "channel": weight.shape[1], "tensor": weight.size}[form.granularity]
    whole = np.float32(np.abs(weight).max() / (6 * 448)) if form.two_level else 1.0
    result = []
    for group in weight.reshape(-1, size).astype(np.float64):
        span = max(group.max(), 0) - min(group.min(), 0) if form.zero_point else 2 * np.abs(group).max()
        scale = float(STORED[form.scale_dtype](span / (high - low) / whole))
        step = scale * whole
        if step == 0:
            result.append(group)
            continue
        zero = np.clip(np.rint(low - min(group.min(), 0) / step), low, high) if form.zero_point else 0
        scaled = np.clip(group / step + zero, low, high)
        if form.element == "fp8_e4m3":
            codes = scaled.astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
        elif form.element == "fp4_e2m1":
            codes = FP4[np.abs(scaled[:, None] - FP4).argmin(axis=1)]
        else:
            codes = np.rint(scaled)
        result.append((codes - zero) * step)
    return np.array(result).reshape(weight.shape)


@pytest.mark.parametrize("form", FORMATS, ids=lambda row: row.title)
def test_nearest_codes_are_those_of_a_plain_loop(form: WeightFormat) -> None:
    weight = _weight()
    got = quantized_from_float(weight, form, "rtn").dequantized()
    # ties and float32 divisions may land on either side of a step; nothing else may differ
    wrong = np.abs(got - _naive(weight, form)) > 1e-7
    assert wrong.mean() < 0.002
    np.testing.assert_array_equal(got[3], 0)


@pytest.mark.parametrize("form", FORMATS, ids=lambda row: row.title)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_search_is_never_worse_for_any_group(form: WeightFormat, weighted: bool) -> None:
    weight = _weight()
    importance = np.geomspace(0.1, 10, weight.shape[1]).astype(np.float32) if weighted else None
    errors = {}
    for method in ("rtn", "mse"):
        squared = (quantized_from_float(weight, form, method, importance).dequantized() - weight) ** 2
        if importance is not None:
            squared = squared * importance
        size = {"group": form.group_size, "channel": weight.shape[1], "tensor": weight.size}[form.granularity]
        errors[method] = squared.astype(np.float64).reshape(-1, size).sum(axis=1)
    assert (errors["mse"] <= errors["rtn"] * (1 + 1e-5)).all()
    if form.element in ("int4", "uint4", "fp4_e2m1"):
        assert errors["mse"].sum() < 0.99 * errors["rtn"].sum()


def test_rows_are_worked_on_in_blocks_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = _weight(40, 64)
    for form, method in itertools.product(FORMATS, ("rtn", "mse")):
        whole = quantized_from_float(weight, form, method)
        monkeypatch.setattr("specc.quantize.quantized_from_float.BLOCK_ELEMENTS", 64 * 7)
        monkeypatch.setattr("specc.quantize.scale_search.PIECE_ELEMENTS", 32 * 3)
        parts = quantized_from_float(weight, form, method)
        monkeypatch.undo()
        np.testing.assert_array_equal(whole.codes, parts.codes)
        np.testing.assert_array_equal(whole.scales, parts.scales)


def test_scales_beyond_float16_stay_finite() -> None:
    weight = np.array([[1e-9] * 32, [3e7] * 32], np.float32)
    quantized = quantized_from_float(weight, FORMATS[0], "rtn")
    assert np.isfinite(quantized.dequantized()).all()
    assert (quantized.scales > 0).all()


def test_formats_and_parts_that_do_not_fit_are_bugs() -> None:
    int4 = FORMATS[0]
    with pytest.raises(SpeccBug, match="do not divide"):
        quantized_from_float(np.zeros((2, 48), np.float32), int4, "rtn")
    with pytest.raises(SpeccBug, match="expected float32"):
        quantized_from_float(np.zeros((2, 32)), int4, "rtn")
    for arguments in (("uint4", "group", 32, False), ("int4", "group", 32, True), ("int8", "channel", 32, False)):
        with pytest.raises(SpeccBug):
            WeightFormat(*arguments)
    codes, scales = np.zeros((2, 32), np.int8), np.ones((2, 1), np.float32)
    QuantizedWeight(int4, codes, scales)
    for wrong in (
        (codes.astype(np.int16), scales),
        (codes + np.int8(8), scales),
        (codes, scales[:1]),
        (codes, scales * np.float32(1.0001)),
        (codes, scales * np.float32(np.inf)),
        (codes, scales, codes[:, :1]),
        (codes, scales, None, np.float32(1)),
    ):
        with pytest.raises(SpeccBug):
            QuantizedWeight(int4, *wrong)


@pytest.mark.parametrize(
    ("form", "bits"), [(FORMATS[0], 4.5), (FORMATS[1], 5.25), (FORMATS[2], 8), (FORMATS[7], 4.5)], ids=str
)
def test_bits_of_a_weight_count_scales_and_zero_points(form: WeightFormat, bits: float) -> None:
    assert form.bits == bits
