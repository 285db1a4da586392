"""Triton 3.9's atomic loads and stores, and polls: waiting for a value without a loop of the kernel's own."""

from __future__ import annotations

from tilewright.debug.executor.machine import Handler, Machine, RegionHandler, Running, Scope
from tilewright.debug.executor.ops.access import live_lanes
from tilewright.debug.executor.ops.atomic import UPDATES, Rule, update
from tilewright.debug.executor.ops.load import load, read
from tilewright.debug.executor.tile import Tile, all_set, joined_poison
from tilewright.launch.ttir import Op

_PATIENCE = 1024
"""Turns of other programs until a poll with a timeout gives up: clocks do not pass here."""


def _store(machine: Machine, op: Op, operands: list[Tile]) -> None:
    """An exchange whose result is not asked for."""
    if op.cache is None:
        op.cache = Rule("exch", op.body.split(",")[0].strip(), UPDATES["exch"])
    pointer, value = operands[:2]
    mask = operands[2] if len(operands) > 2 else None
    update(machine, op, pointer, value, live_lanes(machine, op, pointer, mask, "write"), op.cache)


def _poll(machine: Machine, op: Op, scope: Scope) -> Running:
    pointer, expected = (scope[name] for name in op.operands[:2])
    turns = _PATIENCE if len(op.operands) > 2 else None
    while True:
        changes = machine.changes
        machine.op, machine.scope = op, scope
        found = read(machine, op, pointer, live_lanes(machine, op, pointer, None, "read"))
        met = found.data == expected.data
        if all_set(met) or turns == 0:
            return [Tile(met, pointer.shape, "i1", poison=joined_poison([found, expected]))]
        machine.waiting_at = machine.place(op)
        machine.in_vain = turns is None and machine.changes == changes
        turns = None if turns is None else turns - 1
        yield


OPS: dict[str, Handler] = {"tt.atomic_load": load, "tt.atomic_store": _store}
REGION_OPS: dict[str, RegionHandler] = {"tt.atomic_poll": _poll}
