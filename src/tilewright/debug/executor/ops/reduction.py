"""Reductions and scans with any combine function, as trees over the axis: log2(n) combinations of halves.

A combine function of one known operation is applied to tiles as they are. Any other runs with lanes as its
programs: a scalar of the function is then a column of all pairs to be combined.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tilewright.debug.executor.machine import Machine, Scope
from tilewright.debug.executor.tile import Tile, broadcast_shape
from tilewright.launch.ttir import Op, Region, callee, integer

_COMMUTING = frozenset(
    ("arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.andi", "arith.ori", "arith.xori")
    + tuple(f"arith.{pick}{kind}" for pick in ("max", "min") for kind in ("imumf", "numf", "si", "ui"))
)


def _reduce(machine: Machine, op: Op, operands: list[Tile]) -> Tile | list[Tile]:
    axis = integer(op.attributes, "axis") + 1
    tiles = _alike([tile.full([axis - 1]) for tile in operands])
    shape = tuple(n for i, n in enumerate(operands[0].shape) if i != axis - 1)
    simple = single_operation(machine, op)
    while (n := tiles[0].data.shape[axis]) > 1:
        if simple is not None:
            halves = [(_slice(t, axis, 0, n // 2), _slice(t, axis, n // 2, n)) for t in tiles]
        else:  # neighbours, in order: the function need not commute
            halves = [(_slice(t, axis, 0, n, 2), _slice(t, axis, 1, n, 2)) for t in tiles]
        tiles = _combined(machine, op, simple, [a for a, _ in halves], [b for _, b in halves])
    results = [tile.planes(lambda plane: plane.squeeze(axis), shape) for tile in tiles]
    return results if len(op.results) > 1 else results[0]


def _scan(machine: Machine, op: Op, operands: list[Tile]) -> Tile | list[Tile]:
    axis = integer(op.attributes, "axis") + 1
    reverse = op.attributes.get("reverse") == "true"
    tiles = _alike([tile.full([axis - 1]) for tile in operands])
    if reverse:
        tiles = [tile.planes(lambda plane: _flipped(plane, axis), tile.shape) for tile in tiles]
    simple = single_operation(machine, op)
    n, step = tiles[0].data.shape[axis], 1
    while step < n:  # each round doubles how far back a lane reaches
        before = [_slice(tile, axis, 0, n - step) for tile in tiles]
        after = [_slice(tile, axis, step, n) for tile in tiles]
        kept = [_slice(tile, axis, 0, step) for tile in tiles]
        moved = _combined(machine, op, simple, before, after)
        tiles = [_joined(a, b, axis) for a, b in zip(kept, moved, strict=True)]
        step *= 2
    if reverse:
        tiles = [tile.planes(lambda plane: _flipped(plane, axis), tile.shape) for tile in tiles]
    results = [tile.planes(lambda plane: plane, operands[0].shape) for tile in tiles]
    return results if len(op.results) > 1 else results[0]


def _flipped(plane: Tensor, axis: int) -> Tensor:
    return plane.flip(axis) if plane.shape[axis] > 1 else plane


def _slice(tile: Tile, axis: int, start: int, end: int, step: int = 1) -> Tile:
    cut = (slice(None),) * axis + (slice(start, end, step),)
    return tile.planes(lambda plane: plane[cut] if plane.shape[axis] > 1 else plane, tile.shape)


def _joined(first: Tile, second: Tile, axis: int) -> Tile:
    def together(a: Tensor, b: Tensor, sizes: tuple[int, int]) -> Tensor:
        shape = list(broadcast_shape(_without(a, axis), _without(b, axis)))
        parts = [p.expand(*shape[:axis], n, *shape[axis + 1 :]) for p, n in zip((a, b), sizes, strict=True)]
        return torch.cat(parts, dim=axis)

    sizes = (first.data.shape[axis], second.data.shape[axis])
    tile = Tile(together(first.data, second.data, sizes), first.shape, first.element)
    if first.poison is not None or second.poison is not None:
        clean = torch.zeros((1,) * first.data.dim(), dtype=torch.uint8)
        planes = [clean if t.poison is None else t.poison for t in (first, second)]
        tile.poison = together(planes[0], planes[1], sizes)
    return tile


def _without(plane: Tensor, axis: int) -> tuple[int, ...]:
    return (*plane.shape[:axis], 1, *plane.shape[axis + 1 :])


def _alike(tiles: list[Tile]) -> list[Tile]:
    """Several operands with data of one shape, so that their lanes correspond."""
    if len(tiles) == 1:
        return tiles
    shape = broadcast_shape(*(tile.data.shape for tile in tiles))
    for tile in tiles:
        tile.data = tile.data.expand(shape)
    return tiles


def _combined(machine: Machine, op: Op, simple: Op | None, first: list[Tile], second: list[Tile]) -> list[Tile]:
    """The combine function on corresponding lanes of two groups of tiles."""
    if simple is not None:
        pair = [first[0], second[0]]
        combined = machine.handlers[simple.name](machine, simple, pair)
        return [Tile(combined.data, first[0].shape, first[0].element, combined.bounds, combined.poison)]
    shape = broadcast_shape(*(tile.data.shape for tile in (*first, *second)))
    lanes = [_as_programs(tile, shape) for tile in (*first, *second)]
    outer = machine.scope
    scope = Scope(outer.programs[: shape[0]].repeat_interleave(math.prod(shape[1:])))
    block = op.regions[0].blocks[0]
    scope.bind(block.arguments, lanes)
    results = machine.drain(machine.blocks(op.regions[0], scope))
    machine.scope = outer

    def shaped(plane: Tensor) -> Tensor:
        return plane.expand(scope.size).reshape(shape)

    return [tile.planes(shaped, first[0].shape) for tile in results]


def _as_programs(tile: Tile, shape: tuple[int, ...]) -> Tile:
    return tile.planes(lambda plane: plane.expand(shape).reshape(-1), ())


def single_operation(machine: Machine, op: Op) -> Op | None:
    """The operation that a combine function consists of, where it is one that commutes."""
    if op.cache is None:
        op.cache = (_only_operation(machine, op.regions[0], depth=4),)
    found: Op | None = op.cache[0]
    return found


def _only_operation(machine: Machine, region: Region, depth: int) -> Op | None:
    block = region.blocks[0]
    if len(block.arguments) != 2 or len(block.ops) != 2 or depth == 0:
        return None
    only, end = block.ops
    if end.operands != only.results or set(only.operands) != set(block.arguments):
        return None
    if only.name == "tt.call":
        return _only_operation(machine, machine.module.functions[callee(only)].region, depth - 1)
    return only if only.name in _COMMUTING else None


OPS = {"tt.reduce": _reduce, "tt.scan": _scan}
