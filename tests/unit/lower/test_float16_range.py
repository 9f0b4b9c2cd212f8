"""The range probe: the largest magnitude of either sign, read once, and not at all where float16 is stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specc.errors import SpeccError
from specc.lower.float16_range import NAMED, check_float16_range, fits_float16, largest_magnitude
from tests.tiny_engines import source_from_sizes
from tests.tiny_models import TinyLlama


@pytest.mark.parametrize(("value", "fits"), [(65504.0, True), (-65504.0, True), (65505.0, False), (-1e9, False)])
def test_the_range_has_two_ends(value: float, fits: bool) -> None:
    values = np.array([[0.0, value], [1.0, -1.0]], dtype=np.float32)
    assert largest_magnitude(values) == abs(value)
    assert fits_float16(values) is fits


def test_nothing_has_no_magnitude() -> None:
    assert largest_magnitude(np.zeros((0, 4), dtype=np.float32)) == 0.0


def test_many_weights_are_counted_and_float16_ones_not_read(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path, TinyLlama(stored="bf16"))
    headers = list(source.headers.values())
    check_float16_range(source, headers, headers)
    assert sorted(source.reads) == sorted(source.tensors)
    for name in source.tensors:
        source.tensors[name] = np.full((2,), 1e5, dtype=np.float32)
    with pytest.raises(SpeccError) as caught:
        check_float16_range(source, headers[:1], headers)
    assert caught.value.got.count("(100000)") == NAMED
    assert caught.value.got.endswith(f", and {len(headers) - NAMED} more.")
    stored = source_from_sizes(tmp_path / "f16", TinyLlama(stored="f16"))
    check_float16_range(stored, stored.headers.values(), stored.headers.values())
    assert stored.reads == []
