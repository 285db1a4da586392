"""Which size moves what: launches recorded, not executed, with one size of a case changed at a time.

What a launcher computes on the way (strides, products, rounded tiles) need not be understood: the argument
that a mask compares with is the dim's own where it moves when the dim does.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.debug.executor.program import Program, compiled
from tilewright.debug.planning import extents
from tilewright.debug.planning.extents import Extents
from tilewright.debug.planning.modest import AtMost
from tilewright.errors import TilewrightError
from tilewright.hardware.target import Target
from tilewright.launch.capture import Choose, first_config, record
from tilewright.launch.host import inputs_of
from tilewright.launch.launch import Launch
from tilewright.records import Case, Config
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

LARGEST_TILE = 1024
"""A constexpr above it is no block whose neighbourhood is worth a case of its own."""


MOST_ELEMENTS = 1 << 24
"""Of a tensor that inputs or a launcher write while a plan is made."""
_LEAST_SIDE = 8
_MODEST = 1 << 21  # elements of a tensor


@dataclass(frozen=True)
class Trait:
    """What a dim means to the kernels.

    Attributes:
        size: of the dim in the first case.
        blocks: lengths of the tiles that run along it, each once, rising; an index without lanes is none.
        sides: meta-parameters that such a block is taken from.
        step: a loop steps along it by so much; None where none does.
        grows: some grid, loop or tile grows with it. If not, the kernel is made for what one tile holds.
        tiled: a side of a tile is this very size (``tl.arange(0, D)``).
        rounded: one tile holds it whatever it is, rounded up: it has no block but its own next power of two.
        axes: axes of grids that grow with it.
        moves: something of a launch changes with it.
    """

    dim: str
    size: int
    blocks: tuple[int, ...] = ()
    step: int | None = None
    grows: bool = True
    tiled: bool = False
    rounded: bool = False
    axes: tuple[int, ...] = ()
    moves: bool = True
    sides: frozenset[str] = frozenset()


@dataclass
class Probe:
    """An operator's launches in its first case, and with each size changed.

    Attributes:
        first: the case that all others vary.
        launches: those of the first case; empty where it could not be recorded.
        read: what the TTIR of each of these launches says; None where it does not compile.
    """

    operator: Operator
    target: Target
    first: Case
    config: Config | None = None
    choose: Choose = first_config
    launches: list[Launch] = field(default_factory=list)
    read: list[Extents | None] = field(default_factory=list)
    varied: dict[str, tuple[int, list[Launch]]] = field(default_factory=dict)

    def record(self, case: Case) -> list[Launch]:
        """The launches of a case, none executed.

        Raises:
            Exception: whatever the inputs or the launcher raise; also that they would take much memory.
        """
        return self.launched(self.inputs(case))

    @property
    def is_wide(self) -> bool:
        """Whether some kernel computes some offset in 64 bits: those that compute none end where 32 bits do."""
        return any(read is not None and read.wide for read in self.read)

    @functools.cached_property
    def first_inputs(self) -> Inputs:
        """Those of the first case, of whatever size: its author wrote it so."""
        return inputs_of(self.operator, self.first, drawn=False)

    @functools.cached_property
    def _most_elements(self) -> int:
        """Of a tensor that a case may make: many, or what the author's own defaults make already."""
        return max(MOST_ELEMENTS, *(2 * tensor.numel() for tensor in self.first_inputs.tensors.values()), 0)

    def inputs(self, case: Case) -> Inputs:
        with AtMost(self._most_elements):
            return inputs_of(self.operator, case, drawn=False)

    def launched(self, inputs: Inputs) -> list[Launch]:
        with AtMost(self._most_elements):
            return self.recorded(inputs)

    def recorded(self, inputs: Inputs) -> list[Launch]:
        return record(self.operator, inputs, self.target, self.config, choose=self.choose)

    def is_modest(self, case: Case) -> bool:
        """Whether the inputs of a case take little memory, as far as the declaration says it beforehand."""
        signature = self.operator.signature
        if signature is None:
            # What is large to begin with is made in every case; what is not may grow with the sizes.
            own = [t.numel() for t in self.first_inputs.tensors.values() if t.numel() <= _MODEST]
            elements = max(own, default=1)
            for dim in self.operator.dims:
                size, usual = case.arguments.get(dim), self.first.arguments.get(dim)
                if isinstance(size, int) and isinstance(usual, int):
                    elements = elements * size // max(usual, 1)
            return elements <= _MODEST
        sizes = self.operator.complete(case.arguments)
        return all(math.prod(p.tensor.shape(sizes)) <= _MODEST for p in signature.tensors if p.tensor)

    def extents(self, launch: Launch) -> Extents | None:
        try:
            return extents.read(self.compiled(launch).module)
        except TilewrightError:
            return None

    def compiled(self, launch: Launch) -> Program:
        """Raises: KernelCompileError."""
        return compiled(launch, self.target)


def probe(
    operator: Operator, first: Case, target: Target, config: Config | None = None, choose: Choose = first_config
) -> Probe:
    """Records the first case, and it again with each dim changed, as far as the launcher takes that.

    Raises:
        Exception: what the first case's inputs or launcher raise.
    """
    made = Probe(operator, target, first, config, choose)
    made.launches = made.recorded(made.first_inputs)
    made.read = [made.extents(launch) for launch in made.launches]
    for dim in operator.dims:
        size = first.arguments.get(dim)
        if not isinstance(size, int) or isinstance(size, bool):
            continue
        for other in _others(size):
            changed = replace(first, arguments={**first.arguments, dim: other})
            if not operator.allows(changed.arguments):
                continue
            try:
                launches = made.record(changed)
            except Exception:
                continue  # it refuses this size, or its inputs do
            if dim not in made.varied or _same_kernels(launches, made.launches):
                made.varied[dim] = (other, launches)
            if _same_kernels(launches, made.launches):
                break  # others cannot be compared
    return made


def _same_kernels(one: Sequence[Launch], other: Sequence[Launch]) -> bool:
    return [launch.name for launch in one] == [launch.name for launch in other]


def _others(size: int) -> Iterator[int]:
    """Sizes to compare with: first such that grids of large tiles grow, then what most constraints allow."""
    first = 64 * size if size <= 64 else max(1024, 4 * size)
    yield from dict.fromkeys(n for n in (first, 1024, 4 * size, 2 * size, size + 1, size // 2, 1) if n != size)


# ------------------------------------------------------------------------------------------------- traits


def traits(probe: Probe) -> dict[str, Trait]:
    """What each dim means to the kernels of a probe."""
    return {dim: _trait(probe, dim) for dim in probe.operator.dims}


def with_blocks_of(probe: Probe, known: Mapping[str, Trait], case: Case) -> dict[str, Trait]:
    """Traits with the blocks that another case has too: a launcher may choose its tiles by the sizes."""
    try:
        launches = probe.record(case)
    except Exception:
        return dict(known)
    found = dict(known)
    for dim, trait in known.items():
        size = case.arguments.get(dim)
        if dim not in probe.varied or not isinstance(size, int) or trait.rounded:
            continue
        blocks, sides = set(trait.blocks), trait.sides
        for before, after, launch in zip(probe.launches, probe.varied[dim][1], launches, strict=False):
            read = probe.extents(launch) if launch.name == before.name == after.name else None
            if read is not None:
                tiles = {block for block in _bounds(read, _moved(before, after), launch, size)[0] if block > 1}
                blocks |= tiles
                sides = sides & _sides(launch, tiles) or sides
        found[dim] = replace(trait, blocks=tuple(sorted(blocks)), sides=sides)
    return found


def _trait(probe: Probe, dim: str) -> Trait:
    size = probe.first.arguments.get(dim)
    if not isinstance(size, int) or dim not in probe.varied:
        return Trait(dim, size if isinstance(size, int) else 1)
    other, launches = probe.varied[dim]
    blocks: set[int] = set()
    steps: set[int] = set()
    grows = moves = len(launches) != len(probe.launches)
    tiled = rounded = False
    axes: set[int] = set()
    sides: set[str] = set()
    for before, after, read in zip(probe.launches, launches, probe.read, strict=False):
        if before.name != after.name:
            grows = moves = True
            continue
        moved = _moved(before, after)
        tiles = {n for n in moved & set(before.constexprs) if _is_tile(before.constexprs[n])}
        ranges = read.ranges if read else set()
        tiled |= any(flat(before)[n] == size and flat(after)[n] == other for n in tiles) and size in ranges
        rounded |= any(flat(after)[name] >= other > flat(before)[name] for name in tiles)
        own = {axis for axis in range(3) if before.grid[axis] != after.grid[axis]}
        axes |= own
        grows |= bool(own or tiles)
        moves |= bool(own or moved)
        described, reached = _descriptor_blocks(before, after, read)
        blocks |= described
        grows |= reached
        if read is not None:
            found, loops, covers = _bounds(read, moved, before, size)
            blocks |= found
            steps |= loops
            grows |= covers
        else:
            blocks |= _named_blocks(before, dim)
        if not blocks:
            blocks |= _grid_blocks(before, after, own, (size, other))
        sides |= _sides(before, blocks or steps)
    known = tuple(sorted(block for block in blocks or steps if block > 1))
    step, reaches = min(steps, default=None), grows or bool(steps)
    return Trait(dim, size, known, step, reaches, tiled, rounded, tuple(sorted(axes)), moves, frozenset(sides))


def in_configuration(known: Mapping[str, Trait], launches: Sequence[Launch]) -> dict[str, Trait]:
    """Traits with the blocks of other launches, by the meta-parameters that they are taken from."""
    found = dict(known)
    for dim, trait in known.items():
        given = [launch.constexprs.get(name) for launch in launches for name in trait.sides]
        blocks = tuple(sorted({int(value) for value in given if value is not None and _is_tile(value)}))
        if blocks and not trait.rounded:
            found[dim] = replace(trait, blocks=blocks)
    return found


def _sides(launch: Launch, blocks: set[int]) -> frozenset[str]:
    return frozenset(name for name, value in launch.constexprs.items() if _is_tile(value) and value in blocks)


def _bounds(read: Extents, moved: set[str], launch: Launch, size: int) -> tuple[set[int], set[int], bool]:
    """Blocks and loop steps along a dim, and whether they go on to any size, by the arguments that move with it."""
    values = flat(launch)
    constants = {values[name] for name in moved if name in launch.constexprs and isinstance(values[name], int)}
    blocks, steps, covers = set(), set(), False
    for bound in read.bounds:
        names = bound.arguments & moved
        if names or (bound.number is not None and bound.number in constants):
            blocks.add(max(_along(bound.block, values, names, size), 1))
            covers |= bound.moves
    for loop in read.loops:
        names = loop.arguments & moved
        if names or (not loop.arguments and loop.steps & constants):
            known = [s for s in loop.steps if s in launch.constexprs.values()] or sorted(loop.steps) or [1]
            steps.add(max(_along(max(known), values, names, size), 1))
            covers = True
    return blocks, steps, covers


def _along(block: int, values: Mapping[str, Any], names: set[str] | frozenset[str], size: int) -> int:
    """How far a block reaches along a dim: where the extent is a product of several, its side as a square."""
    wholes = [values[name] for name in names if isinstance(values.get(name), int)]
    factor = min((whole // size for whole in wholes if size and whole % size == 0), default=1)
    if factor <= 1:
        return block
    side = 1
    while side * side < block:
        side *= 2
    return min(max(side, _LEAST_SIDE), block)


def _grid_blocks(before: Launch, after: Launch, axes: set[int], sizes: tuple[int, int]) -> set[int]:
    """Constexprs by which a grid divides a dim: the block of a kernel that has lost its mask."""
    found = set()
    for axis in axes:
        programs = (before.grid[axis], after.grid[axis])
        if programs[0] % max(sizes[0], 1) == 0 and programs[0] * sizes[1] == programs[1] * sizes[0]:
            continue  # a program for each: no block is divided by
        for value in filter(_is_tile, before.constexprs.values()):
            counts = [-(-size // value) for size in sizes]
            if counts[0] and programs[0] % counts[0] == 0 and programs[0] * counts[1] == programs[1] * counts[0]:
                found.add(value)
    return {max(found)} if found else set()


def _named_blocks(launch: Launch, dim: str) -> set[int]:
    """Where a kernel cannot be read: ``BLOCK_M``, ``BLOCK_SIZE_M``, ``BM`` and ``M_BLOCK`` are blocks of a dim ``M``."""

    def belongs(name: str) -> bool:
        compact = re.fullmatch(r"B(?:LOCK)?_?([A-Z]\w*)", name)
        words = re.split(r"_|(?<=[a-z])(?=[A-Z])", name)
        return dim in words or (compact is not None and compact.group(1) == dim)

    return {value for name, value in launch.constexprs.items() if _is_tile(value) and belongs(name)}


def _descriptor_blocks(before: Launch, after: Launch, read: Extents | None) -> tuple[set[int], bool]:
    """Sides of the tiles along axes of descriptors that grow with a dim, and whether accesses move along them."""
    found, moving = set(), False
    for name, value in before.arguments.items():
        sides = getattr(value, "block_shape", None)
        now = getattr(after.arguments.get(name), "shape", None)
        if sides is None or now is None:
            continue
        for axis, (side, a, b) in enumerate(zip(sides, value.shape, now, strict=False)):
            if a != b:
                found.add(int(side))
                moving |= read is None or (name, axis) in read.moving
    return found, moving


def _moved(before: Launch, after: Launch) -> set[str]:
    first, second = flat(before), flat(after)
    return {name for name, value in first.items() if name in second and second[name] != value}


def flat(launch: Launch) -> dict[str, Any]:
    """Whole numbers among the arguments, by the names that TTIR gives them: entries of tuples are ``name.0``."""
    found: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, tuple):
            for position, item in enumerate(value):
                add(f"{name}.{position}", item)
        elif isinstance(value, int):
            found[name] = value

    for name, value in launch.arguments.items():
        add(name, value)
    return found


def _is_tile(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 < value <= LARGEST_TILE


def path_of(launches: Sequence[Launch]) -> tuple[Any, ...]:
    """Which way a launcher went: its kernels, with the flags among their meta-parameters."""
    return tuple(
        (launch.name, *sorted((n, v) for n, v in launch.constexprs.items() if isinstance(v, (bool, str))))
        for launch in launches
    )


def block_values(launches: Sequence[Launch]) -> tuple[int, ...]:
    """Meta-parameters that can be the side of a tile, of all launches."""
    values = {value for launch in launches for value in launch.constexprs.values() if _is_tile(value)}
    return tuple(sorted(values))
