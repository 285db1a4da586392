"""What a kernel promises the compiler of its values: ``multiple_of``, ``max_contiguous``, ``max_constancy``.

They end up as attributes of the operation that made the value. For a tile, ``multiple_of`` speaks along each
axis of the first lane of every run of consecutive lanes (Triton's AxisInfo: the divisor of "the first element
of all groups of contiguity values"); the runs are those that ``max_contiguous`` promises, or else those found.
A promise on a parameter of the kernel itself leaves no trace: Triton drops it.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Machine
from tilewright.debug.executor.tile import Tile, any_set
from tilewright.launch.ttir import Op

_REMEDY = "drop the hint, or promise what holds for every shape: the compiler takes it as true"


def check(machine: Machine, op: Op, tile: Tile) -> None:
    """Findings for hints of an operation that its result does not keep."""
    if tile.data.dtype != torch.int64:
        return
    divisors, runs, groups = (_numbers(op, name) for name in ("divisibility", "contiguity", "constancy"))
    step = elements.size(tile.element[4:-1]) if tile.element.startswith("ptr<") else 1
    rank = len(tile.shape)
    values = tile.full().data
    for axis in range(max(rank, 1)):
        along = values.movedim(axis + 1, -1) if rank else values[:, None]
        follows = torch.zeros_like(along, dtype=torch.bool)
        follows[..., 1:] = along[..., 1:] == along[..., :-1] + step
        run = min(runs[axis], along.shape[-1]) if axis < len(runs) else 0
        if run > 1:
            within = torch.arange(along.shape[-1]) % run != 0
            _tell(machine, op, ~follows & within, f"tl.max_contiguous promises runs of {run}", along)
            follows = within.expand(along.shape)
        if axis < len(groups) and groups[axis] > 1:
            equal = torch.ones_like(follows)
            equal[..., 1:] = along[..., 1:] == along[..., :-1]
            first = torch.arange(along.shape[-1]) % groups[axis] == 0
            _tell(machine, op, ~equal & ~first, f"tl.max_constancy promises groups of {groups[axis]}", along)
        if axis < len(divisors) and divisors[axis] > 1:
            broken = ~follows & (along % divisors[axis] != 0)
            _tell(machine, op, broken, f"tl.multiple_of promises multiples of {divisors[axis]}", along)


def _numbers(op: Op, name: str) -> list[int]:
    """``dense<16> : tensor<1xi32>``, ``dense<[1, 16]> : tensor<2xi32>`` or ``16 : i32``."""
    return [int(number) for number in re.findall(r"\d+", op.attributes.get(f"tt.{name}", "").partition(":")[0])]


def _tell(machine: Machine, op: Op, broken: Tensor, promise: str, values: Tensor) -> None:
    if not any_set(broken):
        return
    broken = broken.expand(values.shape)
    # At a tensor's edge lanes are clamped, or wrap round to its start: values stay, or fall. Whether the promise then
    # matters depends on what they are used for. A first lane or a gap that breaks it is wrong whatever follows.
    rises = torch.ones_like(broken)
    rises[..., 1:] = values[..., 1:] > values[..., :-1]
    wrong = broken & rises
    bad = int(values[wrong if any_set(wrong) else broken][0])
    words = f"{promise}, and the value {bad} breaks it"
    severity = "error" if any_set(wrong) else "note"
    machine.report(op, "false-hint", broken, words, severity=severity, remedy=_REMEDY)
