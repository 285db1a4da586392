"""Rounding once where the processor would round twice: by way of a wider type that is rounded to odd.

A value rounded to odd (towards zero, then its last bit set if anything was cut off) in a type with at least
two bits more rounds to the same narrower value as the exact one (Boldo, Melquiond 2008).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from tilewright.debug.executor.tile import any_set

_SPLIT = 134217729.0  # 2**27 + 1 halves the bits of a double
_FAR = 1 << 20  # farther apart than any two doubles
_SAFE = (2.0**-400, 2.0**400)  # sizes between which products of doubles and their errors are exact


def square_root(values: Tensor) -> Tensor:
    """NumPy's is the processor's, rounded once; the library behind torch's is not."""
    if values.element_size() == 2:
        return square_root(values.float()).to(values.dtype)
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.sqrt(values.numpy()))


def narrowed(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Doubles to a narrower float type, rounded once; torch goes through fp32 to those of 16 bits."""
    if dtype in (torch.float64, torch.float32):
        return values.to(dtype)
    found = values.to(dtype)
    risky = _may_be_tie(values.to(torch.float32), dtype)
    if any_set(risky):
        found[risky] = single_to_odd(values[risky]).to(dtype)
    return found


_FRACTION = {torch.float64: 52, torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}


def _may_be_tie(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Lanes halfway between two values of a narrower type, where a first rounding may have put them."""
    dropped = _FRACTION[values.dtype] - _FRACTION[dtype]
    bits = values.view(torch.int64 if values.dtype == torch.float64 else torch.int32)
    tie = bits.bitwise_and((1 << dropped) - 1) == 1 << (dropped - 1)
    return tie | (values.abs() < torch.finfo(dtype).smallest_normal)  # subnormals drop more bits


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
    product, summand = torch.broadcast_tensors(a.double() * b.double(), c.double())  # the product is exact
    total = product + summand
    found = narrowed(total, a.dtype)
    risky = _may_be_tie(total, a.dtype)
    if any_set(risky):
        found[risky] = narrowed(sum_to_odd(product[risky], summand[risky]), a.dtype)
    return found


def _fused_doubles(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    found = _fused_safely(a, b, c)
    risky = torch.zeros_like(found, dtype=torch.bool)
    for size in (a.abs(), b.abs(), (a * b).abs(), c.abs(), found.abs()):
        risky |= ~((size > _SAFE[0]) & (size < _SAFE[1]))
    if any_set(risky):
        found[risky] = _fused_scaled(a[risky], b[risky], c[risky])
    return found


def _fused_safely(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Of doubles of such sizes that nothing on the way overflows or is cut off (Boldo, Melquiond 2008)."""
    product, lacks = two_product(a, b)
    total, rest = two_sum(c, lacks)
    upper, lower = two_sum(product, total)
    return upper + sum_to_odd(rest, lower)


def _fused_scaled(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Of doubles of any size: of their fractions, which are put back to size at the end."""
    (x, a_power), (y, b_power), (z, c_power) = (torch.frexp(t) for t in (a, b, c))
    product_power = (a_power + b_power).masked_fill((a == 0) | (b == 0), -_FAR)
    c_power = c_power.masked_fill(c == 0, -_FAR)
    top = torch.maximum(product_power, c_power)
    # What is smaller by so much that only its sign counts may be a little larger.
    x, z = (_scaled(t, (power - top).clamp(min=-250)) for t, power in ((x, product_power), (z, c_power)))
    near = _scaled(_fused_safely(x, y, z), top)
    # An infinite summand is the result, even where the product of finite factors overflows the other way.
    plain = torch.where(c.isinf() & a.isfinite() & b.isfinite(), c, a * b + c)
    exact = a.isfinite() & b.isfinite() & c.isfinite() & (((a != 0) & (b != 0)) | (c != 0))
    found = torch.where(exact, near, plain)
    tiny = exact & (found.abs() < torch.finfo(torch.float64).smallest_normal)
    if any_set(tiny):
        found[tiny] = _exactly(a[tiny], b[tiny], c[tiny])
    return found


def _scaled(values: Tensor, powers: Tensor) -> Tensor:
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.ldexp(values.numpy(), powers.numpy()))


def _exactly(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """For the few lanes whose result is subnormal, and would be rounded twice."""
    plain = a * b + c
    for lane, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        if x and y:
            plain[lane] = _nearest(Fraction(x) * Fraction(y) + Fraction(z), float(plain[lane]))
    return plain


def _nearest(exact: Fraction, plain: float) -> float:
    if exact == 0:
        return plain
    return float(exact) or (0.0 if exact > 0 else -0.0)  # rounded once, subnormals too


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
