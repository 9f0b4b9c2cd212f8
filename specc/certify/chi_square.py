"""The chi-square distribution's tail, in closed form: the core install has no SciPy."""

from __future__ import annotations

from math import erfc, exp, lgamma, log, sqrt


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the chance that a chi-square variable exceeds `statistic`.

    Q(k/2, x/2) by the recurrence Q(a + 1, y) = Q(a, y) + y^a e^-y / Gamma(a + 1), from Q(1/2, y) = erfc(sqrt y) or
    Q(1, y) = e^-y.

    Args:
        statistic: x, at least 0.
        freedom: k, degrees of freedom, at least 1.

    Source: Abramowitz and Stegun, 26.4.4 and 26.4.5.
    Checked by: tests/unit/certify/test_chi_square.py
    """
    half = statistic / 2
    if half == 0:
        return 1.0
    tail, a = (erfc(sqrt(half)), 0.5) if freedom % 2 else (exp(-half), 1.0)
    while a < freedom / 2:
        tail += exp(a * log(half) - half - lgamma(a + 1))
        a += 1
    return min(1.0, tail)
