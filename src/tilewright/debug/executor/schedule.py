"""In which order programs run: chunks that fit the cache, or one by one where programs wait for each other.

In a chunk all programs take each step together. A kernel that spins on an atomic or a flag would never end
that way (the holder of a lock waits at the loop's exit for the others), so its programs run as coroutines:
each goes on until it has spun once in vain, then the next has its turn. When a whole round changes nothing
in memory and no program ends, none ever will.
"""

from __future__ import annotations

import torch

from tilewright.debug.executor.faults import Place
from tilewright.debug.executor.machine import Machine, Running
from tilewright.debug.executor.program import Program
from tilewright.debug.executor.tile import Tile

LANES = 1 << 18
"""Lanes of a chunk's widest tile: its fp32 values fill a megabyte, about what a core's own cache holds."""
MOST_PROGRAMS = 1 << 16
_IDLE_ROUNDS = 3


def run(machine: Machine, program: Program, arguments: list[Tile]) -> None:
    """Runs every program of the machine's grid."""
    x, y, z = machine.grid
    if program.waits:
        _one_by_one(machine, arguments, x * y * z)
        return
    step = max(1, min(MOST_PROGRAMS, LANES // program.widest))
    for first in range(0, x * y * z, step):
        ids = torch.arange(first, min(first + step, x * y * z))
        machine.calls.clear()
        machine.drain(machine.call(machine.module.entry, arguments, ids))


def _one_by_one(machine: Machine, arguments: list[Tile], programs: int) -> None:
    waiting: list[tuple[int, Running, list[object]]] = []
    started = 0
    idle = 0
    while started < programs or waiting:
        before = machine.changes
        if started < programs:
            ids = torch.tensor([started])
            waiting.append((started, machine.call(machine.module.entry, arguments, ids), []))
            started += 1
        still = []
        for number, running, calls in waiting:
            machine.calls[:] = calls  # type: ignore[assignment]
            try:
                next(running)
            except StopIteration:
                continue
            still.append((number, running, list(machine.calls)))
        ended = len(still) < len(waiting)
        waiting = still  # type: ignore[assignment]
        idle = 0 if ended or machine.changes != before or started < programs else idle + 1
        if idle >= _IDLE_ROUNDS:
            _deadlock(machine, [number for number, _, _ in waiting])
            return


def _deadlock(machine: Machine, programs: list[int]) -> None:
    place = machine.waiting_at or Place(None, None)
    words = f"{len(programs)} of {machine.grid[0] * machine.grid[1] * machine.grid[2]} programs wait for ever: none can change what they wait for"
    machine.faults.add("deadlock", place, words, grid=machine.grid, programs=programs, lanes=0)
