"""Factors of input channels that make weights, or activations, easier to round: AWQ and SmoothQuant.

A layer computes W x = (W diag(s)) (diag(1/s) x) for any s > 0. W diag(s) is rounded; 1/s is folded into the operation
before, so the model without rounding stays the same function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.quantize.elements import Float32Array
from specc.quantize.quantized_from_float import rounding_error
from specc.quantize.scale_search import RoundingMethod
from specc.quantize.statistics import ActivationStatistics

STRENGTHS: Final = tuple(step / 20 for step in range(20))
"""Exponents that AWQ tries; 0 leaves weights alone, so the result is never worse than that."""
LEAST: Final = 1e-4


def awq_scales(
    weights: Sequence[Float32Array], form: WeightFormat, statistics: ActivationStatistics, method: RoundingMethod
) -> Float32Array:
    """Return the factors of the input channels under which rounding moves the outputs least.

    Args:
        weights: float32 [N, K] each, the layers that share the inputs.
        form: what they are rounded to.
        statistics: of their inputs.
        method: how codes are chosen.

    Returns:
        float32 [K], positive: mean_abs ** strength over its geometric middle, with the strength of `STRENGTHS` that has
        the least squared error of the weights, each channel weighted by its mean squared activation.

    Source: arXiv:2306.00978, section 3.2.
    Checked by: tests/unit/quantize/test_channel_scales.py
    """
    candidates = [_awq_candidate(statistics.mean_abs, strength) for strength in STRENGTHS]
    errors = [
        sum(rounding_error(weight, form, method, statistics.mean_square, scales) for weight in weights)
        for scales in candidates
    ]
    return candidates[int(np.argmin(errors))]


def smooth_scales(weights: Sequence[Float32Array], statistics: ActivationStatistics, strength: float) -> Float32Array:
    """Return the factors that move the range of activations into the weights, so that both round well to 8 bits.

    Args:
        weights: float32 [N, K] each, the layers that share the inputs.
        statistics: of their inputs.
        strength: alpha; 0 leaves the activations' range, 1 moves all of it into the weights.

    Returns:
        float32 [K], positive: max_abs ** alpha / (largest weight of the channel) ** (1 - alpha).

    Source: arXiv:2211.10438, equation 4.
    """
    largest = np.max([np.abs(weight).max(axis=0) for weight in weights], axis=0)
    activations = np.maximum(statistics.max_abs, np.float32(LEAST))
    scales = activations**strength / np.maximum(largest, np.float32(LEAST)) ** (1 - strength)
    return np.asarray(np.maximum(scales, LEAST), np.float32)


def _awq_candidate(mean_abs: Float32Array, strength: float) -> Float32Array:
    scales = np.maximum(mean_abs, np.float32(LEAST)) ** np.float32(strength)
    return np.asarray(scales / np.sqrt(scales.max() * scales.min()), np.float32)
