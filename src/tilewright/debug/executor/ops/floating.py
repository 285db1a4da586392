"""Floating-point arithmetic, comparisons and conversions, each rounded once as the hardware does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.lanewise import binary, result, unary
from tilewright.debug.executor.tile import Tile, any_set, joined_poison
from tilewright.debug.executor.ttir import Op


def _unordered(a: Tensor, b: Tensor) -> Tensor:
    return a.isnan() | b.isnan()


_ORDERED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "oeq": torch.eq,
    "ogt": torch.gt,
    "oge": torch.ge,
    "olt": torch.lt,
    "ole": torch.le,
    "one": lambda a, b: (a < b) | (a > b),
    "ord": lambda a, b: ~_unordered(a, b),
    "ueq": lambda a, b: (a == b) | _unordered(a, b),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": torch.ne,
    "uno": _unordered,
    "true": lambda a, b: torch.ones_like(a == b),
    "false": lambda a, b: torch.zeros_like(a == b),
}


def _compare(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    a, b = operands
    if op.cache is None:
        op.cache = op.body.partition(",")[0].split()[0]
    return Tile(_ORDERED[op.cache](a.data, b.data), a.shape, "i1", None, joined_poison(operands))


def to_float32(tile: Tile) -> Tensor:
    """Values of any float type, fp8 included, in fp32."""
    if tile.element in elements.FLOAT8:
        dtype = elements.FLOAT8[tile.element]
        if dtype is None:
            raise ValueError(tile.element)
        return tile.data.contiguous().view(dtype).to(torch.float32)
    return tile.data.to(torch.float32)


def convert(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    """Between float types, rounding to nearest even or towards zero where ``rounding = rtz`` says so."""
    (a,) = operands
    target = op.result_types[0].element
    if "f8E4M3B11FNUZ" in (a.element, target):
        raise machine.unsupported(op, "fp8e4b15 is not supported by the checked executor")
    values = to_float32(a) if a.element in elements.FLOAT8 else a.data
    if target in elements.FLOAT8:
        return result(op, _to_float8(values, target), operands)
    data = values.to(elements.FLOATS[target])
    if op.attributes.get("rounding") == "rtz":
        data = _towards_zero(values, data)
    return result(op, data, operands)


def _to_float8(values: Tensor, target: str) -> Tensor:
    """The hardware's conversion saturates: what is too large becomes the largest finite value."""
    dtype = elements.FLOAT8[target]
    assert dtype is not None
    largest = torch.finfo(dtype).max
    return values.to(torch.float32).clamp(-largest, largest).to(dtype).view(torch.uint8)


def _towards_zero(exact: Tensor, rounded: Tensor) -> Tensor:
    over = rounded.to(exact.dtype).abs() > exact.abs()
    bits = rounded.view(elements.MEMORY[rounded.element_size()])
    return torch.where(over, bits - 1, bits).view(rounded.dtype)


def _from_integer(unsigned: bool) -> Handler:
    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        (a,) = operands
        values = a.data
        width = elements.bits(a.element)
        if values.dtype == torch.bool:
            values = values.long() if unsigned else -values.long()
        elif unsigned:
            values = elements.unsigned(values, width)
        target = elements.FLOATS[op.result_types[0].element]
        if unsigned and width == 64 and any_set(values < 0):
            large = values.to(torch.float64) + (values < 0) * 2.0**64
            return result(op, large.to(target), operands)
        if target in (torch.float16, torch.bfloat16):
            values = values.to(torch.float32)
        return result(op, values.to(target), operands)

    return handler


def _to_integer(unsigned: bool) -> Handler:
    """Towards zero; what does not fit saturates and NaN is 0, as the hardware has it."""

    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        (a,) = operands
        width = elements.bits(op.result_types[0].element)
        values = a.data.to(torch.float64).trunc().nan_to_num(nan=0.0, posinf=2.0**65, neginf=-(2.0**65))
        low, high = (0, (1 << width) - 1) if unsigned else elements.integer_range(width)
        small = values.clamp(max(low, -(2.0**62)), min(high, 2.0**62)).to(torch.int64)
        if width == 64:
            exact = torch.where(values.abs() < 2.0**62, small, values.clamp(-(2.0**63), 2.0**63 - 1024).to(torch.int64))
            data = torch.where(values >= 2.0**63, torch.tensor(high if not unsigned else -1), exact)
        else:
            data = elements.wrapped(small, width)
        return result(op, data, operands)

    return handler


def bitcast(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    """The same bits as another type; a pointer keeps its address."""
    (a,) = operands
    target = op.result_types[0].element
    if target.startswith("ptr<") or (elements.is_integer(target) and elements.is_integer(a.element)):
        return Tile(a.data, a.shape, target, a.bounds, a.poison, a.wide, a.base, a.extra)
    if a.element == target:
        return a
    raw = elements.to_memory(a.data, a.element)
    return result(op, elements.from_memory(raw, target), operands)


def _clamp(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    x, low, high = (tile.data for tile in operands)
    if op.attributes.get("propagateNan") == "all":
        return result(op, torch.minimum(torch.maximum(x, low), high), operands)
    return result(op, torch.fmin(torch.fmax(x, low), high), operands)


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return a / b


def _power(a: Tensor, b: Tensor) -> Tensor:
    return torch.pow(a, b)


OPS: dict[str, Handler] = {
    "arith.addf": binary(torch.add),
    "arith.subf": binary(torch.sub),
    "arith.mulf": binary(torch.mul),
    "arith.divf": binary(_divide),
    "arith.remf": binary(torch.fmod),
    "arith.negf": unary(torch.neg),
    "arith.maximumf": binary(torch.maximum),
    "arith.minimumf": binary(torch.minimum),
    "arith.maxnumf": binary(torch.fmax),
    "arith.minnumf": binary(torch.fmin),
    "arith.cmpf": _compare,
    "arith.truncf": convert,
    "arith.extf": convert,
    "tt.fp_to_fp": convert,
    "arith.sitofp": _from_integer(unsigned=False),
    "arith.uitofp": _from_integer(unsigned=True),
    "arith.fptosi": _to_integer(unsigned=False),
    "arith.fptoui": _to_integer(unsigned=True),
    "arith.bitcast": bitcast,
    "tt.bitcast": bitcast,
    "tt.clampf": _clamp,
    "tt.precise_divf": binary(_divide),
    "tt.precise_sqrt": unary(torch.sqrt),
    "math.powf": binary(_power),
}
