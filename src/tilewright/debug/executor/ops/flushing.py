"""fp32 functions to which a subnormal number is a zero.

Triton links CUDA's libdevice with ``nvvm-reflect-ftz``, so that all of it, and what ``tl.math`` has from there
or as an approximate instruction, runs as PTX's ``.ftz``: subnormal operands and results become zeros of their
sign. On an H200 (Triton 3.6, proof/conformance_gpu.py) that showed in sqrt, rsqrt, floor, ceil, erf, sin, asin,
asinh, atan, atanh, atan2, sinh, tan, tanh, log1p, expm1, fmod, hypot and the Bessel functions; in the results of
pow; and not in + - * / (``div_rn`` too), %, trunc, rint, exp, log, log2, log10, erfinv, sqrt_rn. What its inputs
did not reach (results of exp2, the ``fast_`` functions, directed rounding, lgamma, nextafter) follows from the
instructions in the PTX for sm_90, which are the same from Triton 3.6 and 3.9. Only pow and fdim are not: 3.9
flushes in fdim rather than in pow. Here they are as measured.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import hardshrink, threshold

Function = Callable[..., Tensor]

_SMALLEST = torch.finfo(torch.float32).smallest_normal
_SUBNORMAL = _SMALLEST - torch.finfo(torch.float32).smallest_normal * 2.0**-23  # the largest one


def flushed(values: Tensor) -> Tensor:
    """Subnormal numbers of fp32 as zeros of their sign; other dtypes as they are."""
    if values.dtype != torch.float32:
        return values
    return torch.copysign(hardshrink(values, _SUBNORMAL), values)


def flushing(function: Function) -> Function:
    """On flushed operands, and its result flushed."""
    return lambda *values: flushed(function(*map(flushed, values)))


def flushing_operands(function: Function) -> Function:
    """Enough where no other operands have a subnormal result."""
    return lambda *values: function(*map(flushed, values))


def flushing_result(function: Function) -> Function:
    return lambda *values: flushed(function(*values))


def flushing_positive_result(function: Function) -> Function:
    """In one quick pass: exp2 is in the inner loop of every attention."""

    def wrapped(*values: Tensor) -> Tensor:
        found = function(*values)
        return threshold(found, _SUBNORMAL, 0.0) if found.dtype == torch.float32 else found

    return wrapped


def undefined_for_subnormals(function: Function) -> Function:
    """libdevice's cube roots: their last step of Newton's is 0 times infinity for what was flushed on the way."""

    def wrapped(x: Tensor) -> Tensor:
        found = function(x)
        if x.dtype != torch.float32:
            return found
        return found.masked_fill((x != 0) & (x.abs() < _SMALLEST), torch.nan)

    return wrapped


def neighbour(a: Tensor, b: Tensor) -> Tensor:
    """``nextafter``: from zero to the smallest normal number of fp32, which it does not flush itself."""
    near = torch.nextafter(flushed(a), flushed(b))
    if a.dtype != torch.float32:
        return near
    return torch.where((flushed(a) == 0) & (near != 0), torch.copysign(torch.full_like(near, _SMALLEST), near), near)
