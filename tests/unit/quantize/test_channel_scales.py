"""Factors of channels: the function stays the same, rounding moves it less, outliers leave the activations."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from specc.catalog.weight_formats import NVFP4, WeightFormat
from specc.errors import SpeccBug
from specc.quantize.channel_scales import awq_scales, smooth_scales
from specc.quantize.quantized_from_float import quantized_from_float, rounding_error
from specc.quantize.statistics import ActivationStatistics, StatisticsSum, output_error

INT4 = WeightFormat("int4", "group", 32, zero_point=False, scale_dtype="f16")
INT8 = WeightFormat("int8", "channel", None, zero_point=False)


def inputs_with_outliers(tokens: int = 400, channels: int = 96) -> np.ndarray:
    rng = np.random.default_rng(2)
    mixed = rng.standard_normal((tokens, channels)) @ (
        np.eye(channels) + 0.2 * rng.standard_normal((channels, channels))
    )
    mixed[:, [5, 40, 77]] *= 25
    return mixed.astype(np.float32)


def statistics_of(inputs: np.ndarray, *, hessian: bool = True) -> ActivationStatistics:
    total = StatisticsSum(inputs.shape[1], hessian=hessian)
    for part in np.array_split(inputs, 7):
        total.add(part)
    return total.statistics()


def weights(rows: int = 48, channels: int = 96) -> np.ndarray:
    return (np.random.default_rng(3).standard_normal((rows, channels)) * 0.05).astype(np.float32)


def test_statistics_of_batches_are_those_of_all_rows() -> None:
    inputs = inputs_with_outliers()
    got = statistics_of(inputs)
    exact = inputs.astype(np.float64)
    assert got.tokens == 400
    np.testing.assert_allclose(got.mean_abs, np.abs(exact).mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(got.max_abs, np.abs(inputs).max(axis=0))
    np.testing.assert_allclose(got.mean_square, (exact**2).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(got.hessian, exact.T @ exact / 400, rtol=1e-4, atol=1e-4)
    assert statistics_of(inputs, hessian=False).hessian is None
    with pytest.raises(SpeccBug, match="no token"):
        StatisticsSum(3, hessian=False).statistics()


def test_output_error_is_that_of_the_outputs() -> None:
    inputs, weight = inputs_with_outliers(), weights()
    other = quantized_from_float(weight, INT4, "rtn").dequantized()
    expected = np.square(inputs @ (other - weight).T).sum() / np.square(inputs @ weight.T).sum()
    assert output_error(weight, other, statistics_of(inputs).hessian) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("method", "share"), [("rtn", 0.8), ("mse", 1.0)])
def test_awq_moves_outputs_less_than_rounding_alone(method: str, share: float) -> None:
    inputs, weight = inputs_with_outliers(), weights()
    statistics = statistics_of(inputs)
    scales = awq_scales([weight[:20], weight[20:]], INT4, statistics, method)
    assert (scales > 0).all()
    quantized = quantized_from_float(weight * scales, INT4, method, statistics.mean_square / scales**2)
    plain = quantized_from_float(weight, INT4, method, statistics.mean_square)
    errors = [
        output_error(weight, rounded, statistics.hessian)
        for rounded in (quantized.dequantized() / scales, plain.dequantized())
    ]
    # the search already favours channels with outliers: little is left for factors
    assert errors[0] <= share * errors[1]


@pytest.mark.parametrize(
    "form",
    [
        INT4,
        INT8,
        WeightFormat("uint4", "group", 16, zero_point=True),
        NVFP4,
        dataclasses.replace(INT8, granularity="tensor"),
    ],
    ids=lambda form: form.title,
)
def test_the_error_of_factors_is_that_of_the_matrix_they_give(form: WeightFormat) -> None:
    rng = np.random.default_rng(7)
    weight, factors = weights(), np.exp(rng.standard_normal(96)).astype(np.float32)
    importance = np.exp(rng.standard_normal(96)).astype(np.float32)
    rounded = quantized_from_float(weight * factors, form, "mse", importance / factors**2).dequantized() / factors
    expected = (np.square(rounded.astype(np.float64) - weight) * importance).sum()
    assert rounding_error(weight, form, "mse", importance, factors) == pytest.approx(expected, rel=1e-4)


def test_awq_leaves_even_activations_alone() -> None:
    even = ActivationStatistics(1, *(np.ones(96, np.float32),) * 3, None)
    np.testing.assert_array_equal(awq_scales([weights()], INT4, even, "rtn"), 1)


def test_smoothing_is_equation_4_and_helps_8_bits() -> None:
    inputs, weight = inputs_with_outliers(), weights()
    statistics = statistics_of(inputs)
    scales = smooth_scales([weight[:20], weight[20:]], statistics, 0.5)
    expected = [
        np.sqrt(np.abs(inputs[:, k]).max()) / np.sqrt(np.abs(weight[:, k]).max()) for k in range(inputs.shape[1])
    ]
    np.testing.assert_allclose(scales, expected, rtol=1e-5)

    def outputs(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        steps = np.abs(x).max(axis=1, keepdims=True) / 127
        return np.rint(x / steps) * steps @ quantized_from_float(w, INT8, "rtn").dequantized().T

    exact = inputs @ weight.T
    plain = np.square(outputs(inputs, weight) - exact).mean()
    smoothed = np.square(outputs(inputs / scales, weight * scales) - exact).mean()
    assert smoothed < 0.5 * plain


def test_channels_without_activation_or_weight_keep_finite_factors() -> None:
    weight = weights()
    weight[:, 3] = 0
    dead = ActivationStatistics(1, *(np.where(np.arange(96) == 4, 0, 1).astype(np.float32),) * 3, None)
    for scales in (awq_scales([weight], INT4, dead, "rtn"), smooth_scales([weight], dead, 0.5)):
        assert np.isfinite(scales).all()
        assert (scales > 0).all()
