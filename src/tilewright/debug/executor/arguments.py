"""Arguments of a launch as the values of the entry function's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.memory import Memory
from tilewright.debug.executor.ops.block import descriptor
from tilewright.debug.executor.tile import Tile, scalar
from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Function, Type


def bound_arguments(launch: Launch, entry: Function, memory: Memory) -> list[Tile]:
    """A tile for each parameter of the entry; tensors get their regions.

    Parameters that Triton specialised away (constexprs, None, ones) are not among them, and a descriptor
    stands for several: itself, and its sizes and strides.
    """
    flat = _flattened(launch)
    tiles: list[Tile] = []
    position = 0
    while position < len(entry.arguments):
        name = entry.argument_names[position]
        kind = entry.argument_types[position]
        value = flat[name] if name in flat else flat[name.partition(".")[0]]
        if kind.element.startswith("desc<"):
            rank = len(value.shape)
            parts = _descriptor(name, kind, value, memory, entry.argument_types[position + 1 : position + 1 + 2 * rank])
            tiles += parts
            position += len(parts)
            continue
        tiles.append(_value(name, kind, value, memory))
        position += 1
    return tiles


def _flattened(launch: Launch) -> dict[str, Any]:
    """Arguments by the names they have in TTIR: entries of tuples are ``name.0``, ``name.1``."""
    return dict(entry for name, value in launch.arguments.items() for entry in _entries(name, value))


def _entries(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _entries(f"{name}.{position}", item)


def _value(name: str, kind: Type, value: Any, memory: Memory) -> Tile:
    if not kind.is_pointer:
        return scalar(value, kind.element)
    if not isinstance(value, Tensor):
        value = getattr(value, "base", value)  # triton.reinterpret wraps a tensor
    if not isinstance(value, Tensor):  # an integer passed as a pointer
        return Tile(torch.tensor([int(value)]), (), kind.element, None, extra=1)
    region = memory.admit(name, value)
    address = region.low if value.numel() else value.data_ptr() or region.low
    size = elements.size(kind.pointee)
    return Tile(torch.tensor([address]), (), kind.element, (address, address), base=region.number, extra=size)


def _descriptor(name: str, kind: Type, value: Any, memory: Memory, kinds: tuple[Type, ...]) -> list[Tile]:
    element = kind.element[5:-1]
    base = _value(name, Type((), f"ptr<{element}>"), value.base, memory)
    sizes = [scalar(int(size), "i32") for size in value.shape]
    strides = [scalar(int(stride), "i64") for stride in value.strides]
    padding = float("nan") if getattr(value, "padding", "zero") == "nan" else 0.0
    return [descriptor(kind, base, sizes, strides, padding), *sizes[: len(kinds)], *strides][: 1 + len(kinds)]
