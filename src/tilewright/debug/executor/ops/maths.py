"""Functions of one to three floats: ``tl.math``, and calls into libdevice."""

from __future__ import annotations

import torch

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops import libdevice
from tilewright.debug.executor.ops.functions import FUNCTIONS
from tilewright.debug.executor.ops.lanewise import NO_FLOAT8, binary, result, unary
from tilewright.debug.executor.ops.rounding import fused
from tilewright.debug.executor.tile import Tile
from tilewright.launch.ttir import Op

_IN_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2"),
    *("expm1", "floor", "log", "log10", "log1p", "log2", "round", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"),
    "trunc",
)


def _handle_fma(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    if operands[0].element in elements.FLOAT8:
        raise machine.unsupported(op, NO_FLOAT8)
    a, b, c = (tile.data for tile in operands)
    return result(op, fused(a, b, c), operands)


def _absolute(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    return result(op, a.data & 127 if a.element in elements.FLOAT8 else a.data.abs(), operands)


OPS: dict[str, Handler] = {
    **{f"math.{name}": unary(FUNCTIONS[name]) for name in _IN_MATH},
    "math.absf": _absolute,
    "math.roundeven": unary(torch.round),
    "math.fma": _handle_fma,
    "tt.approx_divf": binary(torch.div),
    **libdevice.OPS,
}
