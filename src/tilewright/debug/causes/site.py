"""Where in the user's code an operation stands: the same in every case, however the kernel was specialised."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.debug.executor.faults import users_location
from tilewright.debug.executor.machine import Machine
from tilewright.launch.ttir import Op


@dataclass(frozen=True)
class Site:
    """An operation of the user's source. ``column`` counts from 0; several operations of a name may share a site."""

    file: str
    line: int
    column: int
    op: str


def site_of(machine: Machine, op: Op) -> Site:
    """The site of an operation that the machine is at."""
    location = users_location(op.location, machine.calls)
    return Site(location.file or "", location.line or 0, location.column or 0, op.name)
