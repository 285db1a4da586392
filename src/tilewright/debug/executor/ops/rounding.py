"""Rounding once where the processor would round twice: by way of a wider type that is rounded to odd.

A value rounded to odd (towards zero, then its last bit set if anything was cut off) in a type with at least
two bits more rounds to the same narrower value as the exact one (Boldo, Melquiond 2008).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from tilewright.debug.executor.tile import any_set

_SPLIT = 134217729.0  # 2**27 + 1 halves the bits of a double
_SAFE = (2.0**-400, 2.0**400)  # sizes between which products of doubles and their errors are exact


def square_root(values: Tensor) -> Tensor:
    """NumPy's is the processor's, rounded once; the library behind torch's is not."""
    if values.dtype == torch.bfloat16:
        return square_root(values.float()).bfloat16()
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.sqrt(values.numpy()))


def narrowed(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Doubles to a narrower float type, rounded once; torch goes through fp32 to those of 16 bits."""
    if dtype in (torch.float64, torch.float32):
        return values.to(dtype)
    return single_to_odd(values).to(dtype)


def single_to_odd(values: Tensor) -> Tensor:
    """Doubles to fp32, rounded to odd."""
    near = values.to(torch.float32)
    back = near.double()
    bits = near.view(torch.int32)
    cut = (back.abs() > values.abs()).to(torch.int32)  # was rounded away from zero
    odd = (bits - cut) | 1
    return torch.where((back == values) | values.isnan(), bits, odd).view(torch.float32)


def sum_to_odd(a: Tensor, b: Tensor) -> Tensor:
    """Sum of doubles, rounded to odd."""
    total, error = two_sum(a, b)
    bits = total.view(torch.int64)
    inexact = (error != 0) & total.isfinite() & (bits & 1 == 0)
    step = torch.where((error > 0) == (total > 0), 1, -1)
    return torch.where(inexact, bits + step, bits).view(torch.float64)


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum, and exactly what it lacks."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded product of doubles, and exactly what it lacks."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(values: Tensor) -> tuple[Tensor, Tensor]:
    scaled = values * _SPLIT
    high = scaled - (scaled - values)
    return high, values - high


def fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` rounded once."""
    if a.dtype == torch.float64:
        return _fused_doubles(*torch.broadcast_tensors(a, b, c))
    return narrowed(sum_to_odd(a.double() * b.double(), c.double()), a.dtype)


def _fused_doubles(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    product, lacks = two_product(a, b)
    total, rest = two_sum(c, lacks)
    upper, lower = two_sum(product, total)
    found = upper + sum_to_odd(rest, lower)
    sizes = [t.abs() for t in (a, b, a * b, c, found)]
    risky = torch.zeros_like(found, dtype=torch.bool)
    for size in sizes:
        risky |= ~((size > _SAFE[0]) & (size < _SAFE[1]))
    if any_set(risky):
        found[risky] = _exactly(a[risky], b[risky], c[risky])
    return found


def _exactly(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """For the few lanes whose size lets no trick with doubles work."""
    plain = a * b + c
    for lane, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        if x and y and all(map(math.isfinite, (x, y, z))):
            plain[lane] = _nearest(Fraction(x) * Fraction(y) + Fraction(z), float(plain[lane]))
    return plain


def _nearest(exact: Fraction, plain: float) -> float:
    if exact == 0:
        return plain
    try:
        value = exact.numerator / exact.denominator  # rounded once, subnormals too
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    return value or (0.0 if exact > 0 else -0.0)


def exact_or_odd(values: Tensor, *, unsigned: bool) -> Tensor:
    """int64 (or its unsigned reading) as doubles, rounded to odd where they have more than 53 bits."""
    large = (values >= 1 << 53) | (values <= -(1 << 53))
    if unsigned:
        large |= values < 0
    if not any_set(large):
        return values.double()
    high = values >> 11
    if unsigned:
        high = high & ((1 << 53) - 1)
    odd = high | (values & 2047 != 0)
    return torch.where(large, odd.double() * 2048.0, values.double())
