"""Error compensation against the plain algorithm, one column after the other in float64."""

from __future__ import annotations

import numpy as np
import pytest

from specc.catalog.weight_formats import NVFP4, WeightFormat
from specc.errors import SpeccBug
from specc.quantize.error_compensation import DAMPING, compensation_from_statistics, quantized_with_compensation
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.statistics import ActivationStatistics, StatisticsSum, output_error

FORMATS = (
    WeightFormat("int4", "group", 32, zero_point=False),
    WeightFormat("uint4", "group", 16, zero_point=True),
    WeightFormat("int8", "channel", None, zero_point=False),
    WeightFormat("int8", "tensor", None, zero_point=False),
    NVFP4,
)


def _inputs(channels: int = 160) -> np.ndarray:
    rng = np.random.default_rng(4)
    basis = rng.standard_normal((24, channels))
    mixed = rng.standard_normal((600, 24)) @ basis + 0.3 * rng.standard_normal((600, channels))
    mixed[:, 7] = 0
    return mixed.astype(np.float32)


def _statistics(inputs: np.ndarray) -> ActivationStatistics:
    total = StatisticsSum(inputs.shape[1], hessian=True)
    total.add(inputs)
    return total.statistics()


def _weight(rows: int = 24, channels: int = 160) -> np.ndarray:
    return (np.random.default_rng(6).standard_normal((rows, channels)) * 0.05).astype(np.float32)


def _naive(weight: np.ndarray, form: WeightFormat, hessian: np.ndarray) -> np.ndarray:
    """Eliminate the channel of the largest activations left: update the rest, then drop it from the inverse."""
    low, high = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127)}[form.element]
    damped = hessian.astype(np.float64)
    diagonal = np.diagonal(damped).copy()
    np.fill_diagonal(damped, np.where(diagonal == 0, 1, diagonal) + DAMPING * diagonal.mean())
    inverse = np.linalg.inv(damped)
    work = weight.astype(np.float64)
    work[:, diagonal == 0] = 0
    size = weight.shape[1] if form.group_size is None else form.group_size
    result = np.empty_like(work)
    first = work.copy()
    left = list(range(weight.shape[1]))
    for column in sorted(left, key=lambda k: -diagonal[k]):
        start = column // size * size
        group = first[:, start : start + size]
        least, most = np.minimum(group.min(axis=1), 0), np.maximum(group.max(axis=1), 0)
        if form.granularity == "tensor":
            least, most = np.full_like(least, least.min()), np.full_like(most, most.max())
        span = (most - least) / 2 if form.zero_point else np.maximum(most, -least)
        scale = (span / ((high - low) / 2)).astype(np.float32).astype(np.float64)
        zero = np.clip(np.rint(low - least / scale), low, high) if form.zero_point else 0
        code = np.clip(np.rint(work[:, column] / scale + zero), low, high)
        result[:, column] = (code - zero) * scale
        error = (work[:, column] - result[:, column]) / inverse[column, column]
        left.remove(column)
        work[:, left] -= np.outer(error, inverse[column, left])
        inverse -= np.outer(inverse[:, column], inverse[column, :]) / inverse[column, column]
    return result


@pytest.mark.parametrize("form", FORMATS[:4], ids=lambda form: form.title)
def test_codes_are_those_of_the_plain_algorithm(form: WeightFormat) -> None:
    weight, statistics = _weight(rows=192), _statistics(_inputs())
    got = quantized_with_compensation(weight, form, compensation_from_statistics(statistics), "rtn").dequantized()
    expected = _naive(weight, form, statistics.hessian)
    # a float32 that rounds to the other side of a half moves all channels behind it, in that row alone
    rows = np.isclose(got, expected, rtol=1e-4, atol=1e-6).all(axis=1)
    assert rows.mean() > 0.9
    ours, plain = (output_error(weight, rounded, statistics.hessian) for rounded in (got, expected.astype(np.float32)))
    assert ours == pytest.approx(plain, rel=0.05)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.title)
@pytest.mark.parametrize("method", ["rtn", "mse"])
def test_outputs_move_less_than_under_rounding(form: WeightFormat, method: str) -> None:
    weight, statistics = _weight(), _statistics(_inputs())
    errors = [
        output_error(weight, quantized.dequantized(), statistics.hessian)
        for quantized in (
            quantized_with_compensation(weight, form, compensation_from_statistics(statistics), method),
            quantized_from_float(weight, form, method, statistics.mean_square),
        )
    ]
    assert errors[0] < 0.6 * errors[1]


def test_a_hessian_is_needed() -> None:
    statistics = ActivationStatistics(1, *(np.ones(160, np.float32),) * 3, None)
    with pytest.raises(SpeccBug, match="Hessian"):
        quantized_with_compensation(_weight(), FORMATS[0], compensation_from_statistics(statistics), "rtn")
