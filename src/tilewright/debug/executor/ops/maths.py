"""Functions of one or two floats: ``tl.math`` and CUDA's libdevice by their names."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.lanewise import result, unary
from tilewright.debug.executor.tile import Tile
from tilewright.debug.executor.ttir import Op


def _fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Rounded once: the product of two fp32 is exact in fp64, and so is that of narrower ones."""
    if a.dtype == torch.float64:
        return torch.addcmul(c, a, b)
    return (a.double() * b.double() + c.double()).to(a.dtype)


def _handle_fma(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    a, b, c = (tile.data for tile in operands)
    return result(op, _fma(a, b, c), operands)


def _cbrt(x: Tensor) -> Tensor:
    return x.sign() * x.abs().pow(1.0 / 3.0)


def _rint(x: Tensor) -> Tensor:
    return torch.round(x)


def _round_half_away(x: Tensor) -> Tensor:
    return x.sign() * (x.abs() + 0.5).floor()


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "abs": torch.abs,
    "fabs": torch.abs,
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atan2": torch.atan2,
    "atanh": torch.atanh,
    "cbrt": _cbrt,
    "ceil": torch.ceil,
    "copysign": torch.copysign,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "exp10": lambda x: torch.pow(10.0, x),
    "expm1": torch.expm1,
    "fdim": lambda a, b: torch.where(a > b, a - b, torch.zeros_like(a)),
    "floor": torch.floor,
    "fma": _fma,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "lgamma": torch.lgamma,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "nearbyint": _rint,
    "nextafter": torch.nextafter,
    "normcdf": torch.special.ndtr,
    "pow": torch.pow,
    "rcbrt": lambda x: 1.0 / _cbrt(x),
    "rint": _rint,
    "round": _round_half_away,
    "rsqrt": torch.rsqrt,
    "rsqrt_rn": torch.rsqrt,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sinpi": lambda x: torch.sin(math.pi * x),
    "cospi": lambda x: torch.cos(math.pi * x),
    "sqrt": torch.sqrt,
    "sqrt_rn": torch.sqrt,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "tgamma": lambda x: torch.exp(torch.lgamma(x)),
    "trunc": torch.trunc,
    "div_rn": lambda a, b: a / b,
    "fdividef": lambda a, b: a / b,
    "add_rn": torch.add,
    "mul_rn": torch.mul,
    "sub_rn": torch.sub,
    "fma_rn": _fma,
    "rcp_rn": lambda x: 1.0 / x,
    "saturate": lambda x: x.clamp(0.0, 1.0),
}
_TESTS: dict[str, Callable[[Tensor], Tensor]] = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinited": torch.isfinite,
    "finite": torch.isfinite,
    "signbit": torch.signbit,
}
_BY_MATH_NAME = [
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2"),
    *(
        "expm1",
        "floor",
        "log",
        "log10",
        "log1p",
        "log2",
        "round",
        "rsqrt",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    ),
]


def _library(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    """A call into libdevice: ``__nv_tanhf`` and its like."""
    symbol = op.attributes.get("symbol", "").strip('"')
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    single = name.removesuffix("f")
    values = [tile.data for tile in operands]
    test = _TESTS.get(name) or _TESTS.get(single)
    if test is not None:
        return result(op, test(values[0]).long(), operands, (0, 1))
    function = _FUNCTIONS.get(name) or _FUNCTIONS.get(single)
    if function is None or not symbol.startswith("__nv_") or not all(t.element in elements.FLOATS for t in operands):
        raise machine.unsupported(
            op, f"the library function {symbol or op.body} is not supported by the checked executor"
        )
    return result(op, function(*values), operands)


OPS: dict[str, Handler] = {
    **{f"math.{name}": unary(_FUNCTIONS[name]) for name in _BY_MATH_NAME},
    "math.absf": unary(torch.abs),
    "math.roundeven": unary(torch.round),
    "math.fma": _handle_fma,
    "tt.extern_elementwise": _library,
}
