"""Tensor descriptors and block pointers: boxes of a tensor, cut off at its edges."""

from __future__ import annotations

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops.atomic import UPDATES, Rule, update
from tilewright.debug.executor.ops.lanewise import undefined_where
from tilewright.debug.executor.ops.load import load, read, region_name
from tilewright.debug.executor.ops.store import store, write
from tilewright.debug.executor.tile import Block, Tile, all_set, any_set
from tilewright.launch.ttir import Op, Type, integers, parse_type

_DESCRIPTOR_ALIGNMENT = 16


def _make_descriptor(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    kind = op.result_types[0]
    rank = (len(operands) - 1) // 2
    base, sizes, strides = operands[0], operands[1 : 1 + rank], operands[1 + rank : 1 + 2 * rank]
    padding = float("nan") if op.attributes.get("padding", "1").partition(" ")[0] in ("2", "nan") else 0.0
    _check_alignment(machine, op, base, strides, elements.size(kind.element[5:-1]))
    return descriptor(kind, base, sizes, strides, padding)


def descriptor(kind: Type, base: Tile, sizes: list[Tile], strides: list[Tile], padding: float = 0.0) -> Tile:
    """The tile that stands for a descriptor of type ``desc<element>``."""
    return Tile(torch.zeros(1), kind.shape, kind.element, extra=Block(base, sizes, strides, [], padding))


def _check_alignment(machine: Machine, op: Op, base: Tile, strides: list[Tile], size: int) -> None:
    region = machine.memory.regions[base.base] if isinstance(base.base, int) and base.base >= 0 else None
    name = region.name if region is not None else "the tensor"
    crooked = base.data % _DESCRIPTOR_ALIGNMENT != 0
    if any_set(crooked):
        words = f"a descriptor of {name} starts at an address that is no multiple of {_DESCRIPTOR_ALIGNMENT} bytes"
        machine.report(op, "misaligned", crooked, words, tensor=region.name if region else None)
    for axis, stride in enumerate(strides[:-1]):
        crooked = stride.data * size % _DESCRIPTOR_ALIGNMENT != 0
        if any_set(crooked):
            words = f"a descriptor of {name} has stride {int(stride.data[crooked][0])} on axis {axis}: its bytes must be a multiple of {_DESCRIPTOR_ALIGNMENT}"
            machine.report(op, "misaligned", crooked, words, tensor=region.name if region else None)


def _box(
    block: Block, shape: tuple[int, ...], offsets: list[Tensor], element: str, checked: list[int]
) -> tuple[Tile, Tensor | None]:
    """Addresses of a box whose lanes start at ``offsets``, (programs, …) each, and which are inside the sizes."""
    size = elements.size(element)
    address = block.base.data.reshape(-1, *(1,) * len(shape))
    inside: Tensor | None = None
    for axis, start in enumerate(offsets):
        stride = block.strides[axis].data.reshape(-1, *(1,) * len(shape))
        address = address + start * stride * size
        if axis in checked:
            limit = block.sizes[axis].data.reshape(-1, *(1,) * len(shape))
            within = (start >= 0) & (start < limit)
            if not all_set(within):
                inside = within if inside is None else inside & within
    pointer = Tile(address, shape, f"ptr<{element}>", None, None, None, block.base.base, size)
    return pointer, inside


def _lanes(offset: Tile, axis: int, shape: tuple[int, ...]) -> Tensor:
    """Positions along an axis: the offset, and the lanes from there."""
    around = [1] * len(shape)
    around[axis] = shape[axis]
    return offset.data.reshape(-1, *(1,) * len(shape)) + torch.arange(shape[axis]).reshape(1, *around)


def _offsets(machine: Machine, op: Op, tile: Tile, offsets: list[Tile]) -> list[Tensor]:
    for offset in offsets:
        if offset.poison is not None and any_set(offset.poison != 0):
            machine.report_poison(op, offset.poison != 0, offset.poison, "is part of an offset")
    return [_lanes(offset, axis, tile.shape) for axis, offset in enumerate(offsets)]


def _read_box(machine: Machine, op: Op, pointer: Tile, inside: Tensor | None, padding: float) -> Tile:
    tile = read(machine, op, pointer, inside)
    if inside is not None and padding != 0.0 and tile.element in elements.FLOATS:
        tile.data = torch.where(inside, tile.data, torch.tensor(padding, dtype=tile.data.dtype))
    return tile


def _descriptor_load(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    tile = operands[0]
    element = tile.element[5:-1]
    block = tile.extra
    offsets = _offsets(machine, op, tile, operands[1:])
    pointer, inside = _box(block, tile.shape, offsets, element, list(range(len(offsets))))
    return _shaped(_read_box(machine, op, pointer, inside, block.padding), op.result_types[0].shape)


def _shaped(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """Leading axes of size 1 may be left out of what is loaded."""
    if tile.shape == shape:
        return tile
    full = tile.full()
    return full.planes(lambda plane: plane.reshape(plane.shape[0], *shape), shape)


def _descriptor_store(machine: Machine, op: Op, operands: list[Tile]) -> None:
    tile, value = operands[0], operands[-1]
    offsets = _offsets(machine, op, tile, operands[1:-1])
    pointer, inside = _box(tile.extra, tile.shape, offsets, tile.element[5:-1], list(range(len(offsets))))
    write(machine, op, pointer, _shaped(value, tile.shape), inside)


def _descriptor_reduce(machine: Machine, op: Op, operands: list[Tile]) -> None:
    tile, value = operands[0], operands[-1]
    element = tile.element[5:-1]
    kind = op.body.split(",")[0].strip()
    kind = "fadd" if kind == "add" and element in elements.FLOATS else kind
    offsets = _offsets(machine, op, tile, operands[1:-1])
    pointer, inside = _box(tile.extra, tile.shape, offsets, element, list(range(len(offsets))))
    update(machine, op, pointer, _shaped(value, tile.shape), inside, Rule(kind, "relaxed", UPDATES[kind]))


def _rows(tile: Tile, rows: Tile, column: Tile, shape: tuple[int, ...]) -> list[Tensor]:
    del tile
    return [rows.data.reshape(rows.data.shape[0], -1, 1), _lanes(column, 1, shape)]


def _descriptor_gather(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    tile, rows, column = operands
    shape = op.result_types[0].shape
    pointer, inside = _box(tile.extra, shape, _rows(tile, rows, column, shape), tile.element[5:-1], [0, 1])
    return _read_box(machine, op, pointer, inside, tile.extra.padding)


def _descriptor_scatter(machine: Machine, op: Op, operands: list[Tile]) -> None:
    tile, rows, column, value = operands
    pointer, inside = _box(tile.extra, value.shape, _rows(tile, rows, column, value.shape), tile.element[5:-1], [0, 1])
    write(machine, op, pointer, value, inside)


def _make_block_pointer(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    rank = (len(operands) - 1) // 3
    base, rest = operands[0], operands[1:]
    pointee = parse_type(op.result_types[0].pointee)
    block = Block(base, rest[:rank], rest[rank : 2 * rank], rest[2 * rank :])
    return Tile(torch.zeros(1), pointee.shape, f"block<{pointee.element}>", extra=block)


def _advance(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    tile, deltas = operands[0], operands[1:]
    block = tile.extra
    add = machine.handlers["arith.addi"]
    moved = []
    for offset, delta in zip(block.offsets, deltas, strict=True):
        kind = Type((), offset.element)
        step = Op(op.index, "arith.addi", (), (), (kind,), (kind,), {}, "", op.location)
        moved.append(add(machine, step, [offset, delta]))
    return Tile(tile.data, tile.shape, tile.element, extra=Block(block.base, block.sizes, block.strides, moved))


def _checked_axes(op: Op) -> list[int]:
    return list(integers(op.attributes["boundaryCheck"])) if "boundaryCheck" in op.attributes else []


def _load(machine: Machine, op: Op, operands: list[Tile]) -> Tile:
    tile = operands[0]
    if not isinstance(tile.extra, Block):
        return load(machine, op, operands)
    element = tile.element[6:-1]
    offsets = _offsets(machine, op, tile, tile.extra.offsets)
    pointer, inside = _box(tile.extra, tile.shape, offsets, element, _checked_axes(op))
    padding = float("nan") if op.attributes.get("padding", "1").partition(" ")[0] in ("2", "nan") else 0.0
    loaded = _read_box(machine, op, pointer, inside, padding)
    if inside is not None and "padding" not in op.attributes:  # boundary_check alone says nothing of what is outside
        undefined_where(machine, op, loaded, ~inside, "undefined-lanes", region_name(machine, pointer))
    return loaded


def _store(machine: Machine, op: Op, operands: list[Tile]) -> None:
    tile = operands[0]
    if not isinstance(tile.extra, Block):
        store(machine, op, operands)
        return
    offsets = _offsets(machine, op, tile, tile.extra.offsets)
    pointer, inside = _box(tile.extra, tile.shape, offsets, tile.element[6:-1], _checked_axes(op))
    write(machine, op, pointer, operands[1], inside)


OPS: dict[str, Handler] = {
    "tt.make_tensor_descriptor": _make_descriptor,
    "tt.descriptor_load": _descriptor_load,
    "tt.descriptor_store": _descriptor_store,
    "tt.descriptor_reduce": _descriptor_reduce,
    "tt.descriptor_gather": _descriptor_gather,
    "tt.descriptor_scatter": _descriptor_scatter,
    "tt.make_tensor_ptr": _make_block_pointer,
    "tt.advance": _advance,
    "tt.load": _load,
    "tt.store": _store,
}
