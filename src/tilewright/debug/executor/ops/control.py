"""Branches, loops and calls. Programs that take another way go on in a scope of their own."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tilewright.debug.executor.machine import Machine, RegionHandler, Running, Scope, Values
from tilewright.debug.executor.tile import Block, Tile, any_set, known_bounds, merge
from tilewright.launch.ttir import Op, callee, integer

Parts = list[tuple[Tensor | None, Values]]


def _if(machine: Machine, op: Op, scope: Scope) -> Running:
    condition = scope[op.operands[0]]
    machine.check_condition(op, condition)
    parts: Parts = []
    for side, rows in machine.parted(condition, scope):
        if side is False and len(op.regions) < 2:
            parts.append((rows, []))
            continue
        inner = scope.inner() if rows is None else scope.narrowed(rows)
        values = yield from machine.block(op.regions[0 if side else 1].blocks[0], inner)
        parts.append((rows, values))
    return _merged(parts, len(op.results), scope.size)


def _merged(parts: Parts, results: int, programs: int) -> Values:
    if results == 0:
        return []
    columns = zip(*(values for _, values in parts), strict=True)
    every = [rows for rows, _ in parts]
    return [merge(list(zip(every, column, strict=True)), programs) for column in columns]


def _for(machine: Machine, op: Op, scope: Scope) -> Running:
    variable, low, high, step, arguments, initial = _header(op)
    start, end, stride = scope[low], scope[high], scope[step]
    for bound in (start, end, stride):
        machine.check_condition(op, bound)
    element = start.element
    body = op.regions[0].blocks[0]
    values = [scope[name] for name in initial]
    if start.is_uniform and end.is_uniform and stride.is_uniform:
        for i in range(start.item(), end.item(), max(stride.item(), 1)):
            inner = scope.inner()
            inner.values[variable] = Tile(torch.tensor([i]), (), element, (i, i))
            inner.bind(arguments, values)
            values = yield from machine.block(body, inner)
        return values
    size = scope.size
    begin, pace = start.data.expand(size), stride.data.expand(size).clamp(min=1)
    trips = torch.div(end.data.expand(size) - begin + pace - 1, pace, rounding_mode="floor").clamp(min=0)
    return (yield from _uneven(machine, scope, body, (variable, element, begin, pace, trips), (arguments, values)))


def _uneven(machine: Machine, scope: Scope, body, counting, carried) -> Running:  # type: ignore[no-untyped-def]
    """A loop whose length differs: programs that are through leave, the rest go on."""
    variable, element, begin, pace, trips = counting
    arguments, values = carried
    rows = torch.arange(scope.size)
    here = scope
    done: Parts = []
    for turn in range(int(trips.max()) + 1):
        leaving = trips[rows] <= turn
        if any_set(leaving):
            out = leaving.nonzero().flatten()
            done.append((rows[out], [value.rows(out) for value in values]))
            stay = (~leaving).nonzero().flatten()
            if len(stay) == 0:
                break
            rows = rows[stay]
            values = [value.rows(stay) for value in values]
            here = scope.narrowed(rows)
        inner = here.inner()
        counter = Tile(begin[rows] + turn * pace[rows], (), element)
        known_bounds(counter)
        inner.values[variable] = counter
        inner.bind(arguments, values)
        values = yield from machine.block(body, inner)
    return _merged(done, len(values), scope.size)


def _header(op: Op) -> tuple[str, str, str, str, list[str], list[str]]:
    """``%i = %low to %high step %step iter_args(%a = %x, …)``"""
    if op.cache is None:
        names = op.operands
        carried = names[4:]
        op.cache = (*names[:4], list(carried[0::2]), list(carried[1::2]))
    header: tuple[str, str, str, str, list[str], list[str]] = op.cache
    return header


def _while(machine: Machine, op: Op, scope: Scope) -> Running:
    if op.cache is None:
        op.cache = (list(op.operands[0::2]), list(op.operands[1::2]))
    arguments, initial = op.cache
    before, after = (region.blocks[0] for region in op.regions)
    values = [scope[name] for name in initial]
    rows: Tensor | None = None
    here = scope
    done: Parts = []
    while True:
        changes, former = machine.changes, values
        inner = here.inner()
        inner.bind(arguments or before.arguments, values)
        outcome = yield from machine.block(before, inner)
        condition, forwarded = outcome[0], outcome[1:]
        machine.scope = inner
        machine.check_condition(before.ops[-1], condition)
        sides = dict(machine.parted(condition, inner))
        if False in sides:
            out = sides[False]
            left = rows if out is None else (out if rows is None else rows[out])
            done.append((left, [value if out is None else value.rows(out) for value in forwarded]))
        if True not in sides:
            break
        stay = sides[True]
        if stay is not None:
            rows = stay if rows is None else rows[stay]
            forwarded = [value.rows(stay) for value in forwarded]
            here = scope.narrowed(rows)
        inner = here.inner()
        inner.bind(after.arguments, forwarded)
        values = yield from machine.block(after, inner)
        # A turn of waiting, if this loop waits for another program: in vain if the next would go like this one.
        machine.waiting_at = machine.place(op)
        machine.in_vain = machine.changes == changes and all(map(_alike, former, values))
        yield
    if len(done) > 1 or done[0][0] is None:
        return _merged(done, len(op.results), scope.size)
    return [merge([(None, value)], scope.size) for value in done[0][1]]


def _alike(a: Tile, b: Tile) -> bool:
    """Whether two tiles certainly hold the same: descriptors and block pointers are taken to move."""
    if isinstance(a.extra, Block) or isinstance(b.extra, Block):
        return a is b
    return a.data is b.data or (a.data.shape == b.data.shape and torch.equal(a.data, b.data))


def _call(machine: Machine, op: Op, scope: Scope) -> Running:
    machine.calls.append(op.location)
    function = machine.module.functions[callee(op)]
    results = yield from machine.call(function, [scope[name] for name in op.operands], scope.programs)
    machine.calls.pop()
    return results


def _map_elementwise(machine: Machine, op: Op, scope: Scope) -> Running:
    """Lanes run as programs of a scalar function, ``pack`` neighbours to a call."""
    pack = integer(op.attributes, "pack", 1)
    operands = [scope[name] for name in op.operands]
    shape = operands[0].shape
    calls = scope.size * math.prod(shape) // pack
    inner = Scope(scope.programs.repeat_interleave(calls // scope.size))
    lanes = []
    for tile in operands:
        for j in range(pack):
            lanes.append(
                tile.planes(lambda plane, j=j: plane.expand(scope.size, *shape).reshape(calls, pack)[:, j], ())  # type: ignore[misc]
            )
    inner.bind(op.regions[0].blocks[0].arguments, lanes)
    results = yield from machine.blocks(op.regions[0], inner)
    machine.scope = scope
    return [_side_by_side(results[i : i + pack], calls, (scope.size, *shape)) for i in range(0, len(results), pack)]


def _side_by_side(lanes: Values, calls: int, sizes: tuple[int, ...]) -> Tile:
    """One tile from the results of calls, which hold one lane of each pack."""

    def together(planes: list[Tensor]) -> Tensor:
        return torch.stack([plane.expand(calls) for plane in planes], dim=1).reshape(sizes)

    tile = Tile(together([lane.data for lane in lanes]), sizes[1:], lanes[0].element)
    if any(lane.poison is not None for lane in lanes):
        clean = torch.zeros(1, dtype=torch.uint8)
        tile.poison = together([clean if lane.poison is None else lane.poison for lane in lanes])
    return tile


REGION_OPS: dict[str, RegionHandler] = {
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "tt.call": _call,
    "tt.map_elementwise": _map_elementwise,
}
