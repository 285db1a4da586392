"""In which order programs run: chunks that fit the cache, or one by one where programs wait for each other.

In a chunk all programs take each step together. A kernel that spins on an atomic or a flag would never end
that way (the holder of a lock waits at the loop's exit for the others), so its programs run as coroutines:
each goes on until its loop has gone round in vain, then the next has its turn. When a whole round changes
nothing in memory and all go round in vain, none ever will get on. Up to the first place that may wait they too
take their steps together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from tilewright.debug.executor.faults import Place
from tilewright.debug.executor.machine import Machine, Running, Scope
from tilewright.debug.executor.program import Program
from tilewright.debug.executor.tile import Tile
from tilewright.launch.ttir import Block, Location

LANES = 1 << 18
"""Lanes of a chunk's widest tile: its fp32 values fill a megabyte, about what a core's own cache holds."""
MOST_PROGRAMS = 1 << 16
_TURNS = 64
"""Rounds of its loops that a program takes before others have their turn."""
_IDLE_ROUNDS = 128
"""After so many with no change in memory, loops that count their rounds are taken to wait for ever too."""


@dataclass
class _Coroutine:
    program: int
    running: Running
    calls: list[Location] = field(default_factory=list)
    place: Place | None = None
    in_vain: bool = False


def edges(grid: tuple[int, int, int]) -> torch.Tensor:
    """Linear ids of the programs at the edges of a grid, and in the middle: where addresses are extreme."""
    x, y, z = (torch.tensor(sorted({i for i in (0, 1, n // 2, n - 2, n - 1) if 0 <= i < n})) for n in grid)
    ids: torch.Tensor = ((z[:, None, None] * grid[1] + y[None, :, None]) * grid[0] + x).reshape(-1)
    return ids


def run(
    machine: Machine,
    program: Program,
    arguments: list[Tile],
    *,
    backwards: bool = False,
    edges_only: bool = False,
    at_once: int = MOST_PROGRAMS,
) -> None:
    """Runs every program of the machine's grid, from the first on, or from the last; or those at its edges.

    Of programs that do not wait, so many take their steps together as fit the cache, and no more than ``at_once``.
    """
    x, y, z = machine.grid
    count = x * y * z
    if edges_only and not program.waits:
        _finishes(machine, machine.call(machine.module.entry, arguments, edges(machine.grid)))
        return
    if program.waits:
        _one_by_one(machine, _started(machine, program, arguments, range(count)[::-1] if backwards else range(count)))
        return
    step = max(1, min(at_once, LANES // program.widest))
    for first in range(0, count, step):
        ids = torch.arange(first, min(first + step, count))
        machine.calls.clear()
        if not _finishes(machine, machine.call(machine.module.entry, arguments, count - 1 - ids if backwards else ids)):
            return


def _finishes(machine: Machine, running: Running) -> bool:
    """Runs programs that do not wait; False where a loop never ends."""
    while next(running, _END) is not _END:
        if machine.in_vain:
            _report(machine, machine.waiting_at, machine.scope.programs.tolist(), "never leaves this loop")
            return False
    return True


_END = object()


def _started(machine: Machine, program: Program, arguments: list[Tile], programs: range) -> Iterator[_Coroutine]:
    """Programs as coroutines, brought together as far as the first place that may wait."""
    entry = machine.module.entry
    block, end = entry.region.blocks[0], program.first_wait or 0
    if end == 0 or len(entry.region.blocks) > 1:
        for number in programs:
            yield _Coroutine(number, machine.call(entry, arguments, torch.tensor([number])))
        return
    head, tail = (Block(block.label, ops=ops) for ops in (block.ops[:end], block.ops[end:]))
    step = max(1, LANES // program.widest)
    for first in range(0, len(programs), step):
        group = programs[first : first + step]
        scope = Scope(torch.tensor(group))
        scope.bind(entry.arguments, arguments)
        machine.calls.clear()
        if not _finishes(machine, machine.block(head, scope)):
            return
        for row, number in enumerate(group):
            yield _Coroutine(number, machine.block(tail, scope.narrowed(torch.tensor([row]))))


def _one_by_one(machine: Machine, coming: Iterator[_Coroutine]) -> None:
    machine.counts_changes = True
    waiting: list[_Coroutine] = []
    idle = 0
    while True:
        before = machine.changes
        new = next(coming, None)
        if new is not None:
            waiting.append(new)
        still = [coroutine for coroutine in waiting if not _takes_turns(machine, coroutine)]
        moved = new is not None or len(still) < len(waiting) or machine.changes != before
        waiting = still
        if not waiting and new is None:
            return
        idle = 0 if moved else idle + 1
        if idle > _IDLE_ROUNDS or (idle and all(coroutine.in_vain for coroutine in waiting)):
            _deadlock(machine, waiting)
            return


def _takes_turns(machine: Machine, coroutine: _Coroutine) -> bool:
    """Lets one program go on until its loop goes round in vain; True when it has ended."""
    machine.calls[:] = coroutine.calls
    for _ in range(_TURNS):
        if next(coroutine.running, _END) is _END:
            return True
        coroutine.in_vain = machine.in_vain
        if machine.in_vain:
            break
    coroutine.calls = list(machine.calls)
    coroutine.place = machine.waiting_at
    return False


def _deadlock(machine: Machine, waiting: list[_Coroutine]) -> None:
    for place in dict.fromkeys(coroutine.place for coroutine in waiting):
        programs = sorted(coroutine.program for coroutine in waiting if coroutine.place == place)
        _report(machine, place, programs, "waits for ever: no other can change what it waits for")


def _report(machine: Machine, place: Place | None, programs: list[int], what: str) -> None:
    x, y, z = machine.grid
    first = programs[0]
    words = f"program {(first % x, first // x % y, first // (x * y))} {what} ({len(programs)} of {x * y * z} programs)"
    machine.faults.add("deadlock", place or Place(None, None), words, grid=machine.grid, programs=programs, lanes=0)
