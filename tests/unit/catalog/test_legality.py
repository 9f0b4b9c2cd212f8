"""Every scheme and cache dtype has a first SM under every back end that is only planned for."""

from __future__ import annotations

from specc.catalog.dtypes import DTYPES
from specc.catalog.gpus import COMPUTE_CAPABILITIES, sm_number
from specc.catalog.legality import FIRST_SM
from specc.catalog.schemes import SCHEMES


def test_the_table_is_complete() -> None:
    for backend in FIRST_SM:
        assert set(FIRST_SM[backend]) == set(SCHEMES) | set(DTYPES)
        assert set(FIRST_SM[backend].values()) <= set(COMPUTE_CAPABILITIES)


def test_sms_order_like_numbers() -> None:
    assert sm_number("8.9") < sm_number("10.0") < sm_number("12.1")
    assert sm_number("gfx942") < sm_number("7.5")
