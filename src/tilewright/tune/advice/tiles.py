"""The tiles that a kernel loads and stores: how large, how far apart its elements are, and what its addresses rest on.

Addresses are followed through the TTIR with the launch's own arguments: a tile of pointers has, along each of its
dims, a distance between neighbours. Where that is not the same everywhere, or depends on what a kernel reads, there
is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.launch.ttir import Function, Op, integer
from tilewright.tune.advice.flow import Flow
from tilewright.tune.arithmetic import CASTS, INTEGER_OPERATIONS

_BYTES = {"i1": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8}


@dataclass(frozen=True)
class Access:
    """One ``tl.load`` or ``tl.store`` of a tile.

    ``steps`` are distances between neighbours along each dim, in elements; None where there is no one distance.
    ``parameters`` are the kernel's scalars and pointers that address and mask follow from, ``loaded`` the loads that
    they follow from.
    """

    op: Op
    shape: tuple[int, ...]
    element: str
    element_bytes: int
    steps: tuple[int | None, ...]
    pointer: str | None
    parameters: frozenset[str]
    loaded: tuple[Op, ...]
    loop: Op | None

    @property
    def verb(self) -> str:
        return "stores" if self.op.name == "tt.store" else "loads"

    @property
    def elements(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def tile(self) -> str:
        """``128x64 bf16``."""
        return f"{'x'.join(map(str, self.shape))} {self.element}"


def accesses(function: Function, flow: Flow, arguments: Mapping[str, object]) -> list[Access]:
    """The loads and stores of tiles, in the order of the text; those of single numbers are left out."""
    names = dict(zip(function.arguments, function.argument_names, strict=True))
    addresses = _Addresses(flow, {own: arguments.get(name) for own, name in names.items()})
    found = []
    for op in flow.ops:
        if op.name not in ("tt.load", "tt.store") or not op.types[0].is_pointer or not op.types[0].shape:
            continue
        element = op.types[0].pointee
        kind = "f8" if element.startswith("f8") else element
        if kind not in _BYTES and kind != "f8":
            continue
        pointer, mask = op.operands[0], op.operands[2 if op.name == "tt.store" else 1 :]
        behind = set(flow.behind([pointer, *mask[:1]]))
        makers = {flow.maker[value].index: flow.maker[value] for value in behind if value in flow.maker}
        shape = op.types[0].shape
        where = addresses.of(pointer)
        base = next((names[v] for v in flow.behind([pointer]) if v in names and _is_pointer(function, v)), None)
        found.append(
            Access(
                op,
                shape,
                element,
                _BYTES.get(kind, 1),
                where.steps if where is not None else (None,) * len(shape),
                base,
                frozenset(names[value] for value in behind if value in names),
                tuple(op for _, op in sorted(makers.items()) if op.name in ("tt.load", "tt.descriptor_load")),
                flow.loop_of(op),
            )
        )
    return found


def _is_pointer(function: Function, value: str) -> bool:
    return function.argument_types[function.arguments.index(value)].is_pointer


@dataclass(frozen=True)
class _Tile:
    """Whole numbers, or addresses: distances along each dim, and the number itself where all are known and the same."""

    steps: tuple[int | None, ...] = ()
    value: int | None = None

    @property
    def is_uniform(self) -> bool:
        return not any(step != 0 for step in self.steps)


class _Addresses:
    def __init__(self, flow: Flow, given: Mapping[str, object]) -> None:
        self._flow = flow
        self._known: dict[str, _Tile | None] = {
            name: _Tile(value=int(value) if isinstance(value, int) else None) for name, value in given.items()
        }

    def of(self, value: str) -> _Tile | None:
        """None for what is no tile of one distance."""
        if value not in self._known:
            self._known[value] = None  # a value that follows from itself has no distance but that of a carried one
            self._known[value] = self._found(value)
        return self._known[value]

    def _found(self, value: str) -> _Tile | None:
        if value in self._flow.carried:
            first, after = self._flow.carried[value]
            start = self.of(first)
            self._known[value] = None if start is None else _Tile(start.steps)
            moved = self.of(after)
            return self._known[value] if start and moved and moved.steps == start.steps else None
        op = self._flow.maker.get(value)
        if op is None or len(op.results) != 1:
            return _Tile()  # a loop's counter, a branch's result: some number
        return self._of_op(op)

    def _of_op(self, op: Op) -> _Tile | None:
        rank = len(op.result_types[0].shape) if op.result_types else 0
        if op.name == "arith.constant":
            number = re.fullmatch(r"(?:dense<)?(-?\d+)>?", op.body.strip())
            return _Tile((0,) * rank, int(number[1])) if number else None
        if op.name == "tt.make_range":
            return _Tile((1,))
        given = [self.of(name) for name in op.operands]
        known = [tile for tile in given if tile is not None]
        if rank == 0:
            return self._scalar(op, known if len(known) == len(given) else [])
        if len(known) != len(given) or not known:
            return None
        return self._tile(op, known, rank)

    def _scalar(self, op: Op, given: list[_Tile]) -> _Tile:
        values = [tile.value for tile in given]
        numbers = [value for value in values if value is not None]
        if not values or len(numbers) != len(values):
            return _Tile()
        if op.name in CASTS:
            return _Tile(value=numbers[0])
        function = INTEGER_OPERATIONS.get(op.name)
        return _Tile(value=function(*numbers) if function and len(numbers) == 2 else None)

    def _tile(self, op: Op, given: list[_Tile], rank: int) -> _Tile | None:
        first = given[0]
        if op.name == "tt.splat":
            return _Tile((0,) * rank, first.value)
        if op.name in CASTS or op.name in ("tt.broadcast", "tt.bitcast"):
            return first
        if op.name == "tt.expand_dims":
            axis = integer(op.attributes, "axis")
            return _Tile((*first.steps[:axis], 0, *first.steps[axis:]), first.value)
        if op.name in ("arith.addi", "tt.addptr", "arith.subi"):
            sign = -1 if op.name == "arith.subi" else 1
            steps = tuple(
                None if a is None or b is None else a + sign * b
                for a, b in zip(first.steps, given[1].steps, strict=True)
            )
            return _Tile(steps)
        if op.name == "arith.muli":
            one, other = (first, given[1]) if given[1].is_uniform else (given[1], first)
            if not other.is_uniform:
                return None
            return _Tile(tuple(_times(step, other.value) for step in one.steps))
        if op.name == "arith.remsi" and given[1].is_uniform:
            return _Tile(first.steps)  # up to where it wraps
        return _Tile((0,) * rank) if all(tile.is_uniform for tile in given) and op.name.startswith("arith.") else None


def _times(step: int | None, factor: int | None) -> int | None:
    if step == 0:
        return 0
    return None if step is None or factor is None else step * factor
