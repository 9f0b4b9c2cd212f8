from __future__ import annotations

import pytest
from scipy import stats

from specc.certify.chi_square import chi_square_tail


@pytest.mark.parametrize("freedom", [1, 2, 3, 9, 15, 40])
def test_the_tail_is_that_of_scipy(freedom):
    for statistic in (0.0, 0.01, 1.0, 7.5, 30.0, 120.0, 2000.0):
        assert chi_square_tail(statistic, freedom) == pytest.approx(stats.chi2.sf(statistic, freedom), rel=1e-9, abs=0)
