"""Matrix products with the precision that the target's tensor cores have."""

from __future__ import annotations

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.floating import to_float32
from tilewright.debug.executor.ops.lanewise import result
from tilewright.debug.executor.tile import Tile, broadcast_shape
from tilewright.launch.ttir import Op

_TF32_DROPPED = 13  # of fp32's 23 bits of fraction
_E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


def to_tf32(values: Tensor) -> Tensor:
    """fp32 with the fraction of tf32: the tensor cores read no more bits of it (cut, not rounded: as measured on
    an H200, proof/results/conformance_h200.json)."""
    return values.contiguous().view(torch.int32).bitwise_and(-(1 << _TF32_DROPPED)).view(torch.float32)


def _dot(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    a, b, accumulator = operands
    precision = op.attributes.get("inputPrecision", "ieee")
    if elements.is_integer(a.element):
        # Sums of products of 8-bit numbers are exact in fp64.
        product = _product(a.full().data.double(), b.full().data.double(), None).long()
        total = product + accumulator.data
        data = elements.wrapped(total, elements.bits(accumulator.element))
    elif a.element == "f64":
        data = _product(a.full().data, b.full().data, accumulator.data)
    else:
        x, y = to_float32(a.full()), to_float32(b.full())
        if a.element == "f32" and precision == "tf32":
            x, y = (x, y) if machine.exact_products else (to_tf32(x), to_tf32(y))
        elif a.element == "f32" and precision not in ("ieee", "tf32x3", "bf16x3", "bf16x6"):
            raise machine.unsupported(op, f"tl.dot with input_precision={precision} is not supported")
        data = _product(x, y, accumulator.data.to(torch.float32))
    tile = result(op, data.to(elements.kept_as(accumulator.element)), [accumulator])
    return _with_poison(tile, a, b)


def _product(x: Tensor, y: Tensor, accumulator: Tensor | None) -> Tensor:
    """Products over the last two axes; leading ones (programs, batch) are broadcast."""
    lead = broadcast_shape(x.shape[:-2], y.shape[:-2], () if accumulator is None else accumulator.shape[:-2])
    x, y = (t.expand(*lead, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (x, y))
    if accumulator is None:
        return torch.bmm(x, y).reshape(*lead, x.shape[-2], y.shape[-1])
    sizes = (*lead, x.shape[-2], y.shape[-1])
    return torch.baddbmm(accumulator.expand(sizes).reshape(-1, *sizes[-2:]), x, y).reshape(sizes)


def _with_poison(tile: Tile, a: Tile, b: Tile) -> Tile:
    """An undefined lane reaches its whole row or column of the product, except where the other side is zero.

    A product with zero is zero whatever the lane holds, unless that is NaN or infinite; a right kernel that
    masks one side only relies on it, and a wrong one is seen in values.
    """
    for side, axis in ((a, -1), (b, -2)):
        if side.poison is not None:
            plane = side.full().poison
            assert plane is not None
            reached = plane.amax(axis, keepdim=True)
            tile.poison = reached if tile.poison is None else torch.maximum(tile.poison, reached)
    return tile


def _dot_scaled(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    """Microscaled formats: each group of 32 along K has a power of two as its scale."""
    names = list(op.operands)
    has = [f"{name} scale" in op.body for name in names]
    a = operands[0]
    a_scale = operands[1] if has[0] else None
    at = 2 if a_scale is not None else 1
    b = operands[at]
    b_scale = operands[at + 1] if has[at] else None
    accumulator = operands[-1]
    a_packed = op.attributes.get("lhs_k_pack", "true") == "true"
    b_packed = op.attributes.get("rhs_k_pack", "true") == "true"
    x = _scaled(_decoded(machine, op, a, op.attributes["lhs"], -1 if a_packed else -2), a_scale, -1)
    y = _scaled(_decoded(machine, op, b, op.attributes["rhs"], -2 if b_packed else -1), b_scale, -2)
    data = _product(x, y, accumulator.data.to(torch.float32))
    tile = result(op, data.to(elements.kept_as(accumulator.element)), [accumulator])
    return _with_poison(tile, a, b)


def _decoded(machine: Machine, op: Op, tile: Tile, kind: str, packed_axis: int) -> Tensor:
    full = tile.full()
    if kind == "e2m1":
        low, high = (_E2M1[nibble] for nibble in (full.data & 15, (full.data >> 4) & 15))
        pairs = torch.stack((low, high), dim=packed_axis)  # the low nibble comes first
        return pairs.flatten(-2) if packed_axis == -1 else pairs.flatten(-3, -2)
    if kind in ("e4m3", "e5m2") and elements.is_integer(full.element):
        dtype = torch.float8_e4m3fn if kind == "e4m3" else torch.float8_e5m2
        return full.data.to(torch.uint8).view(dtype).float()
    if kind in ("bf16", "fp16", "e4m3", "e5m2"):
        return to_float32(full)
    raise machine.unsupported(op, f"tl.dot_scaled with format {kind} is not supported by the checked executor")


def _scaled(values: Tensor, scale: Tile | None, axis: int) -> Tensor:
    """Scales are (M, K/32), or (N, K/32) for the right side: one byte, a biased exponent; 255 is NaN."""
    if scale is None:
        return values
    bits = scale.full().data & 255
    factor = torch.pow(2.0, (bits - 127).double()).masked_fill(bits == 255, float("nan")).float()
    wide = factor.repeat_interleave(32, dim=-1)
    wide = wide if axis == -1 else wide.transpose(-1, -2)
    return values * wide[..., : values.shape[-2], : values.shape[-1]]


OPS: dict[str, Handler] = {"tt.dot": _dot, "tt.dot_scaled": _dot_scaled}
