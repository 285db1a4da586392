"""Addresses: arithmetic on them, and their passage from and to integers."""

from __future__ import annotations

import math

import torch

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.integer import with_wide
from tilewright.debug.executor.tile import Tile, joined_poison
from tilewright.launch.ttir import Op


def _add_pointer(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    pointer, offset = operands
    size = elements.size(pointer.element[4:-1])
    bounds = None
    if pointer.bounds is not None and offset.bounds is not None:
        low, high = offset.bounds
        bounds = (pointer.bounds[0] + low * size, pointer.bounds[1] + high * size)
    tile = Tile(
        torch.add(pointer.data, offset.data, alpha=size),
        pointer.shape,
        pointer.element,
        bounds,
        joined_poison(operands),
        None,
        pointer.base,
        math.gcd(pointer.extra or 1, size),
    )
    return with_wide(tile, lambda a, b: torch.add(a, b, alpha=size), pointer, offset)


def _int_to_ptr(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    kind = op.result_types[0]
    return Tile(a.data, a.shape, kind.element, None, a.poison, None, -1, 1)


def _ptr_to_int(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    return Tile(a.data, a.shape, "i64", a.bounds, a.poison, a.wide)


OPS: dict[str, Handler] = {
    "tt.addptr": _add_pointer,
    "tt.int_to_ptr": _int_to_ptr,
    "tt.ptr_to_int": _ptr_to_int,
}
