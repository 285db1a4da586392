"""CUDA's libdevice by the names of its functions: ``__nv_tanhf``, ``__nv_fadd_rz``, ``__nv_popcll``.

A name says which operation, on which type, and with which rounding; the tables hold the operations once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.flushing import flushed, flushing
from tilewright.debug.executor.ops.functions import FAST, FUNCTIONS
from tilewright.debug.executor.ops.integer import high_product
from tilewright.debug.executor.ops.lanewise import result
from tilewright.debug.executor.ops.rounding import fused, square_root, two_product, two_sum
from tilewright.debug.executor.tile import Tile
from tilewright.launch.ttir import Op

Function = Callable[..., Tensor]

_DIRECTED = re.compile(r"(?:([fd])(add|sub|mul|div|rcp|sqrt|rsqrt)|(fma)f?)_(r[nzud])")
_TO_INTEGER = re.compile(r"(?:float|double)2(int|uint|ll|ull)_(r[nzud])")
_TO_FLOAT = re.compile(r"(int|uint|ll|ull)2(float|double)_(r[nzud])")


def _directed(values: Tensor, lacks: Tensor, rounding: str) -> Tensor:
    """The neighbour of values rounded to nearest, given by the sign of what they lack."""
    up, down = torch.full_like(values, torch.inf), torch.full_like(values, -torch.inf)
    if rounding == "rz":
        aim = torch.where(values > 0, down, up)
        wrong = ((lacks < 0) & (values > 0)) | ((lacks > 0) & (values < 0))
    else:
        aim = up if rounding == "ru" else down
        wrong = lacks > 0 if rounding == "ru" else lacks < 0
    return torch.where(wrong & ~values.isnan(), torch.nextafter(values, aim), values)


def _sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    values = a + b
    total, error = two_sum(a.double(), b.double())
    rest = total - values.double()
    return values, torch.where(rest == 0, error, rest)


def _product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if a.dtype == torch.float64:
        return two_product(a, b)
    values = a * b
    return values, a.double() * b.double() - values.double()


def _residual(x: Tensor, y: Tensor, of: Tensor) -> Tensor:
    """``of - x * y``, which is exact in the wider type."""
    return fused(-x, y, of) if x.dtype == torch.float64 else of.double() - x.double() * y.double()


def _quotient(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    values = a / b
    rest = _residual(values, b, a)
    return values, torch.where(b < 0, -rest, rest)


def _root(a: Tensor) -> tuple[Tensor, Tensor]:
    values = square_root(a)
    return values, _residual(values, values, a)


def _fused(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    values = fused(a, b, c)
    product, error = two_product(a.double(), b.double())
    total, other = two_sum(product, c.double())
    return values, (total - values.double()) + (other + error)


_BY_ROUNDING: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "add": _sum,
    "sub": lambda a, b: _sum(a, -b),
    "mul": _product,
    "div": _quotient,
    "rcp": lambda a: _quotient(torch.ones_like(a), a),
    "sqrt": _root,
    "fma": _fused,
}
_WHOLE: dict[str, Callable[[Tensor], Tensor]] = {
    "rn": torch.round,
    "rz": torch.trunc,
    "ru": torch.ceil,
    "rd": torch.floor,
}


def _arithmetic(name: str, rounding: str) -> Function:
    if name == "rsqrt":
        return FUNCTIONS["rsqrt"]

    def function(*values: Tensor) -> Tensor:
        near, lacks = _BY_ROUNDING[name](*values)
        found = near if rounding == "rn" else _directed(near, lacks, rounding)
        return _zeros_below(name, found, lacks, values) if rounding == "rd" else found

    return flushing(function)


def _zeros_below(name: str, found: Tensor, lacks: Tensor, values: tuple[Tensor, ...]) -> Tensor:
    """Rounding down, terms that cancel give -0; only two positive zeros give a positive one."""
    if name not in ("add", "sub", "fma"):
        return found
    negative = [value.signbit() for value in values]
    first = negative[0] ^ negative[1] if name == "fma" else negative[0]
    below = first | (~negative[-1] if name == "sub" else negative[-1])
    return torch.where((found == 0) & (lacks == 0) & below, -torch.zeros_like(found), found)


def _to_integer(kind: str, rounding: str) -> Function:
    """Rounded, then what does not fit saturates and NaN is 0, or the top bit alone in 64 bits."""
    width, unsigned = (64 if kind.endswith("ll") else 32), kind.startswith("u")

    def function(x: Tensor) -> Tensor:
        whole = _WHOLE[rounding](flushed(x).double())
        low, high = (0.0, 2.0**width) if unsigned else (-(2.0 ** (width - 1)), 2.0 ** (width - 1))
        inside = (whole >= low) & (whole < high)
        offset = 2.0**63 if unsigned and width == 64 else 0.0  # keeps the upper half within int64
        data = torch.where(inside, whole - offset * (whole >= 2.0**63), 0.0).long()
        if offset:
            data = torch.where(inside & (whole >= 2.0**63), data ^ (-(1 << 63)), data)
        greatest = -1 if unsigned else (1 << (width - 1)) - 1
        data = data.masked_fill(whole >= high, greatest)
        data = data.masked_fill(whole < low, 0 if unsigned else -(1 << (width - 1)))
        if width == 64 or x.dtype == torch.float64:
            data = data.masked_fill(x.isnan(), -(1 << (width - 1)))
        return elements.wrapped(data, width)

    return function


def _popcount(width: int) -> Function:
    return lambda x: sum(((x >> shift) & 1 for shift in range(width)), torch.zeros_like(x))


def _leading_zeros(width: int) -> Function:
    def function(x: Tensor) -> Tensor:
        seen, count = torch.zeros_like(x), torch.zeros_like(x)
        for shift in range(width - 1, -1, -1):
            seen = seen | ((x >> shift) & 1)
            count = count + (1 - seen)
        return count

    return function


def _first_set(width: int) -> Function:
    """Position of the lowest set bit, from 1; 0 where there is none."""
    return lambda x: torch.where(x == 0, 0, width - _leading_zeros(width)(x & -x))


def _reversed(width: int) -> Function:
    def function(x: Tensor) -> Tensor:
        bits = sum((((x >> i) & 1) << (width - 1 - i) for i in range(width)), torch.zeros_like(x))
        return elements.wrapped(bits, width)

    return function


def _exponent(x: Tensor) -> Tensor:
    """Of the leading bit; of zero and of what is not finite, the ends of int32 as CUDA has them."""
    data = torch.frexp(x).exponent.long() - 1
    data = data.masked_fill((x == 0) | x.isnan(), -(1 << 31))
    return data.masked_fill(x.isinf(), (1 << 31) - 1)


def _scaled(x: Tensor, power: Tensor) -> Tensor:
    x, power = torch.broadcast_tensors(x, power)
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.ldexp(x.numpy(), power.to(torch.int32).numpy()))


_INTEGER: dict[str, Function] = {
    "abs": lambda x: elements.wrapped(x.abs(), 32),
    "llabs": torch.abs,
    "popc": _popcount(32),
    "popcll": _popcount(64),
    "clz": _leading_zeros(32),
    "clzll": _leading_zeros(64),
    "ffs": _first_set(32),
    "ffsll": _first_set(64),
    "brev": _reversed(32),
    "brevll": _reversed(64),
    "hadd": lambda a, b: (a + b) >> 1,
    "rhadd": lambda a, b: (a + b + 1) >> 1,
    "uhadd": lambda a, b: elements.wrapped((elements.unsigned(a, 32) + elements.unsigned(b, 32)) >> 1, 32),
    "urhadd": lambda a, b: elements.wrapped((elements.unsigned(a, 32) + elements.unsigned(b, 32) + 1) >> 1, 32),
    "sad": lambda a, b, c: elements.wrapped((a - b).abs() + c, 32),
    "usad": lambda a, b, c: elements.wrapped((elements.unsigned(a, 32) - elements.unsigned(b, 32)).abs() + c, 32),
    "mulhi": lambda a, b: high_product(a, b, 32, signed=True),
    "umulhi": lambda a, b: high_product(a, b, 32, signed=False),
    "mul64hi": lambda a, b: high_product(a, b, 64, signed=True),
    "umul64hi": lambda a, b: high_product(a, b, 64, signed=False),
    "mul24": lambda a, b: elements.wrapped(_signed24(a) * _signed24(b), 32),
    "umul24": lambda a, b: elements.wrapped((a & 0xFFFFFF) * (b & 0xFFFFFF), 32),
    "float_as_int": lambda x: x.contiguous().view(torch.int32).long(),
    "float_as_uint": lambda x: x.contiguous().view(torch.int32).long(),
    "int_as_float": lambda x: x.to(torch.int32).view(torch.float32),
    "uint_as_float": lambda x: x.to(torch.int32).view(torch.float32),
    "double_as_longlong": lambda x: x.contiguous().view(torch.int64),
    "longlong_as_double": lambda x: x.contiguous().view(torch.float64),
    "ilogb": _exponent,
    "ldexp": _scaled,
    "scalbn": _scaled,
    "powi": lambda x, n: torch.pow(x.double(), n).to(x.dtype),
    "llrint": _to_integer("ll", "rn"),
    "llround": lambda x: _to_integer("ll", "rz")(FUNCTIONS["round"](x)),
    "isnan": lambda x: x.isnan().long(),
    "isinf": lambda x: x.isinf().long(),
    "isfinite": lambda x: x.isfinite().long(),
    "finite": lambda x: x.isfinite().long(),
    "signbit": lambda x: x.signbit().long(),
}


def _signed24(x: Tensor) -> Tensor:
    return ((x & 0xFFFFFF) ^ 0x800000) - 0x800000


@lru_cache(maxsize=1024)
def _function(symbol: str) -> Function | None:
    if not symbol.startswith("__nv_"):
        return None
    name = symbol.removeprefix("__nv_")
    if name.startswith("fast_"):
        name = name.removeprefix("fast_")
        if found := FAST.get(name.removesuffix("f")):
            return found
    if parts := _DIRECTED.fullmatch(name):
        return _arithmetic(parts.group(2) or parts.group(3), parts.group(4))
    if parts := _TO_INTEGER.fullmatch(name):
        return _to_integer(parts.group(1), parts.group(2))
    if parts := _TO_FLOAT.fullmatch(name):
        kind, target, rounding = parts.groups()
        dtype = torch.float32 if target == "float" else torch.float64
        # What fits no double, and other roundings, are left out.
        return (lambda x: x.to(dtype)) if rounding == "rn" and not kind.startswith("u") else None
    for known in (name, name.removesuffix("f"), name.removesuffix("d")):
        function = _INTEGER.get(known) or FUNCTIONS.get(known)
        if function is not None:
            return function
    return None


def _library(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    symbol = op.attributes.get("symbol", "").strip('"')
    function = _function(symbol)
    if function is None or any(tile.element in elements.FLOAT8 for tile in operands):
        words = f"the library function {symbol or op.body} is not supported by the checked executor"
        raise machine.unsupported(op, words)
    return result(op, function(*(tile.data for tile in operands)), operands)


OPS: dict[str, Handler] = {"tt.extern_elementwise": _library}
