"""Integer arithmetic at its true width, with the value that 64 bits would have held beside it where it wrapped."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.lanewise import result, undefined_where
from tilewright.debug.executor.tile import Bounds, Tile, any_set, joined_poison, known_bounds
from tilewright.launch.ttir import Op

_TOP = -(1 << 63)  # flips the order of signed values to that of unsigned ones
_INT64 = elements.integer_range(64)


def _corners(function: Callable[[int, int], int], a: Bounds, b: Bounds) -> Bounds:
    values = [function(x, y) for x in a for y in b]
    return min(values), max(values)


def _wrapping(function: Callable[[Tensor, Tensor], Tensor], exact: Callable[[int, int], int]) -> Handler:
    """Addition, subtraction, multiplication: exact in 64 bits for operands of 32, then cut to width."""

    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        a, b = operands
        width = elements.bits(a.element)
        if width == 1:
            return result(op, function(a.data.long(), b.data.long()).bitwise_and(1).bool(), operands)
        data = function(a.data, b.data)
        low, high = elements.integer_range(width)
        bounds = None
        if a.bounds is not None and b.bounds is not None:
            bounds = _corners(exact, a.bounds, b.bounds)
        if width < 64 and (bounds is None or bounds[0] < low or bounds[1] > high):
            bounds = known_bounds(Tile(data, (), a.element))
        tile = result(op, data, operands, bounds)
        if bounds is not None and (bounds[0] < low or bounds[1] > high):
            tile.bounds = None
            if width < 64:
                tile.data, tile.wide = elements.wrapped(data, width), data
        return with_wide(tile, function, a, b)

    return handler


def with_wide(tile: Tile, function: Callable[[Tensor, Tensor], Tensor], a: Tile, b: Tile) -> Tile:
    """Carries the unwrapped values on where an operand has them."""
    if a.wide is not None or b.wide is not None:
        wide = function(a.data if a.wide is None else a.wide, b.data if b.wide is None else b.wide)
        tile.wide = wide if any_set(wide != tile.data) else None
    return tile


def _division(function: Callable[[Tensor, Tensor], Tensor], signed: bool) -> Handler:
    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        a, b = operands
        width = elements.bits(a.element)
        bounds = _quotient_bounds(op, a, b)
        if bounds is not None and b.data.numel() == 1:
            return result(op, _by_number(a.data, int(b.data), rest=function is torch.fmod), operands, bounds)
        zero = b.data == 0
        divisor = b.data + zero.to(b.data.dtype) if b.bounds is None or b.bounds[0] <= 0 <= b.bounds[1] else b.data
        if signed and width == 64:
            data = _signed64(function, a.data, divisor)
        elif signed:
            data = function(a.data, divisor)
        elif width == 64:
            data = _unsigned64(function, a.data, divisor)
        else:
            data = function(elements.unsigned(a.data, width), elements.unsigned(divisor, width))
        tile = result(op, elements.wrapped(data, width), operands, bounds)
        return undefined_where(machine, op, tile, zero, "integer-hazard") if divisor is not b.data else tile

    return handler


def _quotient_bounds(op: Op, a: Tile, b: Tile) -> Bounds | None:
    """Bounds where both operands are known and positive, as in index arithmetic."""
    if a.bounds is None or b.bounds is None or a.bounds[0] < 0 or b.bounds[0] <= 0:
        return None
    if op.name.startswith("arith.rem"):
        return (0, min(a.bounds[1], b.bounds[1] - 1))
    return (a.bounds[0] // b.bounds[1], a.bounds[1] // b.bounds[0])


def _by_number(a: Tensor, divisor: int, *, rest: bool) -> Tensor:
    """Of numbers that are not negative by one that is positive: NumPy multiplies and shifts where torch divides."""
    if rest and divisor & (divisor - 1) == 0:
        return a & (divisor - 1)
    quotient = torch.from_numpy(np.asarray(np.floor_divide(a.numpy(), divisor)))
    return a - quotient * divisor if rest else quotient


def _signed64(function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """The least number by -1 wraps here; the processor would trap."""
    negated = b == -1
    if not any_set(negated):
        return function(a, b)
    data = function(a, b.masked_fill(negated, 1))
    return torch.where(negated, -data, data)


def _unsigned64(function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    if not any_set(a < 0) and not any_set(b < 0):
        return function(a, b)
    x, y = np.broadcast_arrays(a.numpy().astype(np.uint64), b.numpy().astype(np.uint64))
    whole = function is _trunc_div
    return torch.from_numpy((x // y if whole else x % y).astype(np.int64))


def _trunc_div(a: Tensor, b: Tensor) -> Tensor:
    return torch.div(a, b, rounding_mode="trunc")


def _shift(function: Callable[[Tensor, Tensor], Tensor], kind: str) -> Handler:
    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        a, b = operands
        width = elements.bits(a.element)
        far = (b.data < 0) | (b.data >= width)
        checked = b.bounds is None or b.bounds[0] < 0 or b.bounds[1] >= width
        amount = b.data.masked_fill(far, 0) if checked else b.data
        values = a.data.long() if kind != "shru" else elements.unsigned(a.data.long(), width)
        if kind == "shru" and width == 64:
            shifted = values.bitwise_right_shift(amount)
            data = torch.where(amount == 0, values, shifted & ~(torch.tensor(_TOP) >> (amount - 1).clamp(min=0)))
        else:
            data = function(values, amount)
        if kind == "shl":
            bounds = None
            if a.bounds is not None and b.bounds is not None and not checked:
                bounds = _corners(operator.lshift, a.bounds, b.bounds)
                low, high = elements.integer_range(width)
                bounds = bounds if low <= bounds[0] and bounds[1] <= high else None
            tile = result(op, data if bounds else elements.wrapped(data, width), operands, bounds)
            if bounds is None and width < 64 and any_set(tile.data != data):
                tile.wide = data
        else:
            tile = result(op, elements.wrapped(data, width), operands)
        return undefined_where(machine, op, tile, far, "integer-hazard") if checked else tile

    return handler


def _bitwise(function: Callable[[Tensor, Tensor], Tensor], absorbing: bool | None) -> Handler:
    """``absorbing``: the boolean that decides alone, so that an undefined other side does no harm."""

    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        a, b = operands
        tile = result(op, function(a.data, b.data), operands)
        if tile.poison is not None and a.data.dtype == torch.bool and absorbing is not None:
            decided = _decides(a, absorbing) | _decides(b, absorbing)
            tile.poison = tile.poison * ~decided
        if op.name == "arith.andi" and b.bounds is not None and b.bounds[0] == b.bounds[1] >= 0:
            tile.bounds = (0, b.bounds[1])
        return tile

    return handler


def _decides(tile: Tile, value: bool) -> Tensor:
    here = tile.data == value
    return here if tile.poison is None else here & (tile.poison == 0)


_COMPARE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "eq": torch.eq,
    "ne": torch.ne,
    "slt": torch.lt,
    "sle": torch.le,
    "sgt": torch.gt,
    "sge": torch.ge,
    "ult": torch.lt,
    "ule": torch.le,
    "ugt": torch.gt,
    "uge": torch.ge,
}
_BY_INTERVAL: dict[str, Callable[[Bounds, Bounds], bool | None]] = {
    "slt": lambda a, b: True if a[1] < b[0] else False if a[0] >= b[1] else None,
    "sle": lambda a, b: True if a[1] <= b[0] else False if a[0] > b[1] else None,
    "sgt": lambda a, b: True if a[0] > b[1] else False if a[1] <= b[0] else None,
    "sge": lambda a, b: True if a[0] >= b[1] else False if a[1] < b[0] else None,
}


def compare(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    a, b = operands
    predicate = op.cache
    if predicate is None:
        predicate = op.cache = op.body.partition(",")[0].strip()
    if predicate in _BY_INTERVAL and a.bounds is not None and b.bounds is not None:
        known = _BY_INTERVAL[predicate](a.bounds, b.bounds)
        if known is not None:  # a mask that holds for all lanes of all programs stays one element
            shape = (1,) * (len(op.result_types[0].shape or a.shape) + 1)
            return _as_bool(op, torch.full(shape, known), operands)
    if predicate[0] == "u" and a.data.dtype == torch.int64:
        return _as_bool(op, _COMPARE[predicate](a.data ^ _TOP, b.data ^ _TOP), operands)
    return _as_bool(op, _COMPARE[predicate](a.data, b.data), operands)


def _as_bool(op: Op, data: Tensor, operands: list[Tile]) -> Tile:
    return Tile(data, operands[0].shape, "i1", None, joined_poison(operands))


def _extreme(function: Callable[[Tensor, Tensor], Tensor], unsigned: bool, pick: Callable[[int, int], int]) -> Handler:
    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        a, b = operands
        if a.data.dtype == torch.bool:
            return result(op, function(a.data, b.data) if unsigned else ~function(~a.data, ~b.data), operands)
        if unsigned:
            return result(op, function(a.data ^ _TOP, b.data ^ _TOP) ^ _TOP, operands)
        bounds = None
        if a.bounds is not None and b.bounds is not None:
            bounds = (pick(a.bounds[0], b.bounds[0]), pick(a.bounds[1], b.bounds[1]))
        return with_wide(result(op, function(a.data, b.data), operands, bounds), function, a, b)

    return handler


def _extended(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    """Sign extension: the value stays what it is (true is -1)."""
    (a,) = operands
    tile = result(op, -a.data.long() if a.data.dtype == torch.bool else a.data, operands, a.bounds)
    tile.wide = a.wide
    return tile


def _zero_extended(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    if a.data.dtype == torch.bool:
        return result(op, a.data.long(), operands, (0, 1))
    if a.bounds is not None and a.bounds[0] >= 0:
        tile = result(op, a.data, operands, a.bounds)
        tile.wide = a.wide
        return tile
    return result(op, elements.unsigned(a.data, elements.bits(a.element)), operands)


def _truncated(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    width = elements.bits(op.result_types[0].element)
    low, high = elements.integer_range(width)
    if width > 1 and a.bounds is not None and low <= a.bounds[0] and a.bounds[1] <= high:
        tile = result(op, a.data, operands, a.bounds)
        tile.wide = a.wide
        return tile
    return result(op, elements.wrapped(a.data.long(), width), operands)


def high_product(a: Tensor, b: Tensor, width: int, *, signed: bool) -> Tensor:
    """The upper half of a product of twice the width."""
    if width <= 32:
        x, y = (a, b) if signed else (elements.unsigned(a, width), elements.unsigned(b, width))
        return elements.wrapped((x * y) >> width, width)
    high = _unsigned_high64(a, b)
    if signed:  # each negative side was read as 2**64 too much
        high = high - torch.where(a < 0, b, 0) - torch.where(b < 0, a, 0)
    return high


def _high_product(signed: bool) -> Handler:
    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        a, b = operands
        return result(op, high_product(a.data, b.data, elements.bits(a.element), signed=signed), operands)

    return handler


def _unsigned_high64(a: Tensor, b: Tensor) -> Tensor:
    """Upper 64 bits of the product of two unsigned numbers, from products of their halves."""
    low = (1 << 32) - 1
    a_low, a_high, b_low, b_high = a & low, (a >> 32) & low, b & low, (b >> 32) & low
    cross = a_high * b_low + (((a_low * b_low) >> 32) & low)
    other = a_low * b_high + (cross & low)
    return a_high * b_high + ((cross >> 32) & low) + ((other >> 32) & low)


def _absolute(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    return result(op, elements.wrapped(a.data.abs(), elements.bits(a.element)), operands)


_ADD = _wrapping(torch.add, operator.add)
_SUBTRACT = _wrapping(torch.sub, operator.sub)
_MULTIPLY = _wrapping(torch.mul, operator.mul)

OPS: dict[str, Handler] = {
    "arith.addi": _ADD,
    "arith.subi": _SUBTRACT,
    "arith.muli": _MULTIPLY,
    "arith.divsi": _division(_trunc_div, signed=True),
    "arith.divui": _division(_trunc_div, signed=False),
    "arith.remsi": _division(torch.fmod, signed=True),
    "arith.remui": _division(torch.fmod, signed=False),
    "arith.andi": _bitwise(torch.bitwise_and, absorbing=False),
    "arith.ori": _bitwise(torch.bitwise_or, absorbing=True),
    "arith.xori": _bitwise(torch.bitwise_xor, absorbing=None),
    "arith.shli": _shift(torch.bitwise_left_shift, "shl"),
    "arith.shrsi": _shift(torch.bitwise_right_shift, "shrs"),
    "arith.shrui": _shift(torch.bitwise_right_shift, "shru"),
    "arith.cmpi": compare,
    "arith.maxsi": _extreme(torch.maximum, False, max),
    "arith.minsi": _extreme(torch.minimum, False, min),
    "arith.maxui": _extreme(torch.maximum, True, max),
    "arith.minui": _extreme(torch.minimum, True, min),
    "arith.extsi": _extended,
    "arith.extui": _zero_extended,
    "arith.trunci": _truncated,
    "arith.index_cast": _extended,
    "arith.index_castui": _zero_extended,
    "tt.mulhiui": _high_product(signed=False),
    "tt.mulhisi": _high_product(signed=True),
    "math.absi": _absolute,
}
