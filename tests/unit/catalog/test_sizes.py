"""Sizes in messages."""

from __future__ import annotations

import pytest

from specc.catalog.sizes import size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (136_600_000_000, "136.6 GB"), (1_000_000_000, "1.0 GB"), (999_960_000, "1.0 GB"), (60_000_000, "60.0 MB"),
        (1_449_999, "1.4 MB"), (12_345, "12.3 kB"), (949, "949 B"), (7, "7 B"), (0, "0 B"),
    ],
)  # fmt: skip
def test_a_size_has_the_unit_that_leaves_two_digits(count: int, text: str) -> None:
    assert size_text(count) == text
