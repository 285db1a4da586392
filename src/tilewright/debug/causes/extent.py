"""Which lanes of an access lie beyond a tensor's extent along a dim.

Addresses alone do not tell: behind the end of a row comes the next one. But along an axis of a tile addresses
rise by one step; where that is the stride of one of the tensor's dims, lanes count along it from the first lane's
coordinate on.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tilewright.debug.executor.memory import Region
from tilewright.debug.executor.tile import Tile

Axes = tuple[tuple[int, int], ...]
"""Pairs of a tile's axis and the tensor's dim that it runs along."""


def dims_along(pointer: Tile, region: Region) -> dict[int, frozenset[int]]:
    """For each axis of a tile of pointers that rises in steps, the dims of the tensor that have this stride."""
    found = {}
    for axis, step in _steps(pointer, region).items():
        dims = frozenset(d for d, stride in enumerate(region.tensor.stride()) if stride == step)
        if dims:
            found[axis] = dims
    return found


def within(pointer: Tile, region: Region, axes: Axes) -> Tensor:
    """True where a lane's coordinates along some dims are inside, bool (programs or 1, …)."""
    return _all([own for _, own in within_each(pointer, region, axes).values()], pointer)


def within_each(pointer: Tile, region: Region, axes: Axes) -> Mapping[int, tuple[int, Tensor]]:
    """By axis, the size of the dim and where lanes are inside it, bool (programs or 1, 1, …, lanes, …, 1)."""
    tensor = region.tensor
    offsets = (pointer.data - region.low).div(tensor.element_size(), rounding_mode="floor")
    first = offsets.reshape(offsets.shape[0], -1)[:, 0]
    start = _coordinates(first, tensor)
    found = {}
    for axis, dim in axes:
        lanes = torch.arange(pointer.shape[axis])
        along = start[dim][:, None] + lanes
        shape = [-1] + [1] * len(pointer.shape)
        shape[axis + 1] = pointer.shape[axis]
        size = tensor.shape[dim]
        found[axis] = (size, ((along >= 0) & (along < size)).reshape(shape))
    return found


def _all(parts: list[Tensor], pointer: Tile) -> Tensor:
    inside = torch.ones((1,) * (len(pointer.shape) + 1), dtype=torch.bool)
    for part in parts:
        inside = inside & part
    return inside


def _steps(pointer: Tile, region: Region) -> dict[int, int]:
    """Elements by which addresses rise along each axis, where that is the same between all neighbours."""
    own = region.tensor.element_size()
    found = {}
    for axis, size in enumerate(pointer.shape):
        if size == 1 or pointer.data.shape[axis + 1] == 1:
            continue
        steps = pointer.data.diff(dim=axis + 1)
        step = int(steps.reshape(-1)[0])
        if step > 0 and step % own == 0 and bool((steps == step).all()):
            found[axis] = step // own
    return found


def _coordinates(offsets: Tensor, tensor: Tensor) -> list[Tensor]:
    """Coordinates of element offsets; the dim of the largest stride takes what is too much."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda d: (-strides[d], d))
    found = [torch.zeros_like(offsets)] * tensor.dim()
    for d in order:
        stride = strides[d]
        if stride > 0 and (tensor.shape[d] > 1 or d == order[0]):
            found[d] = offsets.div(stride, rounding_mode="floor")
            offsets = offsets - found[d] * stride
    return found
