"""Executing TTIR for many programs at once.

A :class:`Scope` holds the values of a set of programs. Where programs part ways (a branch, a loop that ends
earlier for some) the machine goes on with a scope of some rows of the former: nothing is masked, values of
the outer scope are narrowed when they are first used. Regions run as generators, so that programs which wait
for others can be put aside (see ``schedule.py``); single operations are plain calls.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.executor.faults import Faults, Origins, Place, users_place
from tilewright.debug.executor.memory import Memory
from tilewright.debug.executor.races import Races
from tilewright.debug.executor.storage import Storage
from tilewright.debug.executor.tile import Tile, merge
from tilewright.debug.executor.variables import in_play
from tilewright.debug.guard import Site
from tilewright.launch.ttir import Block, Function, Location, Module, Op, Region

Values = list[Tile]
Running = Generator[None, None, Values]
"""Runs to the end of a region and returns what it yields; each ``yield`` is a turn of a wait."""

Handler = Callable[["Machine", Op, Values], Any]
"""Executes one operation on the programs of the machine's scope; returns its results."""
RegionHandler = Callable[["Machine", Op, "Scope"], Running]


_BRANCHES = frozenset(("cf.br", "cf.cond_br"))
_UNDEFINED = {
    "undefined-lanes": "a value from lanes that a masked load without other leaves undefined",
    "uninitialized-read": "a value from memory that nobody has written",
    "non-finite": "a value that is not finite",
    "integer-hazard": "the result of a division by zero or of a shift by more than the width",
}
_ENDS = frozenset(
    ("scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")
)


class Unsupported(Exception):
    """An operation that this executor does not know, at a line."""

    def __init__(self, words: str, place: Place) -> None:
        super().__init__(words)
        self.words, self.place = words, place


class Scope:
    """Values by name, of a set of programs; what it has not it takes from its parent."""

    __slots__ = ("parent", "programs", "rows", "values")

    def __init__(self, programs: Tensor, parent: Scope | None = None, rows: Tensor | None = None) -> None:
        self.programs = programs  # linear ids
        self.parent, self.rows = parent, rows
        self.values: dict[str, Tile] = {}

    def __getitem__(self, name: str) -> Tile:
        value = self.values.get(name)
        if value is None:
            if self.parent is None:
                raise KeyError(name)
            value = self.parent[name]
            if self.rows is not None:
                value = value.rows(self.rows)
                self.values[name] = value
        return value

    def narrowed(self, rows: Tensor) -> Scope:
        """The scope of some of its programs."""
        return Scope(self.programs[rows], self, rows)

    def inner(self) -> Scope:
        """A scope of the same programs for the values of a region."""
        return Scope(self.programs, self)

    def bind(self, names: Sequence[str], values: Sequence[Tile]) -> None:
        self.values.update(zip(names, values, strict=True))

    @property
    def size(self) -> int:
        return len(self.programs)


@dataclass
class Machine:
    """What executing one launch needs: the module, its memory, its checks, and where it is now."""

    module: Module
    grid: tuple[int, int, int]
    memory: Memory
    faults: Faults
    handlers: Mapping[str, Handler]
    region_handlers: Mapping[str, RegionHandler]
    stdout: Callable[[str], None] = print
    scope: Scope = field(init=False)
    op: Op | None = None  # the one at work
    calls: list[Location] = field(default_factory=list)
    stamp: int = 0  # counts operations on memory: the order of events
    trace: Any = None
    races: Races = field(default_factory=lambda: Races(0, synchronises=False))
    written: set[int] | None = None  # ids of storages that the launch may store to; None for any
    observed: frozenset[int] | None = None  # operations whose results are looked at; None for all
    check_hints: Callable[[Machine, Op, Tile], None] | None = None
    launch_index: int = 0
    exact_products: bool = False  # tf32 products keep all bits of their operands
    changes: int = 0  # counts stores and atomics that changed memory
    counts_changes: bool = False  # whether a store of what is there already is told from one that changes something
    waiting_at: Place | None = None  # the loop that has just gone round
    in_vain: bool = False  # whether it will go round for ever unless another program changes memory

    def tracks_reads(self, storage: Storage) -> bool:
        return self.written is None or id(storage) in self.written

    def site(self, op: Op, tensor: str | None) -> int:
        place = self.place(op)
        return self.memory.site(Site(place.file or "", place.line or 0, tensor, self.launch_index))

    def place(self, op: Op) -> Place:
        return users_place(op.location, self.calls)

    def unsupported(self, op: Op, words: str) -> Unsupported:
        return Unsupported(words, self.place(op))

    # -------------------------------------------------------------------------------------------- running

    def call(self, function: Function, arguments: Values, programs: Tensor) -> Running:
        """Runs a function on some programs; returns what it returns, in their order."""
        scope = Scope(programs)
        scope.bind(function.arguments, arguments)
        results = yield from self.blocks(function.region, scope)
        return results

    def blocks(self, region: Region, scope: Scope) -> Running:
        """Runs the blocks of a function: an early return parts programs, and each set goes its own way."""
        finished: list[tuple[Tensor | None, Values]] = []
        waiting: list[tuple[Block, Scope, Tensor | None]] = [(region.blocks[0], scope, None)]
        while waiting:
            block, here, rows = waiting.pop()
            outcome = yield from self.block(block, here)
            end = block.ops[-1]
            if end.name == "cf.br":
                waiting.append((self._jump(region, end, 0, here), here, rows))
            elif end.name == "cf.cond_br":
                condition = here[end.operands[0]]
                self.check_condition(end, condition)
                for side, part in self.parted(condition, here):
                    inner = here if part is None else here.narrowed(part)
                    own = rows if part is None else (part if rows is None else rows[part])
                    waiting.append((self._jump(region, end, 0 if side else 1, inner), inner, own))
            else:
                finished.append((rows, outcome))
        if not finished[0][1]:
            return []
        columns = zip(*(values for _, values in finished), strict=True)
        every = [rows for rows, _ in finished]
        return [merge(list(zip(every, column, strict=True)), scope.size) for column in columns]

    def _jump(self, region: Region, op: Op, way: int, scope: Scope) -> Block:
        """The block that a branch leads to, with its arguments bound."""
        target = op.cache or _targets(op)
        op.cache = target
        label, names = target[way]
        block = region.block(label)
        scope.bind(block.arguments, [scope[name] for name in names])
        return block

    def block(self, block: Block, scope: Scope) -> Running:
        """Runs the operations of a block; returns the operands of its last."""
        for op in block.ops:
            self.op = op
            inner = self.region_handlers.get(op.name)
            if inner is not None:
                self.scope = scope
                results = yield from inner(self, op, scope)
                scope.bind(op.results, results)
                continue
            handler = self.handlers.get(op.name)
            if handler is None:
                if op.name in _BRANCHES:
                    return []
                if op.name in _ENDS:
                    return [scope[name] for name in op.operands]
                raise self.unsupported(op, f"{op.name} is not supported by the checked executor")
            self.scope = scope
            result = handler(self, op, [scope[name] for name in op.operands])
            if op.hinted and self.check_hints is not None:
                self.check_hints(self, op, result)
            if op.results:
                if len(op.results) == 1:
                    scope.values[op.results[0]] = result
                else:
                    scope.bind(op.results, result)
        return []  # a loop that carries nothing has no yield

    def parted(self, condition: Tile, scope: Scope) -> list[tuple[bool, Tensor | None]]:
        """The two sides of a condition with the rows that go there; None for all, empty sides left out."""
        values = condition.data
        if values.shape[0] == 1 or scope.size == 1:
            return [(bool(values.reshape(-1)[0]), None)]
        yes = values.nonzero().flatten()
        if len(yes) == scope.size:
            return [(True, None)]
        if len(yes) == 0:
            return [(False, None)]
        return [(True, yes), (False, (~values).nonzero().flatten())]

    def drain(self, running: Running) -> Values:
        """Runs what cannot wait: the combine function of a reduction."""
        while True:
            try:
                next(running)
            except StopIteration as stop:
                values: Values = stop.value
                return values

    # ------------------------------------------------------------------------------------------- checking

    def check_condition(self, op: Op, condition: Tile) -> None:
        """A branch or loop that depends on a lane without a value."""
        if condition.poison is not None:
            self.report_poison(op, condition.poison != 0, condition.poison, "decides where the program goes")

    def report_poison(self, op: Op, lanes: Tensor, poison: Tensor, effect: str) -> None:
        """Findings for lanes without a defined value that have an effect."""
        lanes, poison = torch.broadcast_tensors(lanes, poison)
        for number in poison[lanes].unique().tolist():
            if number in (0, Origins.PADDED):
                continue
            origin = self.faults.origins[number]
            source = f"{origin.tensor}, " if origin.tensor else ""
            words = f"{_UNDEFINED[origin.kind]} ({source}line {origin.place.line}) {effect}"
            self.report(op, origin.kind, lanes & (poison == number), words, tensor=origin.tensor, origin=origin)

    def report(self, op: Op, kind: str, lanes: Tensor, message: str, **more: Any) -> None:
        """One finding for the set lanes, bool (programs or 1, …)."""
        if lanes.shape[0] != self.scope.size:
            lanes = lanes.expand(self.scope.size, *lanes.shape[1:])
        programs, count, row = self.faulty(lanes)
        variables = in_play(op, self.module.functions, self.scope, row)
        self.faults.add(
            kind, self.place(op), message, grid=self.grid, programs=programs, lanes=count, variables=variables, **more
        )

    def faulty(self, lanes: Tensor) -> tuple[list[int], int, int]:
        """Programs with a set lane in ascending order, how many lanes are set, and the first program's row."""
        flat = lanes.reshape(lanes.shape[0], -1)
        rows = flat.any(1).nonzero().flatten()
        ids = self.scope.programs[rows]
        order = torch.argsort(ids)
        return ids[order].tolist(), int(flat.sum()), int(rows[order[0]])


def _targets(op: Op) -> list[tuple[str, tuple[str, ...]]]:
    """Labels and arguments of a branch: ``%c, ^bb1(%a : i32), ^bb2``."""
    found = []
    for part in op.body.split("^")[1:]:
        label = "^" + part.partition("(")[0].strip(" ,")
        names = part.partition("(")[2].partition(")")[0].partition(":")[0]
        found.append((label.split()[0].rstrip(","), tuple(n.strip() for n in names.split(",") if n.strip())))
    return found
