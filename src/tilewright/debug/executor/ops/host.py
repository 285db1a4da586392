"""Where a program is, what it says, and what it promises: ids, print, assert, assume."""

from __future__ import annotations

import re

import torch

from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.tile import Tile, any_set, known_bounds, scalar
from tilewright.launch.ttir import Op

_AXES = {"x": 0, "y": 1, "z": 2}
_SHOWN = 8


def _program_id(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    axis = _AXES[op.body.strip()[-1]]
    x, y, _ = machine.grid
    ids = machine.scope.programs
    data = (ids % x, ids // x % y, ids // (x * y))[axis]
    tile = Tile(data, (), "i32")
    low, high = known_bounds(tile)
    return Tile(data[:1], (), "i32", (low, high)) if low == high else tile


def _num_programs(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    number = machine.grid[_AXES[op.body.strip()[-1]]]
    return Tile(torch.tensor([number]), (), "i32", (number, number))


def _assert(machine: Machine, op: Op, operands: list[Tile]) -> None:
    failed = ~operands[0].data
    if any_set(failed):
        text = re.search(r'"((?:[^"\\]|\\.)*)"', op.body)
        words = f"device_assert failed: {text.group(1) if text else ''}".rstrip(": ")
        machine.report(op, "launch-error", failed, words)


def _print(machine: Machine, op: Op, operands: list[Tile]) -> None:
    text = re.search(r'"((?:[^"\\]|\\.)*)"', op.body)
    prefix = text.group(1).strip(" :") if text else ""
    x, y, _ = machine.grid
    for row, program in enumerate(machine.scope.programs.tolist()):
        where = f"({program % x}, {program // x % y}, {program // (x * y)})"
        values = []
        for tile in operands:
            data = tile.full().data
            values.append(str(data[min(row, data.shape[0] - 1)].tolist()))
        machine.stdout(f"program {where} {prefix}: {', '.join(values)}")


def _assume(machine: Machine, op: Op, operands: list[Tile]) -> None:
    broken = ~operands[0].data
    if any_set(broken):
        words = "tl.assume promises the compiler what does not hold here; it may compile the kernel into anything"
        machine.report(op, "false-hint", broken, words)


def _nothing(machine: Machine, op: Op, operands: list[Tile]) -> None:
    return None


def _inline_assembly(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    if op.body.startswith('"griddepcontrol.'):  # what Triton 3.6 makes of gdc_wait and gdc_launch_dependents
        return scalar(0, "i32")
    raise machine.unsupported(
        op, "inline_asm_elementwise is not supported by the checked executor: it does not read assembly"
    )


OPS: dict[str, Handler] = {
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.assert": _assert,
    "tt.print": _print,
    "llvm.intr.assume": _assume,
    "gpu.barrier": _nothing,
    "ttg.barrier": _nothing,
    "tt.elementwise_inline_asm": _inline_assembly,
    "tt.grid_dependency_wait": _nothing,  # launches follow each other here
    "tt.grid_dependency_launch_dependents": _nothing,
}
