"""Who uses whose results in a module, through loops too; and which loop an operation is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tilewright.launch.ttir import Module, Op, Region

_LOOPS = ("scf.for", "scf.while")


@dataclass
class Flow:
    """The operations of a module with their loops, and what each value is made of.

    ``made_of`` goes from a value to those that it directly follows from: the operands of its operation; for what a
    loop carries, the value it starts with and the one that an iteration leaves.
    """

    ops: list[Op] = field(default_factory=list)
    maker: dict[str, Op] = field(default_factory=dict)
    made_of: dict[str, list[str]] = field(default_factory=dict)
    carried: dict[str, tuple[str, str]] = field(default_factory=dict)  # first value, value after an iteration
    _loops: dict[int, tuple[Op, ...]] = field(default_factory=dict)

    def loop_of(self, op: Op) -> Op | None:
        """The innermost loop around an operation."""
        around = self._loops[op.index]
        return around[-1] if around else None

    def loops_around(self, op: Op) -> tuple[Op, ...]:
        return self._loops[op.index]

    def behind(self, values: Iterable[str]) -> Iterator[str]:
        """The values given, and all that they follow from."""
        seen: set[str] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value not in seen:
                seen.add(value)
                yield value
                waiting += self.made_of.get(value, ())

    def follows_within(self, value: str, loop: Op) -> list[Op]:
        """The operations of a loop's body that a value reaches in the same iteration."""
        reached, found = {value}, []
        for op in loop.regions[-1].ops():
            if op.name not in ("scf.yield", "scf.condition") and reached.intersection(op.operands):
                found.append(op)
                reached.update(op.results)
        return found


def flow_of(module: Module) -> Flow:
    found = Flow()
    for function in module.functions.values():
        _read(function.region, (), found)
    return found


def _read(region: Region, loops: tuple[Op, ...], found: Flow) -> None:
    for block in region.blocks:
        for op in block.ops:
            found.ops.append(op)
            found._loops[op.index] = loops
            inner = (*loops, op) if op.name in _LOOPS else loops
            for part in op.regions:
                _read(part, inner, found)
            yields = [part.blocks[-1].ops[-1].operands for part in op.regions if part.blocks and part.blocks[-1].ops]
            _link(op, yields, found)


def _link(op: Op, yields: list[tuple[str, ...]], found: Flow) -> None:
    for result in op.results:
        found.maker[result] = op
        found.made_of[result] = list(op.operands)
    if op.name == "scf.for":
        index, *bounds = op.operands[:4]
        found.made_of[index] = bounds
        pairs = zip(op.operands[4::2], op.operands[5::2], yields[0] if yields else (), strict=False)
        for (inside, first, after), result in zip(pairs, op.results, strict=False):
            found.carried[inside] = (first, after)
            found.made_of[inside] = [first, after]
            found.made_of[result] = [first, after]
    elif op.regions and op.results:  # a branch, a while loop, a reduction: whatever its parts yield
        for results in yields:
            for result in op.results:
                found.made_of[result] += results
    if op.name == "scf.while":
        names = op.operands
        for inside, first in zip(names[0::2], names[1::2], strict=False):
            found.made_of[inside] = [first, *(value for results in yields for value in results)]
        for argument in op.regions[-1].blocks[0].arguments if op.regions else ():
            found.made_of[argument] = [value for results in yields for value in results]
