"""Errors of an output, folded into a map of tiles."""

from __future__ import annotations

import math

import torch
from torch import Tensor

MAX_TILES = 32


def fold_tiles(over: Tensor) -> tuple[tuple[int, int], tuple[int, int], tuple[float, ...]]:
    """The worst of each tile over the last two dims, leading dims folded by their maximum.

    Tiles are powers of two on a side, at least 8, and no more than MAX_TILES in a row.
    """
    plane = over.reshape(-1, *over.shape[-2:]).amax(0) if over.dim() >= 2 else over.reshape(1, -1)
    rows, columns = plane.shape
    tile = (_tile_side(rows), _tile_side(columns))
    grid = (math.ceil(rows / tile[0]), math.ceil(columns / tile[1]))
    padded = torch.zeros(grid[0] * tile[0], grid[1] * tile[1], dtype=plane.dtype, device=plane.device)
    padded[:rows, :columns] = plane
    folded = padded.reshape(grid[0], tile[0], grid[1], tile[1]).amax((1, 3))
    return tile, grid, tuple(float(value) for value in folded.reshape(-1))


def _tile_side(extent: int) -> int:
    if extent == 1:
        return 1
    side = 8
    while extent > side * MAX_TILES:
        side *= 2
    return side
