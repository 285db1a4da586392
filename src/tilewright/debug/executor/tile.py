"""A value of all programs at once, and the shadows that travel with it.

``data`` has a leading axis for programs, then the tile's own; an axis along which all is equal has size 1
whatever its size is in truth (``shape``). So what is uniform costs nothing: ``offs_m[:, None] < M`` stays a
column until something needs it in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.executor import elements

Bounds = tuple[int, int]


@dataclass(slots=True)
class Block:
    """What a tensor descriptor or a block pointer holds: a base address, and sizes, strides, offsets of each axis."""

    base: Tile
    sizes: list[Tile]
    strides: list[Tile]
    offsets: list[Tile]
    padding: float = 0.0

    def parts(self) -> list[Tile]:
        return [self.base, *self.sizes, *self.strides, *self.offsets]

    def rebuilt(self, parts: list[Tile]) -> Block:
        n, m = len(self.sizes), len(self.offsets)
        return Block(parts[0], parts[1 : 1 + n], parts[1 + n : 1 + 2 * n], parts[1 + 2 * n :][:m], self.padding)


@dataclass(slots=True)
class Tile:
    """Values of one SSA name.

    Attributes:
        data: (programs or 1, then each size of ``shape`` or 1).
        element: TTIR element type.
        bounds: least and greatest value where they are known (integers and addresses).
        poison: number of the origin (see ``faults.Origins``) of lanes that hold no defined value, 0 elsewhere; or None.
        extra: bytes that an address is certainly aligned to, or the Block of a descriptor or block pointer.
        wide: what an integer or address would be had nothing wrapped in 32 bits, or None where nothing did.
        base: which memory an address points into: a region's number, or a tensor of them.
    """

    data: Tensor
    shape: tuple[int, ...]
    element: str
    bounds: Bounds | None = None
    poison: Tensor | None = None
    wide: Tensor | None = None
    base: int | Tensor = -1
    extra: Any = None

    def planes(self, change: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> Tile:
        """The same tile with its data and shadows rearranged: for operations that only move lanes."""
        return Tile(
            change(self.data),
            shape,
            self.element,
            self.bounds,
            None if self.poison is None else change(self.poison),
            None if self.wide is None else change(self.wide),
            self.base if isinstance(self.base, int) else change(self.base),
            self.extra,
        )

    def rows(self, index: Tensor) -> Tile:
        """The tile of some of its programs."""
        if isinstance(self.extra, Block):
            block = self.extra.rebuilt([part.rows(index) for part in self.extra.parts()])
            return Tile(self.data, self.shape, self.element, extra=block)
        if self.data.shape[0] == 1 and self.poison is None and self.wide is None and isinstance(self.base, int):
            return self
        return self.planes(lambda plane: plane if plane.shape[0] == 1 else plane.index_select(0, index), self.shape)

    def full(self, axes: Iterable[int] | None = None) -> Tile:
        """The tile with its own axes (or some) at their true sizes; the program axis stays."""
        wanted = set(range(len(self.shape)) if axes is None else axes)
        sizes = [-1] + [n if i in wanted else -1 for i, n in enumerate(self.shape)]
        return self.planes(lambda plane: plane.expand(sizes), self.shape)

    @property
    def is_uniform(self) -> bool:
        """Equal in all programs."""
        return self.data.shape[0] == 1

    def item(self) -> int:
        """The value of a uniform scalar."""
        return int(self.data.reshape(-1)[0])


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that tensors of some shapes have together; torch's own function imports SymPy, for a second.

    Raises:
        ValueError: they do not go together.
    """
    together = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for axis, size in enumerate(shape, len(together) - len(shape)):
            if size != 1:
                if together[axis] not in (1, size):
                    raise ValueError(f"shapes {', '.join(map(str, map(tuple, shapes)))} do not broadcast")
                together[axis] = size
    return tuple(together)


def any_set(flags: Tensor) -> bool:
    """Whether any lane is set; NumPy looks at bytes many times faster than torch."""
    return bool(flags.numpy().any())


def all_set(flags: Tensor) -> bool:
    return bool(flags.numpy().all())


def known_bounds(tile: Tile) -> Bounds:
    """Least and greatest value of an integer tile, found once."""
    if tile.bounds is None:
        if tile.data.numel() == 0:
            return (0, 0)
        if tile.data.dtype == torch.bool:
            return (0, 1)
        low, high = torch.aminmax(tile.data)
        tile.bounds = (int(low), int(high))
    return tile.bounds


def scalar(value: Any, element: str) -> Tile:
    """A value equal in all programs."""
    data = torch.tensor([value], dtype=elements.kept_as(element))
    bounds = (int(value), int(value)) if data.dtype == torch.int64 else None
    return Tile(data, (), element, bounds)


def joined_poison(tiles: Iterable[Tile]) -> Tensor | None:
    """Poison of a lane that depends on the same lane of several tiles."""
    found: Tensor | None = None
    for tile in tiles:
        if tile.poison is not None:
            found = tile.poison if found is None else torch.maximum(found, tile.poison)
    return found


def merge(parts: Sequence[tuple[Tensor | None, Tile]], programs: int) -> Tile:
    """One tile from tiles of disjoint sets of programs (None: all of them)."""
    if len(parts) == 1:
        return parts[0][1]
    first = parts[0][1]
    if isinstance(first.extra, Block):
        columns = zip(*(tile.extra.parts() for _, tile in parts), strict=True)
        every = [rows for rows, _ in parts]
        block = first.extra.rebuilt([merge(list(zip(every, column, strict=True)), programs) for column in columns])
        return Tile(first.data, first.shape, first.element, extra=block)
    if all(tile.data is first.data and tile.poison is None and tile.wide is None for _, tile in parts):
        return first

    def gathered(planes: list[Tensor], fill: int = 0) -> Tensor:
        tail = broadcast_shape(*(plane.shape[1:] for plane in planes))
        whole = torch.full((programs, *tail), fill, dtype=planes[0].dtype)
        for (rows, _), plane in zip(parts, planes, strict=True):
            assert rows is not None
            whole[rows] = plane.expand(len(rows), *tail)
        return whole

    tiles = [tile for _, tile in parts]
    poison = wide = None
    if any(tile.poison is not None for tile in tiles):
        clean = torch.zeros((1,) * (len(first.shape) + 1), dtype=torch.uint8)
        poison = gathered([clean if tile.poison is None else tile.poison for tile in tiles])
    if any(tile.wide is not None for tile in tiles):
        wide = gathered([tile.data if tile.wide is None else tile.wide for tile in tiles])
    base: int | Tensor = first.base
    if not all(_same_base(tile.base, base) for tile in tiles):
        base = gathered([_as_tensor(tile.base, len(first.shape)) for tile in tiles], -1)
    bounds = None
    if all(tile.bounds is not None for tile in tiles):
        bounds = (min(t.bounds[0] for t in tiles if t.bounds), max(t.bounds[1] for t in tiles if t.bounds))
    data = gathered([tile.data for tile in tiles])
    aligned = math.gcd(*(tile.extra or 1 for tile in tiles)) if first.element.startswith("ptr<") else None
    return Tile(data, first.shape, first.element, bounds, poison, wide, base, aligned)


def _as_tensor(base: int | Tensor, rank: int) -> Tensor:
    return torch.full((1,) * (rank + 1), base) if isinstance(base, int) else base


def _same_base(a: int | Tensor, b: int | Tensor) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)
