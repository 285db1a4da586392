"""The arithmetic of a kernel's dots, counted from its frontend TTIR: how much, in which dtype, by how large a tile.

The scalar part of the program (loop bounds, branches, calls) is followed for a sample of the grid's programs;
tensors are not computed. Where the trip count of a loop around a dot depends on data, there is no count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from tilewright.launch.ttir import Function, Module, Op, Region, callee
from tilewright.tune.dots import Dot, dot_of, parsed

PROGRAMS = 16
"""Programs of a grid that are looked at, evenly spread."""
ITERATIONS = 8
"""Iterations of a loop that are looked at where a bound or branch in it depends on which one it is."""


def count(ttir: str, arguments: Mapping[str, object], grid: Sequence[int]) -> dict[Dot, float] | None:
    """Operations of each dot over a whole launch; None where a loop's trip count is not known from its arguments."""
    module = parsed(ttir)
    if not any(map(dot_of, module.ops())):
        return {}
    known = {name: int(value) for name, value in arguments.items() if isinstance(value, int)}
    total = math.prod(grid)
    looked_at = min(total, PROGRAMS)
    found: dict[Dot, float] = {}
    for sample in range(looked_at):
        linear = (2 * sample + 1) * total // (2 * looked_at)
        program = (linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1]))
        try:
            one, _ = _Program(module, program, (grid[0], grid[1], grid[2])).call(module.entry, known)
        except _Unknown:
            return None
        for dot, flops in one.items():
            found[dot] = found.get(dot, 0.0) + flops * total / looked_at
    return found


# ----------------------------------------------------------------------------------------------- following it


class _Unknown(Exception):
    """What decides how often a dot runs is not known."""


Values = dict[str, int | None]
Flops = dict[Dot, float]


class _Program:
    """One program of a launch, its scalars followed as far as they are known; None stands for any other value."""

    def __init__(self, module: Module, program: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
        self._functions, self._program, self._grid = module.functions, program, grid
        self._has_dots: dict[int, bool] = {}

    def call(self, function: Function, arguments: Mapping[str, int | None]) -> tuple[Flops, list[int | None]]:
        """The operations of a call, and what it returns."""
        named = zip(function.arguments, function.argument_names, strict=True)
        values: Values = {own: arguments.get(name) for own, name in named}
        flops: Flops = {}
        blocks = function.region.blocks
        block, steps = blocks[0], 0
        while True:
            steps += 1
            ended = self._run(block.ops, values, flops)
            if ended is None or ended.name == "tt.return":
                return flops, [values.get(name) for name in (ended.operands if ended else ())]
            targets = re.findall(r"\^\w+", ended.body)
            condition = values.get(ended.operands[0]) if ended.name == "cf.cond_br" else 1
            if condition is None or steps > len(blocks):
                if self._with_dots(function.region):
                    raise _Unknown
                return flops, []
            block = function.region.block(targets[0 if condition else 1])

    def _run(self, body: list[Op], values: Values, flops: Flops) -> Op | None:
        """Runs a block; the terminator that ends it, if it has one."""
        for op in body:
            if op.name in ("tt.return", "cf.br", "cf.cond_br", "scf.yield", "scf.condition"):
                return op
            dot = dot_of(op)
            if dot is not None:
                flops[dot] = flops.get(dot, 0.0) + dot.flops
            elif op.name == "scf.for":
                self._loop(op, values, flops)
            elif op.name == "scf.if":
                self._branch(op, values, flops)
            elif op.name == "tt.call":
                self._called(op, values, flops)
            elif op.regions and any(self._with_dots(region) for region in op.regions):
                raise _Unknown  # scf.while: nobody knows how often
            elif len(op.results) == 1:
                values[op.results[0]] = self._scalar(op, values)
        return None

    def _with_dots(self, region: Region) -> bool:
        if id(region) not in self._has_dots:
            self._has_dots[id(region)] = False  # a recursion adds none of its own
            self._has_dots[id(region)] = any(
                dot_of(op) or (op.name == "tt.call" and self._with_dots(self._functions[callee(op)].region))
                for op in region.ops()
            )
        return self._has_dots[id(region)]

    def _called(self, op: Op, values: Values, flops: Flops) -> None:
        called = self._functions[callee(op)]
        given = [values.get(name) for name in op.operands]
        added, returned = self.call(called, dict(zip(called.argument_names, given, strict=False)))
        _add(flops, added)
        for name, value in zip(op.results, returned, strict=False):
            values[name] = value

    def _branch(self, op: Op, values: Values, flops: Flops) -> None:
        condition = values.get(op.operands[0])
        if condition is None:
            if any(self._with_dots(region) for region in op.regions):
                raise _Unknown
            return
        if condition or len(op.regions) > 1:
            ended = self._run(op.regions[0 if condition else 1].blocks[0].ops, values, flops)
            for name, value in zip(op.results, ended.operands if ended else (), strict=False):
                values[name] = values.get(value)

    def _loop(self, op: Op, values: Values, flops: Flops) -> None:
        if not self._with_dots(op.regions[0]):
            return
        index, low, high, step = op.operands[0], *(values.get(name) for name in op.operands[1:4])
        if low is None or high is None or not step:
            raise _Unknown
        trips = max(0, -(-(high - low) // step))
        if trips == 0:
            return
        try:
            self._iterations(op, {**values, index: None}, [None], trips, flops)
        except _Unknown:  # something in it depends on the iteration
            looked_at = min(trips, ITERATIONS)
            picked = [low + step * ((2 * i + 1) * trips // (2 * looked_at)) for i in range(looked_at)]
            self._iterations(op, dict(values), picked, trips, flops)

    def _iterations(self, op: Op, values: Values, picked: Sequence[int | None], trips: int, flops: Flops) -> None:
        """Adds a loop's operations, judged by those of some iterations."""
        found: Flops = {}
        for position in picked:
            self._run(op.regions[0].blocks[0].ops, {**values, op.operands[0]: position}, found)
        _add(flops, {dot: work * trips / len(picked) for dot, work in found.items()})

    def _scalar(self, op: Op, values: Values) -> int | None:
        if op.name == "arith.constant":
            literal = re.fullmatch(r"(true|false|-?\d+)", op.body.strip())
            return None if literal is None else _BOOLEANS[literal[1]] if literal[1] in _BOOLEANS else int(literal[1])
        axis = " xyz".find(op.body.strip()[:1]) - 1
        if op.name == "tt.get_program_id":
            return self._program[axis]
        if op.name == "tt.get_num_programs":
            return self._grid[axis]
        given = [values.get(name) for name in op.operands]
        if op.name == "arith.select":
            return None if given[0] is None else given[1 if given[0] else 2]
        known = [value for value in given if value is not None]
        if len(known) != len(given) or not given:
            return None
        if op.name in CASTS:
            return known[0]
        name = f"{op.name} {op.body.partition(',')[0].strip()}" if op.name == "arith.cmpi" else op.name
        function = INTEGER_OPERATIONS.get(name)
        return function(*known[:2]) if function is not None and len(known) >= 2 else None


def _add(flops: Flops, more: Flops) -> None:
    for dot, work in more.items():
        flops[dot] = flops.get(dot, 0.0) + work


def _toward_zero(a: int, b: int) -> int | None:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int | None:
    return None if b == 0 else a - b * (_toward_zero(a, b) or 0)


_BOOLEANS = {"true": 1, "false": 0}
CASTS = frozenset(f"arith.{name}" for name in ("extsi", "extui", "trunci", "index_cast", "index_castui", "bitcast"))
INTEGER_OPERATIONS: dict[str, Callable[[int, int], int | None]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _toward_zero,
    "arith.divui": _toward_zero,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.maxsi": max,
    "arith.maxui": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shli": lambda a, b: a << b,
    "arith.shrsi": lambda a, b: a >> b,
    "arith.shrui": lambda a, b: a >> b,
    "arith.cmpi eq": lambda a, b: int(a == b),
    "arith.cmpi ne": lambda a, b: int(a != b),
    "arith.cmpi slt": lambda a, b: int(a < b),
    "arith.cmpi sle": lambda a, b: int(a <= b),
    "arith.cmpi sgt": lambda a, b: int(a > b),
    "arith.cmpi sge": lambda a, b: int(a >= b),
    "arith.cmpi ult": lambda a, b: int(a < b),
    "arith.cmpi ule": lambda a, b: int(a <= b),
    "arith.cmpi ugt": lambda a, b: int(a > b),
    "arith.cmpi uge": lambda a, b: int(a >= b),
}  # fmt: skip
