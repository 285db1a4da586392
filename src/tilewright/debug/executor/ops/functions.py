"""Functions of floats by the names that ``math`` and CUDA's libdevice have for them, as NumPy and torch compute them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tilewright.debug.executor.ops.floating import greatest, least
from tilewright.debug.executor.ops.flushing import (
    flushing,
    flushing_operands,
    flushing_positive_result,
    flushing_result,
    neighbour,
    undefined_for_subnormals,
)
from tilewright.debug.executor.ops.rounding import fused, square_root

Function = Callable[..., Tensor]


def in_double(function: Function) -> Function:
    """Worked out in fp64, so that the result is within a unit of the last place of fp32."""

    def wide(*values: Tensor) -> Tensor:
        return function(*(value.double() for value in values)).to(values[0].dtype)

    return wide


def _cube_root(x: Tensor) -> Tensor:
    return torch.copysign(x.abs().pow(1.0 / 3.0), x)


def _round_half_away(x: Tensor) -> Tensor:
    whole = x.trunc()
    return torch.where((x - whole).abs() >= 0.5, whole + torch.copysign(torch.ones_like(x), x), whole)


def _positive_difference(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a <= b, torch.zeros_like(a), a - b)


def _float_remainder(a: Tensor, b: Tensor) -> Tensor:
    """NumPy's: torch's is wrong for subnormal divisors."""
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.fmod(a.numpy(), b.numpy()))


def _gamma(x: Tensor) -> Tensor:
    """By its logarithm; left of zero the sign alternates from pole to pole."""
    size = torch.exp(torch.lgamma(x))
    odd = (x < 0) & (x.floor().remainder(2.0) == 1.0)
    whole = (x == x.floor()) & (x < 0)
    signed = torch.where(x == 0, torch.copysign(size, x), torch.where(odd, -size, size))
    return signed.masked_fill(whole | (x == -math.inf), math.nan)


def _of_half_turns(x: Tensor, quarters: int) -> Tensor:
    """Sine of pi times x, some quarter turns on: all but an eighth of a turn is taken off exactly first."""
    turned = torch.fmod(x, 2.0)
    nearest = (2.0 * turned).round()
    rest = (turned - 0.5 * nearest) * math.pi
    quarter = (nearest + quarters).remainder(4.0)
    found = torch.where(quarter.remainder(2.0) == 0, torch.sin(rest), torch.cos(rest))
    return torch.where(quarter >= 2, -found, found)


def _sine_of_half_turns(x: Tensor) -> Tensor:
    """Its zeros have the sign of x."""
    found = _of_half_turns(x, 0)
    return torch.where(found == 0, torch.copysign(found, x), found)


def _cosine_of_half_turns(x: Tensor) -> Tensor:
    """Its zeros are all positive."""
    return _of_half_turns(x, 1) + 0.0


def _norm(*values: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(*values)).square().sum(0).sqrt()


_PLAIN: dict[str, Function] = {
    "fabs": torch.abs,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atan2": torch.atan2,
    "atanh": torch.atanh,
    "cbrt": in_double(_cube_root),
    "ceil": torch.ceil,
    "copysign": torch.copysign,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "cospi": in_double(_cosine_of_half_turns),
    "cyl_bessel_i0": in_double(torch.special.i0),
    "cyl_bessel_i1": in_double(torch.special.i1),
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfcinv": in_double(lambda x: -torch.special.ndtri(x / 2) / math.sqrt(2.0)),
    "erfcx": in_double(torch.special.erfcx),
    "erfinv": torch.erfinv,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "exp10": in_double(lambda x: torch.pow(10.0, x)),
    "expm1": torch.expm1,
    "fdim": _positive_difference,
    "fdividef": torch.div,
    "floor": torch.floor,
    "fma": fused,
    "fmax": greatest,
    "fmin": least,
    "fmod": _float_remainder,
    "hypot": in_double(torch.hypot),
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "lgamma": torch.lgamma,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "nearbyint": torch.round,
    "nextafter": neighbour,
    "norm3d": in_double(_norm),
    "norm4d": in_double(_norm),
    "normcdf": in_double(torch.special.ndtr),
    "normcdfinv": in_double(torch.special.ndtri),
    "pow": in_double(torch.pow),
    "rcbrt": in_double(lambda x: _cube_root(x).reciprocal()),
    "rhypot": in_double(lambda a, b: torch.hypot(a, b).reciprocal()),
    "rint": torch.round,
    "rnorm3d": in_double(lambda *v: _norm(*v).reciprocal()),
    "rnorm4d": in_double(lambda *v: _norm(*v).reciprocal()),
    "round": _round_half_away,
    "rsqrt": in_double(torch.rsqrt),
    "saturate": lambda x: least(greatest(x, torch.zeros_like(x)), torch.ones_like(x)),
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sinpi": in_double(_sine_of_half_turns),
    "sqrt": square_root,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "tgamma": in_double(_gamma),
    "trunc": torch.trunc,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
}
_FLUSHING = {
    flushing: ("atan2", "cyl_bessel_i1", "erfcx", "fdividef", "fma", "fmod"),
    flushing_operands: (
        *("asin", "asinh", "atan", "atanh", "ceil", "erf", "erfcinv", "expm1", "fabs", "floor", "hypot", "j1"),
        *("lgamma", "log1p", "norm3d", "norm4d", "rhypot", "rnorm3d", "rnorm4d", "rsqrt", "saturate", "sin", "sinh"),
        *("sinpi", "sqrt", "tan", "tanh", "y0", "y1"),
    ),
    flushing_result: ("pow",),
    flushing_positive_result: ("exp2", "normcdf"),
    undefined_for_subnormals: ("cbrt", "rcbrt"),
}
FUNCTIONS: dict[str, Function] = {
    **_PLAIN,
    **{name: wrapped(_PLAIN[name]) for wrapped, names in _FLUSHING.items() for name in names},
}
# libdevice's ``fast_`` functions are one or two approximate instructions, each of them ``.ftz``.
FAST: dict[str, Function] = {
    **{name: flushing(_PLAIN[name]) for name in ("cos", "exp", "exp10", "log", "log10", "log2", "sin", "tan")},
    "pow": flushing(in_double(lambda a, b: torch.exp2(b * torch.log2(a)))),  # negative numbers have no logarithm
}
