"""Operations that move lanes and compute nothing: most of them leave the data where it is."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.lanewise import result
from tilewright.debug.executor.tile import Tile, any_set, joined_poison
from tilewright.launch.ttir import Op, integer, integers


def _constant(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    if op.cache is None:
        kind = op.result_types[0]
        op.cache = _constant_tile(op.body.strip(), kind.shape, kind.element)
    tile: Tile = op.cache
    return tile


def _constant_tile(text: str, shape: tuple[int, ...], element: str) -> Tile:
    text = text.removeprefix("dense<").removesuffix(">") if text.startswith("dense<") else text
    dtype = elements.kept_as(element)
    if text.startswith("["):
        values = [_number(part, element) for part in text.replace("[", " ").replace("]", " ").split(",")]
        return Tile(torch.tensor(values).to(dtype).reshape(1, *shape), shape, element)
    value = _number(text, element)
    if isinstance(value, Tensor):
        return Tile(value.reshape((1,) * (len(shape) + 1)), shape, element)
    bounds = (int(value), int(value)) if dtype == torch.int64 else None
    if dtype.is_floating_point:  # printed to as many digits as tell it from its neighbours: to be rounded
        data = torch.tensor(value, dtype=torch.float64).to(dtype)
    else:
        data = torch.tensor(value, dtype=dtype)
    return Tile(data.reshape((1,) * (len(shape) + 1)), shape, element, bounds)


def _number(text: str, element: str) -> int | float | bool | Tensor:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if element in elements.FLOATS or element in elements.FLOAT8:
        if not text.startswith("0x"):
            if element in elements.FLOAT8:
                dtype = elements.FLOAT8[element]
                assert dtype is not None
                return int(torch.tensor(float(text)).to(dtype).view(torch.uint8))
            return float(text)
        bits = int(text, 16)  # infinities and NaN are printed as their bits
        if element in elements.FLOAT8:
            return bits
        size = elements.size(element)
        raw = bits.to_bytes(size, "little")
        return torch.frombuffer(bytearray(raw), dtype=elements.FLOATS[element])
    return int(text, 0)


def _make_range(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    if op.cache is None:
        start, end = integer(op.attributes, "start"), integer(op.attributes, "end")
        op.cache = Tile(torch.arange(start, end)[None], (end - start,), "i32", (start, end - 1))
    tile: Tile = op.cache
    return tile


def _splat(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    shape = op.result_types[0].shape
    ones = (1,) * len(shape)
    return operands[0].planes(lambda plane: plane.reshape(plane.shape[0], *ones), shape)


def _unsplat(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    return operands[0].planes(lambda plane: plane.reshape(plane.shape[0], -1)[:, 0], ())


def _expand_dims(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    axis = integer(op.attributes, "axis") + 1
    return operands[0].planes(lambda plane: plane.unsqueeze(axis), op.result_types[0].shape)


def _broadcast(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    return operands[0].planes(lambda plane: plane, op.result_types[0].shape)


def _reshape(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    (a,) = operands
    shape = op.result_types[0].shape

    def reshaped(plane: Tensor) -> Tensor:
        if math.prod(plane.shape[1:]) == 1:
            return plane.reshape(plane.shape[0], *(1 for _ in shape))
        return plane.expand(plane.shape[0], *a.shape).reshape(plane.shape[0], *shape)

    return a.planes(reshaped, shape)


def _transpose(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    order = integers(op.attributes["order"])
    axes = (0, *(axis + 1 for axis in order))
    return operands[0].planes(lambda plane: plane.permute(axes), op.result_types[0].shape)


def _split(machine: Machine, op: Op, operands: list[Tile]) -> list[Tile]:
    (a,) = operands
    shape = a.shape[:-1]
    return [a.planes(lambda plane, i=i: plane[..., min(i, plane.shape[-1] - 1)], shape) for i in range(2)]  # type: ignore[misc]


def _join(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    return _stacked(op, operands, stack=True)


def _cat(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    return _stacked(op, operands, stack=False)


def _stacked(op: Op, operands: list[Tile], *, stack: bool) -> Tile:
    """Two tiles side by side, on a new last axis or along the first."""

    def together(planes: list[Tensor]) -> Tensor:
        size = max(plane.shape[0] for plane in planes)
        if stack:
            planes = list(torch.broadcast_tensors(*planes))
            return torch.stack(planes, dim=-1)
        full = [plane.expand(size, *tile.shape) for plane, tile in zip(planes, operands, strict=True)]
        return torch.cat(full, dim=1)

    kind = op.result_types[0]
    tile = Tile(together([t.data for t in operands]), kind.shape, kind.element)
    rank = len(operands[0].shape) + 1
    if any(t.poison is not None for t in operands):
        clean = torch.zeros((1,) * rank, dtype=torch.uint8)
        tile.poison = together([clean if t.poison is None else t.poison for t in operands])
    if any(t.wide is not None for t in operands):
        tile.wide = together([t.data if t.wide is None else t.wide for t in operands])
    if any(t.base != -1 if isinstance(t.base, int) else True for t in operands):
        bases = [torch.full((1,) * rank, t.base) if isinstance(t.base, int) else t.base for t in operands]
        tile.base = together(bases)
    return tile


def _gather(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    source, index = operands
    axis = integer(op.attributes, "axis") + 1
    size = max(source.data.shape[0], index.data.shape[0])
    where = index.data.expand(size, *index.shape)
    limit = source.shape[axis - 1]
    outside = (where < 0) | (where >= limit)
    if any_set(outside):
        words = f"tl.gather takes index {int(where[outside][0])} along an axis of size {limit}"
        machine.report(op, "out-of-bounds-read", outside, words)
        where = where.clamp(0, limit - 1)

    def taken(plane: Tensor) -> Tensor:
        return plane.expand(size, *source.shape).gather(axis, where)

    tile = source.planes(taken, op.result_types[0].shape)
    tile.poison = joined_poison([tile, index])
    return tile


def _histogram(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    values = operands[0].full()
    bins = op.result_types[0].shape[0]
    size = max(tile.data.shape[0] for tile in operands)
    if len(operands) > 1:
        live = operands[1].data.expand(size, *values.shape)
    else:
        live = torch.ones_like(values.data, dtype=torch.bool)
    inside = (values.data >= 0) & (values.data < bins) & live
    rows = torch.arange(size)[:, None] * bins
    flat = (rows + values.data.clamp(0, bins - 1))[inside]
    counts = torch.bincount(flat, minlength=size * bins).reshape(size, bins)
    tile = result(op, counts, [])
    poison = joined_poison(operands)
    if poison is not None:
        tile.poison = poison.reshape(poison.shape[0], -1).amax(1, keepdim=True)
    return tile


def select(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    """``tl.where``: what the condition discards does no harm, undefined or not."""
    condition, yes, no = operands
    kind = op.result_types[0]

    def chosen(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(condition.data, a, b)

    tile = Tile(chosen(yes.data, no.data), kind.shape, kind.element)
    if yes.bounds is not None and no.bounds is not None:
        tile.bounds = (min(yes.bounds[0], no.bounds[0]), max(yes.bounds[1], no.bounds[1]))
    if yes.poison is not None or no.poison is not None:
        clean = torch.zeros(1, dtype=torch.uint8)
        tile.poison = chosen(*(clean if t.poison is None else t.poison for t in (yes, no)))
    if condition.poison is not None:
        tile.poison = joined_poison([tile, condition])
    if yes.wide is not None or no.wide is not None:
        tile.wide = chosen(*(t.data if t.wide is None else t.wide for t in (yes, no)))
    if isinstance(yes.base, int) and isinstance(no.base, int) and yes.base == no.base:
        tile.base = yes.base
    else:
        tile.base = chosen(*(torch.tensor(t.base) if isinstance(t.base, int) else t.base for t in (yes, no)))
    if yes.extra is not None or no.extra is not None:
        tile.extra = math.gcd(yes.extra or 1, no.extra or 1) if isinstance(yes.extra, int | None) else yes.extra
    return tile


def _undefined(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    """``ub.poison``: the frontend puts it where no path leads."""
    kind = op.result_types[0]
    data = torch.zeros((1,) * (len(kind.shape) + 1), dtype=elements.kept_as(kind.element))
    return Tile(data, kind.shape, kind.element)


OPS: dict[str, Handler] = {
    "arith.constant": _constant,
    "arith.select": select,
    "ub.poison": _undefined,
    "tt.make_range": _make_range,
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.reshape": _reshape,
    "tt.trans": _transpose,
    "tt.split": _split,
    "tt.join": _join,
    "tt.cat": _cat,
    "tt.gather": _gather,
    "tt.histogram": _histogram,
}
