"""Edits to a whole call: memory, order, products, loops, and strides that took each other's place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from tilewright.debug.causes.change import Edits, OfLaunch, OfRegion, WholeRun
from tilewright.debug.causes.site import Site
from tilewright.debug.executor.machine import Machine
from tilewright.debug.executor.tile import Tile
from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Op


@dataclass(frozen=True)
class InSequence(WholeRun):
    """Programs one after the other."""

    cause = "race"

    def switch(self, edits: Edits) -> None:
        edits.in_sequence = True
        edits.took_effect(self)


@dataclass(frozen=True)
class ExactProducts(WholeRun):
    """Products of float32 with all their bits, where the kernel multiplies in tf32."""

    cause = "reduced-precision-dot"

    def switch(self, edits: Edits) -> None:
        edits.exact_products = True
        edits.took_effect(self)


@dataclass(frozen=True)
class ZeroedMemory(WholeRun):
    """Memory that ``torch.empty`` hands out holds zeros, and counts as written."""

    cause = "uninitialized-memory"

    def switch(self, edits: Edits) -> None:
        edits.zeroed = True
        edits.took_effect(self)


@dataclass(frozen=True)
class OneMoreTurn(OfRegion):
    """A loop that goes round once more."""

    site: Site
    cause = "loop-bound"

    def entered(self, edits: Edits, machine: Machine, op: Op, scope: Any) -> tuple[Op, Any]:
        if op.cache is None:
            names = op.operands
            op.cache = (*names[:4], list(names[4::2]), list(names[5::2]))
        variable, low, high, step, arguments, initial = op.cache
        end, stride = scope[high], scope[step]
        fresh = f"{high} and one more"
        inner = scope.inner()
        inner.values[fresh] = Tile(end.data + stride.data.clamp(min=1), (), end.element)
        edits.took_effect(self)
        return replace(op, cache=(variable, low, fresh, step, arguments, initial)), inner


@dataclass(frozen=True)
class Swapped(OfLaunch):
    """Two arguments of a kernel that took each other's place: strides of one tensor."""

    kernel: str
    first: str
    second: str
    cause = "swapped-strides"

    def applied(self, edits: Edits, launch: Launch) -> Launch:
        arguments = dict(launch.arguments)
        if launch.name != self.kernel or not {self.first, self.second} <= arguments.keys():
            return launch
        if arguments[self.first] != arguments[self.second]:
            edits.took_effect(self)
        arguments[self.first], arguments[self.second] = arguments[self.second], arguments[self.first]
        return replace(launch, arguments=arguments)


def swappable(launch: Launch) -> list[Swapped]:
    """Pairs of arguments that differ and are strides of one tensor."""
    integers = {n: v for n, v in launch.arguments.items() if isinstance(v, int) and not isinstance(v, bool)}
    found = []
    for first, a in integers.items():
        for second, b in integers.items():
            if first < second and a != b and any(_are_strides(tensor, a, b) for tensor in launch.tensors.values()):
                found.append(Swapped(launch.name, first, second))
    return found


def _are_strides(tensor: torch.Tensor, a: int, b: int) -> bool:
    return tensor.dim() > 1 and {a, b} <= set(tensor.stride())
