"""Floating-point arithmetic, comparisons and conversions, each rounded once as the hardware does."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops import rounding
from tilewright.debug.executor.ops.lanewise import NO_FLOAT8, binary, result, unary
from tilewright.debug.executor.tile import Tile, any_set, joined_poison
from tilewright.launch.ttir import Op

_TOP = -(1 << 63)


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
    if a.element in elements.FLOAT8:
        raise machine.unsupported(op, NO_FLOAT8)
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
    towards_zero = op.attributes.get("rounding") == "rtz"
    if target in elements.FLOAT8:
        if towards_zero:
            if target != "f8E5M2":
                raise machine.unsupported(op, f"no chip rounds to {target} towards zero")
            # fp8e5 is the upper byte of fp16: cutting the lower one off rounds towards zero.
            return result(op, ((_cut_short(values, torch.float16).view(torch.int16) >> 8) & 255).byte(), operands)
        return result(op, _to_float8(values, target), operands)
    dtype = elements.FLOATS[target]
    if a.element == "f8E5M2" and target == "bf16":
        return result(op, _by_shifting(a.data), operands)
    if towards_zero:
        return result(op, _cut_short(values, dtype), operands)
    data = rounding.narrowed(values, dtype) if values.dtype == torch.float64 else values.to(dtype)
    return result(op, data, operands)


def _by_shifting(data: Tensor) -> Tensor:
    """fp8e5 to bf16 as Triton does it (3.6 to 3.9, sm_90 and later): shifted bits, then the bias by a product.

    Infinities and NaNs are numbers to it: of 65536 and more (measured on an H200).
    """
    bits = data.to(torch.int16)
    return (((bits & 127) << 5) | (-(bits >> 7) << 15)).view(torch.bfloat16) * 2.0**112


def _to_float8(values: Tensor, target: str) -> Tensor:
    """The hardware's conversion saturates: what is too large becomes the largest finite value."""
    dtype = elements.FLOAT8[target]
    assert dtype is not None
    largest = torch.finfo(dtype).max
    single = rounding.single_to_odd(values) if values.dtype == torch.float64 else values.to(torch.float32)
    return single.clamp(-largest, largest).to(dtype).view(torch.uint8)


def _cut_short(exact: Tensor, dtype: torch.dtype) -> Tensor:
    """Rounded towards zero: the nearest value, or its neighbour where that is too large."""
    rounded = exact.to(dtype)
    over = rounded.to(exact.dtype).abs() > exact.abs()
    bits = rounded.view(elements.MEMORY[rounded.element_size()])
    return torch.where(over, bits - 1, bits).view(dtype)


def _from_integer(unsigned: bool) -> Handler:
    """Rounded once, as the hardware's conversions are."""

    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        (a,) = operands
        values = a.data
        width = elements.bits(a.element)
        if values.dtype == torch.bool:
            values = values.long() if unsigned else -values.long()
        elif unsigned:
            values = elements.unsigned(values, width)
        element = op.result_types[0].element
        if element in elements.FLOAT8:
            raise machine.unsupported(op, NO_FLOAT8)
        target = elements.FLOATS[element]
        if target == torch.float64 and unsigned and width == 64:
            return result(op, torch.from_numpy(values.numpy().astype(np.uint64).astype(np.float64)), operands)
        if target == torch.float64 or (target == torch.float32 and not (unsigned and width == 64)):
            return result(op, values.to(target), operands)
        exact = rounding.exact_or_odd(values, unsigned=unsigned) if width == 64 else values.double()
        return result(op, rounding.narrowed(exact, target), operands)

    return handler


def _to_integer(unsigned: bool) -> Handler:
    """Towards zero; what does not fit saturates.

    8-bit integers are cut from what saturates in 16: PTX has no conversion to fewer. NaN gives 0, or the
    lone top bit where one side has 64 bits (PTX ISA, ``cvt``).
    """

    def handler(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
        (a,) = operands
        if a.element in elements.FLOAT8:
            raise machine.unsupported(op, NO_FLOAT8)
        final = elements.bits(op.result_types[0].element)
        width = max(final, 16)
        values = a.data.to(torch.float64).trunc()
        low, high = (0, (1 << width) - 1) if unsigned else elements.integer_range(width)
        if width < 64:
            data = values.nan_to_num(nan=0.0).clamp(low, high).to(torch.int64)
        else:
            data = _to_wide_integer(values, unsigned)
        if width == 64 or a.element == "f64":
            nan = values.isnan()
            if any_set(nan):
                data = data.masked_fill(nan, elements.integer_range(width)[0])
        return result(op, elements.wrapped(data, final), operands)

    return handler


def _to_wide_integer(values: Tensor, unsigned: bool) -> Tensor:
    """Whole doubles to 64 bits, saturated; NaN to anything."""
    limit = 2.0**63
    inside = (values >= (0.0 if unsigned else -limit)) & (values < limit)
    data = torch.where(inside, values, 0.0).to(torch.int64)
    if unsigned:
        upper = (values >= limit) & (values < 2 * limit)
        data = torch.where(upper, torch.where(upper, values - limit, 0.0).to(torch.int64) ^ _TOP, data)
        return data.masked_fill(values >= 2 * limit, -1)
    return data.masked_fill(values >= limit, ~_TOP).masked_fill(values < -limit, _TOP)


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
        return result(op, minimum(maximum(x, low), high), operands)
    return result(op, least(greatest(x, low), high), operands)


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """The greater, 0 being above -0 as the hardware has it; NaN where one is."""
    found = torch.maximum(a, b)
    if _has_negative_zero(found):
        found = torch.where(a == b, (_bits(a) & _bits(b)).view(found.dtype), found)
    return found


def minimum(a: Tensor, b: Tensor) -> Tensor:
    found = torch.minimum(a, b)
    if _has_negative_zero(a) or _has_negative_zero(b):
        found = torch.where(a == b, (_bits(a) | _bits(b)).view(found.dtype), found)
    return found


def greatest(a: Tensor, b: Tensor) -> Tensor:
    """The greater; the number where the other is NaN."""
    return _numbers_of(maximum(a, b), a, b)


def least(a: Tensor, b: Tensor) -> Tensor:
    return _numbers_of(minimum(a, b), a, b)


def _numbers_of(found: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """torch's own fmax is slow, and takes a signalling NaN for a number."""
    if not math.isnan(float(found.sum())):  # NaN for sure where one is in it, and the quickest look there is
        return found
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, found))


def _has_negative_zero(values: Tensor) -> bool:
    """Its bits are the least integer."""
    bits = _bits(values)
    return int(bits.amin()) == torch.iinfo(bits.dtype).min


def _bits(values: Tensor) -> Tensor:
    return values.view(elements.MEMORY[values.element_size()])


def remainder(a: Tensor, b: Tensor) -> Tensor:
    """What PTX has for ``%``: the quotient is rounded before it is cut, so this is not always C's ``fmod``."""
    if a.dtype in (torch.float16, torch.bfloat16):
        return remainder(a.float(), b.float()).to(a.dtype)
    found = rounding.fused(-(a / b).trunc(), b, a)
    return torch.where(b.isinf(), a, found)


def _divide(a: Tensor, b: Tensor) -> Tensor:
    return a / b


def _power(a: Tensor, b: Tensor) -> Tensor:
    return torch.pow(a, b)


OPS: dict[str, Handler] = {
    "arith.addf": binary(torch.add),
    "arith.subf": binary(torch.sub),
    "arith.mulf": binary(torch.mul),
    "arith.divf": binary(_divide),
    "arith.remf": binary(remainder),
    "arith.negf": unary(torch.neg),
    "arith.maximumf": binary(maximum),
    "arith.minimumf": binary(minimum),
    "arith.maxnumf": binary(greatest),
    "arith.minnumf": binary(least),
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
    "tt.precise_sqrt": unary(rounding.square_root),
    "math.powf": binary(_power),
}
