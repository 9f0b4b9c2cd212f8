"""The range probe of builds in float16: weights beyond it are named, whoever would convert them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from specc.checkpoint.source import Float32Array, SourceCheckpoint, TensorHeader
from specc.errors import SpeccError

FLOAT16_MAX: Final = 65504.0
NAMED: Final = 4


def check_float16_range(
    source: SourceCheckpoint, probed: Iterable[TensorHeader], weights: Iterable[TensorHeader]
) -> None:
    """Refuse a checkpoint with a weight that float16 cannot hold.

    Args:
        source: opened checkpoint.
        probed: tensors that the back end converts while it loads; each that is not float16 already is read once.
        weights: all that the graph has, for the message.

    Raises:
        SpeccError: SPC404, naming the weights beyond the range.
    """
    if any(_largest_of(source, header) > FLOAT16_MAX for header in probed):
        raise beyond_float16(source, weights)


def fits_float16(values: Float32Array) -> bool:
    """Return whether every value stays finite in float16."""
    return largest_magnitude(values) <= FLOAT16_MAX


def beyond_float16(source: SourceCheckpoint, weights: Iterable[TensorHeader]) -> SpeccError:
    """Return the error that names the weights beyond the range of float16; at least one must be."""
    largest = {header.name: _largest_of(source, header) for header in weights}
    beyond = {name: value for name, value in largest.items() if value > FLOAT16_MAX}
    named = ", ".join(f"`{name}` ({value:.6g})" for name, value in list(beyond.items())[:NAMED])
    more = f", and {len(beyond) - NAMED} more" if len(beyond) > NAMED else ""
    return SpeccError(
        "SPC404",
        f"{source.uri} {next(iter(beyond))}",
        f"Values of a magnitude beyond float16, which ends at {FLOAT16_MAX:.0f}, stand in {named}{more}.",
        "They would become infinite, and every text with them.",
        "Use the scheme `bf16`, which has the range of float32, or `f32` on the CPU.",
    )


def largest_magnitude(values: Float32Array) -> float:
    """Return the largest magnitude, without an array of magnitudes; 0 of nothing."""
    return max(float(np.max(values, initial=0.0)), -float(np.min(values, initial=0.0)))


def _largest_of(source: SourceCheckpoint, header: TensorHeader) -> float:
    return 0.0 if header.encoding == "f16" else largest_magnitude(source.read_float32(header.name))
