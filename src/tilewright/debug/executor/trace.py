"""What each program of a launch read and wrote, access by access: for reports, and for those who want to look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from tilewright.debug.executor.memory import Region
from tilewright.debug.executor.tile import broadcast_shape

if TYPE_CHECKING:
    from tilewright.debug.executor.machine import Machine
    from tilewright.launch.ttir import Op

Verb = Literal["read", "write", "atomic"]


@dataclass(frozen=True)
class Accesses:
    """One load, store or atomic of a kernel, executed by some programs.

    Attributes:
        tensor: the kernel's parameter.
        programs: linear ids, (programs,).
        elements: offsets from the first element of the tensor's view, in elements, (programs, lanes).
        live: lanes that took part: neither masked off nor outside, (programs, lanes).
    """

    verb: Verb
    tensor: str
    file: str | None
    line: int | None
    programs: Tensor
    elements: Tensor
    live: Tensor

    def of(self, program: int) -> list[int]:
        """Elements that one program touched, in the order of its lanes."""
        rows = (self.programs == program).nonzero().flatten().tolist()
        return [element for row in rows for element in self.elements[row][self.live[row]].tolist()]


@dataclass
class Trace:
    """All accesses of a launch, in the order they were executed."""

    accesses: list[Accesses] = field(default_factory=list)

    def access(
        self, machine: Machine, op: Op, region: Region, verb: Verb, addresses: Tensor, inside: Tensor | None
    ) -> None:
        """Notes one access of the machine's programs; ``addresses`` (programs or 1, …) in bytes."""
        programs = machine.scope.programs
        shape = addresses.shape[1:] if inside is None else broadcast_shape(addresses.shape[1:], inside.shape[1:])
        whole = (len(programs), *shape)
        elements = (addresses - region.low).div(region.tensor.element_size(), rounding_mode="floor")
        live = torch.ones(1, dtype=torch.bool) if inside is None else inside
        place = machine.place(op)
        self.accesses.append(
            Accesses(
                verb,
                region.name,
                place.file,
                place.line,
                programs.clone(),
                elements.expand(whole).reshape(len(programs), -1),
                live.expand(whole).reshape(len(programs), -1),
            )
        )

    def of(self, program: int) -> Iterator[tuple[Accesses, list[int]]]:
        """The accesses of one program with the elements it touched."""
        for access in self.accesses:
            elements = access.of(program)
            if elements:
                yield access, elements
