"""Sets of lanes in the user's own variables: ``offs_n < N``.

While the edits of a remedy run once more, the lanes that each keeps are compared with what the kernel's
variables say at that moment. A condition that names the same lanes every time, in every case, is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.causes.change import Change
from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Machine, RegionHandler, Scope
from tilewright.debug.executor.tile import Tile
from tilewright.debug.guard import is_users_code
from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Function, Op

_SSA = re.compile(r"%([A-Za-z_]\w*?)(?:_\d+)?$")
_MADE_UP = re.compile(r"(arg\d*|cst|true|false|c_?\d+_?i?\d*)$")
_MOST_OCCURRENCES = 48
_MOST_TERMS = 12


@dataclass(frozen=True)
class Condition:
    """``vector + term < bound``; a named mask alone where ``bound`` is empty."""

    vector: str
    term: str = ""
    bound: str = ""
    indexed: bool = True  # the vector has one axis, and takes an index where the tile has more

    def text(self, index: str) -> str:
        """The condition with the vector indexed, such as ``[:, None]``."""
        vector = self.vector + index if self.indexed else self.vector
        if not self.bound:
            return vector
        end = f"{self.bound} - {self.term}" if self.term else self.bound
        return f"{vector} < {end}"


@dataclass
class Lanes:
    """What is known of the lanes that a change keeps along one axis."""

    rank: int
    size: int
    conditions: set[Condition] | None = None  # that fitted each time; None before the first
    seen: int = 0


@dataclass
class Names:
    """Collects conditions for the lanes of changes, over all launches and cases."""

    lanes: dict[tuple[Change, int], Lanes] = field(default_factory=dict)
    _callers: list[Scope] = field(default_factory=list)

    def following_calls(self, handlers: Mapping[str, RegionHandler]) -> dict[str, RegionHandler]:
        """Region handlers that remember the scope of who called a library function."""
        call = handlers["tt.call"]

        def called(machine: Machine, op: Op, scope: Scope) -> Any:
            self._callers.append(scope)
            try:
                return (yield from call(machine, op, scope))
            finally:
                self._callers.pop()

        return {**handlers, "tt.call": called}

    def note(
        self, change: Change, machine: Machine, op: Op, axis: int, rank: int, kept: Tensor, launch: Launch
    ) -> None:
        """The lanes that a change keeps along an axis, bool (programs or 1, lanes), at one execution of it."""
        known = self.lanes.setdefault((change, axis), Lanes(rank, kept.shape[1]))
        if bool(kept.all()) or known.seen >= _MOST_OCCURRENCES:
            return
        known.seen += 1
        shape = tuple(kept.shape[1] if i == axis else 1 for i in range(rank))
        fitting = set(_conditions(self._variables(machine, op, launch, shape), kept, known.conditions))
        known.conditions = fitting if known.conditions is None else known.conditions & fitting

    def _variables(self, machine: Machine, op: Op, launch: Launch, shape: tuple[int, ...]) -> _Variables:
        inside = op.location.file is not None and is_users_code(op.location.file)
        scope = machine.scope if inside or not self._callers else self._callers[-1]
        return _variables(machine, scope, launch, shape)


@dataclass
class _Variables:
    vectors: dict[tuple[str, bool], Tensor] = field(default_factory=dict)  # by name, and whether they take an index
    masks: dict[tuple[str, bool], Tensor] = field(default_factory=dict)
    scalars: dict[str, Tensor] = field(default_factory=dict)
    terms: dict[str, Tensor] = field(default_factory=dict)


def _conditions(variables: _Variables, kept: Tensor, wanted: set[Condition] | None) -> Iterator[Condition]:
    for (name, indexed), mask in variables.masks.items():
        if _agree(mask, kept):
            yield Condition(name, indexed=indexed)
    for (vector, indexed), values in variables.vectors.items():
        for term, added in {"": torch.zeros(1, dtype=torch.int64), **variables.terms}.items():
            index = values + added[:, None]
            for bound, limit in variables.scalars.items():
                condition = Condition(vector, term, bound, indexed)
                if bound != vector and (wanted is None or condition in wanted) and _agree(index < limit[:, None], kept):
                    yield condition


def _agree(one: Tensor, other: Tensor) -> bool:
    return bool((one == other).all())


def _variables(machine: Machine, scope: Scope, launch: Launch, shape: tuple[int, ...]) -> _Variables:
    """The user's variables in a scope, by what they can be in a condition along one axis of a tile.

    ``shape`` is 1 along the others: a variable has it, or only the lanes.
    """
    lanes = max(shape, default=1)
    found = _Variables()
    for name, value in launch.arguments.items():
        if isinstance(value, int) and not isinstance(value, bool):
            found.scalars[name] = torch.tensor([value])
    blocks = {n: v for n, v in launch.constexprs.items() if isinstance(v, int) and not isinstance(v, bool) and v > 1}
    for name, tile, in_loop in named_values(machine, scope):
        if tile.shape in ((lanes,), shape) and elements.is_integer(tile.element):
            kind = found.masks if tile.element == "i1" else found.vectors
            kind[name, len(tile.shape) < len(shape)] = tile.data.reshape(tile.data.shape[0], -1).expand(-1, lanes)
        elif tile.shape == () and elements.is_integer(tile.element) and tile.element != "i1" and tile.data.dim() == 1:
            found.scalars[name] = tile.data
            if in_loop and len(found.terms) < _MOST_TERMS:
                found.terms[name] = tile.data
                found.terms.update({f"{name} * {block}": tile.data * size for block, size in blocks.items()})
    return found


def named_values(machine: Machine, scope: Scope) -> Iterator[tuple[str, Tile, bool]]:
    """Names that the user gave, with their values, the outermost first; whether each was made inside a loop."""
    chain = []
    here: Scope | None = scope
    while here is not None:
        chain.append(here)
        here = here.parent
    function = _function(machine, chain[-1])
    makers = {} if function is None else {name: op for op in function.region.ops() for name in op.results}
    last = {} if function is None else {(o.location.name, o.location.line): o for o in function.region.ops()}
    arguments = {} if function is None else dict(zip(function.arguments, function.argument_names, strict=True))
    for depth, one in enumerate(reversed(chain)):
        for ssa in one.values:
            maker = makers.get(ssa)
            if maker is not None and last[maker.location.name, maker.location.line] is not maker:
                continue
            name = arguments.get(ssa) or (maker.location.name if maker is not None else _own_name(ssa))
            if name is not None and name.isidentifier():
                yield name, scope[ssa], depth > 0


def _own_name(ssa: str) -> str | None:
    found = _SSA.match(ssa)
    return found.group(1) if found and not _MADE_UP.match(found.group(1)) else None


def _function(machine: Machine, scope: Scope) -> Function | None:
    """The function whose body a scope belongs to: it makes the names that are in it."""

    def known(function: Function) -> int:
        made = [name for op in function.region.blocks[0].ops for name in op.results]
        return sum(name in scope.values for name in (*function.arguments, *made))

    return max(machine.module.functions.values(), key=known, default=None)
