"""Student's t distribution, and a test of two means. Law: numbers in, numbers out.

SciPy has it too, but is not installed everywhere; the tests compare the two.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

#: Probability of an interval.
_SHARE = 0.95
#: Maximum steps of a continued fraction and of a bisection; both end long before.
_STEPS = 300


def two_sided(t: float, degrees: float) -> float:
    """The probability that a t with that many degrees of freedom is at least as far from 0 as ``t``.

    It is I(ν/2, 1/2) at ν/(ν + t²), the regularised incomplete beta function.
    """
    if math.isinf(t):
        return 0.0
    return _beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def quantile(degrees: float) -> float:
    """Half of a 95 % interval in standard errors, for a number of degrees of freedom (1 or more)."""
    low, high = 0.0, 13.0  # for one degree it is 12.7
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, degrees) > 1 - _SHARE else (low, middle)
    return high


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """The probability of means at least this far apart if both samples had the same mean (Welch's t-test, two-sided).

    Each has at least two values. Two samples without variation are either equal or not.
    """
    shares = [statistics.variance(values) / len(values) for values in (one, other)]
    apart = abs(statistics.fmean(one) - statistics.fmean(other))
    if sum(shares) == 0:
        return 1.0 if apart == 0 else 0.0
    degrees = sum(shares) ** 2 / sum(
        share**2 / (len(values) - 1) for share, values in zip(shares, (one, other), strict=True)
    )
    return two_sided(apart / math.sqrt(sum(shares)), degrees)


def _beta(x: float, a: float, b: float) -> float:
    """I(a, b) at x, by its continued fraction (DLMF 8.17.22) where that converges fast, else by its symmetry."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    # Lentz's method: the fraction from the front, as a product of ratios.
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = lower
    for step in range(1, _STEPS):
        for term in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            lower = 1 / (1 + term * lower)
            upper = 1 + term / upper
            value *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return front * value
