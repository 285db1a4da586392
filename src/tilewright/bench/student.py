"""Student's t distribution, without SciPy."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

_NORMAL_FROM = 1e6  # degrees of freedom above which nothing tells it from the normal distribution
_TINY = 1e-300


def upper_tail(t: float, df: float) -> float:
    """The probability that Student's t with ``df`` degrees of freedom exceeds ``t``."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    if df > _NORMAL_FROM:
        return NormalDist().cdf(-t)
    half = 0.5 * _incomplete_beta(df / 2, 0.5, df / (df + t * t))
    return half if t >= 0 else 1 - half


@functools.lru_cache(maxsize=4096)
def quantile(tail: float, df: float) -> float:
    """The value that Student's t exceeds with probability ``tail``, at most one half; infinite without freedom."""
    if df <= 0 or tail <= 0:
        return math.inf
    low, high = 0.0, 1.0
    while upper_tail(high, df) > tail:
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, df) > tail else (low, middle)
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - front * _fraction(b, a, 1 - x) / b
    return front * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + numerator * d)
            c = _away_from_zero(1 + numerator / c)
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
