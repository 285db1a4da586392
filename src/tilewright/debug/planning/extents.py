"""What a kernel's TTIR says of sizes: which scalar arguments its tiles are held against, and which its loops run over.

A comparison of an index built on ``tl.arange`` with something computed from scalar arguments is a mask: the
argument is the extent, the range's length the block. What an index is built from is followed through
arithmetic, loops and calls; how exactly is not, for the planner only asks what depends on what.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.launch.ttir import Function, Module, Op, Region, callee, integer

_HELD = ("arith.cmpi", "arith.remsi", "arith.remui", "arith.minsi", "arith.minui")
_DEEPEST_CALL = 12


@dataclass(frozen=True)
class Form:
    """What a whole number, or each lane of a tile of them, is computed from."""

    ranges: frozenset[int] = frozenset()  # lengths of tl.arange
    arguments: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()  # constants
    axes: frozenset[str] = frozenset()  # of program ids
    looped: bool = False  # a loop's counter
    loaded: bool = False  # a value from memory

    def joined(self, other: Form) -> Form:
        return Form(
            self.ranges | other.ranges,
            self.arguments | other.arguments,
            self.numbers | other.numbers,
            self.axes | other.axes,
            self.looped or other.looped,
            self.loaded or other.loaded,
        )


NOTHING = Form()


@dataclass(frozen=True)
class Bound:
    """A tile's index held against a limit: ``block`` lanes of it (1: an index without lanes).

    ``arguments`` are what the limit is computed from, or ``number`` where it is a constant; ``moves`` where
    the index goes on with the program or with a loop, so that an extent of any size is covered.
    """

    block: int
    arguments: frozenset[str]
    number: int | None
    moves: bool
    loaded: bool


@dataclass(frozen=True)
class Loop:
    """A loop that ends at something computed from ``arguments``; ``steps`` are constants that it may step by."""

    arguments: frozenset[str]
    steps: frozenset[int]
    moves: bool


@dataclass
class Extents:
    """All bounds and loops of a kernel, and the lanes that its operations compute, by the loops they stand in."""

    bounds: list[Bound] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    work: dict[tuple[Loop, ...], list[int]] = field(default_factory=dict)  # operations, lanes
    ranges: set[int] = field(default_factory=set)
    wide: bool = False  # some offset is computed in 64 bits
    moving: set[tuple[str, int]] = field(default_factory=set)  # axes of descriptor arguments that accesses move along

    def cost(self, values: Mapping[str, object], programs: int) -> tuple[float, float]:
        """Operations one after another, and lanes computed in all, of a launch with these arguments."""
        operations = lanes = 0.0
        for loops, (count, width) in self.work.items():
            trips = math.prod(_trips(loop, values) for loop in loops)
            operations += count * trips
            lanes += width * trips * programs
        return operations, lanes

    @property
    def operations(self) -> int:
        """How many there are, whatever loops they stand in."""
        return sum(count for count, _ in self.work.values())


def _trips(loop: Loop, values: Mapping[str, object]) -> float:
    sizes = [v for v in (values.get(name) for name in loop.arguments) if isinstance(v, int)]
    if not sizes:
        return float(max(loop.steps, default=1)) if not loop.arguments else 4.0
    return float(max(-(-max(sizes) // max(loop.steps, default=1)), 1))


def read(module: Module) -> Extents:
    """What the entry of a module, and all that it calls, holds its indices against."""
    reader = _Reader(module)
    entry = module.entry
    forms = [
        NOTHING if kind.is_pointer else Form(arguments=frozenset((name,)))
        for name, kind in zip(entry.argument_names, entry.argument_types, strict=True)
    ]
    reader.function(entry, forms, ())
    own = dict(zip(entry.arguments, entry.argument_names, strict=True))
    reader.found.moving = {(own.get(name, name), axis) for name, axis in reader.found.moving}
    return reader.found


class _Reader:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.found = Extents()
        self._seen: set[Bound | Loop] = set()
        self._depth = 0
        self._blocks: dict[str, list[tuple[int, Form]]] = {}  # sides of descriptors and block pointers, and extents
        self._advances = any(op.name == "tt.advance" for op in module.ops())

    def function(self, function: Function, forms: Sequence[Form], loops: tuple[Loop, ...]) -> list[Form]:
        known = dict(zip(function.arguments, forms, strict=False))
        self._depth += 1
        ends = self._region(function.region, known, loops)
        self._depth -= 1
        return ends

    def _region(self, region: Region, known: dict[str, Form], loops: tuple[Loop, ...]) -> list[Form]:
        """Reads a region; the forms of what its last operation hands on."""
        ends: list[Form] = []
        for block in region.blocks:
            for op in block.ops:
                self._step(op, known, loops)
                if op.name in ("scf.yield", "tt.return", "scf.condition"):
                    values = [known.get(name, NOTHING) for name in op.operands]
                    values = values[1:] if op.name == "scf.condition" else values
                    ends = [a.joined(b) for a, b in zip(ends, values, strict=False)] if ends else values
        return ends

    def _step(self, op: Op, known: dict[str, Form], loops: tuple[Loop, ...]) -> None:
        if op.name == "scf.for":
            results = self._for(op, known, loops)
        elif op.name == "scf.while":
            results = self._while(op, known, loops)
        elif op.name == "tt.call" and self._depth < _DEEPEST_CALL:
            callees = self.module.functions.get(callee(op))
            given = [known.get(name, NOTHING) for name in op.operands]
            results = [] if callees is None else self.function(callees, given, loops)
        elif op.regions:
            parts = [self._region(region, known, loops) for region in op.regions]
            results = [] if op.name.startswith("tt.") else _joined(parts)
        else:
            self._note_work(op, loops)
            results = [self._plain(op, known)] * len(op.results)
        for name, form in zip(op.results, results, strict=False):
            known[name] = form

    def _note_work(self, op: Op, loops: tuple[Loop, ...]) -> None:
        entry = self.found.work.setdefault(loops, [0, 0])
        entry[0] += 1
        entry[1] += max((math.prod(kind.shape) for kind in op.result_types), default=1)

    def _plain(self, op: Op, known: Mapping[str, Form]) -> Form:
        if op.name == "tt.make_range":
            length = integer(op.attributes, "end") - integer(op.attributes, "start")
            self.found.ranges.add(length)
            return Form(ranges=frozenset((length,)))
        if op.name == "tt.get_program_id":
            return Form(axes=frozenset((op.body.strip()[:1],)))
        if op.name == "arith.constant":
            found = re.search(r"-?\d+", op.body) if op.result_types[0].element.startswith("i") else None
            return Form(numbers=frozenset((int(found.group()),))) if found else NOTHING
        operands = [known.get(name, NOTHING) for name in op.operands]
        if op.name in _HELD and len(operands) == 2:
            self._hold(*operands)
        elif op.name in ("tt.make_tensor_ptr", "tt.make_tensor_descriptor"):
            self._make_block(op, operands)
        elif op.name == "tt.addptr":
            self.found.wide |= op.types[-1].element == "i64"
        elif op.name.startswith("tt.descriptor_"):
            self._use_descriptor(op, operands)
        if not op.result_types or not op.result_types[0].element.startswith("i") or op.result_types[0].element == "i1":
            return NOTHING
        if op.name in ("tt.load", "tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_load", "tt.gather"):
            return Form(loaded=True)
        joined = NOTHING
        for operand in operands:
            joined = joined.joined(operand)
        return joined

    def _hold(self, left: Form, right: Form) -> None:
        for index, limit in ((left, right), (right, left)):
            is_index = index.ranges or index.axes or index.looped
            if is_index and not limit.ranges and (limit.arguments or limit.numbers or limit.loaded):
                moves = bool(index.axes or limit.axes or index.looped or limit.looped)
                for block in index.ranges or (1,):
                    self._bound(block, limit, moves)

    def _make_block(self, op: Op, operands: Sequence[Form]) -> None:
        """A block pointer or descriptor masks by the sizes that stand behind its base."""
        kind = op.result_types[0]
        shape = kind.shape
        if kind.is_pointer:
            shape = tuple(int(n) for n in re.findall(r"(\d+)x", kind.pointee))
        extents = list(zip(shape, operands[1 : 1 + len(shape)], strict=False))
        self._blocks[op.results[0]] = extents
        starts = operands[1 + 2 * len(shape) :] if kind.is_pointer else ()
        for position, (block, limit) in enumerate(extents):
            start = starts[position] if position < len(starts) else NOTHING
            self._bound(block, limit, kind.is_pointer and (_moves(start) or self._advances))

    def _use_descriptor(self, op: Op, operands: Sequence[Form]) -> None:
        extents = self._blocks.get(op.operands[0])
        for axis, start in enumerate(operands[1:]):
            if not _moves(start):
                continue
            if extents is None:
                self.found.moving.add((op.operands[0], axis))
            elif axis < len(extents):
                self._bound(*extents[axis], True)

    def _bound(self, block: int, limit: Form, moves: bool) -> None:
        number = min(limit.numbers) if len(limit.numbers) == 1 and not limit.arguments else None
        if not limit.arguments and number is None and not limit.loaded:
            return
        self._keep(Bound(block, limit.arguments, number, moves, limit.loaded))

    def _keep(self, found: Bound | Loop) -> None:
        if found in self._seen:
            return
        self._seen.add(found)
        if isinstance(found, Bound):
            self.found.bounds.append(found)
        else:
            self.found.loops.append(found)

    def _for(self, op: Op, known: dict[str, Form], loops: tuple[Loop, ...]) -> list[Form]:
        variable, low, high, step, *carried = op.operands
        arguments, initial = carried[0::2], carried[1::2]
        begin, end, pace = (known.get(name, NOTHING) for name in (low, high, step))
        steps = frozenset(n for n in pace.numbers if n > 1) or frozenset(n for n in end.numbers if n > 1)
        loop = Loop(end.arguments, steps, bool(begin.axes or end.axes))
        self._keep(loop)
        known[variable] = Form(looped=True, arguments=begin.arguments, axes=begin.axes, loaded=begin.loaded)
        values = [known.get(name, NOTHING) for name in initial]
        for last in (False, True):  # twice: what is carried round becomes known
            before = self._work()
            known.update(zip(arguments, values, strict=False))
            ends = self._region(op.regions[0], known, (*loops, loop))
            values = [a.joined(b) for a, b in zip(values, ends, strict=False)]
            if not last:
                self.found.work = before
        return values

    def _while(self, op: Op, known: dict[str, Form], loops: tuple[Loop, ...]) -> list[Form]:
        names, initial = list(op.operands[0::2]), list(op.operands[1::2])
        before, after = op.regions
        values = [known.get(name, NOTHING) for name in initial]
        values = [value.joined(Form(looped=True)) for value in values]
        loop = Loop(frozenset(), frozenset((8,)), False)
        for last in (False, True):
            saved = self._work()
            known.update(zip(names or before.blocks[0].arguments, values, strict=False))
            forwarded = self._region(before, known, (*loops, loop))
            known.update(zip(after.blocks[0].arguments, forwarded, strict=False))
            ends = self._region(after, known, (*loops, loop))
            values = [a.joined(b) for a, b in zip(values, ends, strict=False)]
            if not last:
                self.found.work = saved
        return values

    def _work(self) -> dict[tuple[Loop, ...], list[int]]:
        return {loops: list(entry) for loops, entry in self.found.work.items()}


def _moves(index: Form) -> bool:
    return bool(index.axes or index.looped or index.loaded)


def _joined(parts: Sequence[Sequence[Form]]) -> list[Form]:
    return [_join_all(forms) for forms in zip(*[part for part in parts if part], strict=False)]


def _join_all(forms: Iterator[Form] | Sequence[Form]) -> Form:
    joined = NOTHING
    for form in forms:
        joined = joined.joined(form)
    return joined
