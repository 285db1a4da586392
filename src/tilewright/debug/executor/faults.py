"""What the checks of one operator call found, grouped by line: each fault once, with its counts and its first lane."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.guard import is_users_code
from tilewright.launch.ttir import Location
from tilewright.records import Finding, Severity


@dataclass(frozen=True)
class Place:
    """A line of the user's kernel."""

    file: str | None
    line: int | None

    @property
    def source(self) -> str | None:
        if self.file is None or self.line is None:
            return None
        return linecache.getline(self.file, self.line).strip() or None


@dataclass(frozen=True)
class Origin:
    """Where a lane without a defined value comes from."""

    kind: str
    tensor: str | None
    place: Place


class Origins:
    """Origins by the small number that poison planes hold; 0 is none.

    Where lanes of several origins come together planes keep the larger number, so numbers fall: the origin
    that came first stays.
    """

    MOST = 255
    PADDED = 1
    """Of lanes beyond a tensor's extent: no fault in themselves, and marked only where a cause is looked for."""

    def __init__(self) -> None:
        self._numbers: dict[Origin, int] = {}

    def number(self, origin: Origin) -> int:
        left = self.MOST - len(self._numbers)
        return self._numbers.setdefault(
            origin, max(left, self.PADDED + 1)
        )  # the last number stands for all further ones

    def __getitem__(self, number: int) -> Origin:
        return next(origin for origin, own in self._numbers.items() if own == number)


@dataclass
class _Fault:
    kind: str
    severity: Severity
    place: Place
    message: str
    tensor: str | None
    origin: Origin | None
    remedy: str | None
    first: int
    element: tuple[int, ...] | None
    variables: Mapping[str, Any]
    programs: set[int] = field(default_factory=set)
    lanes: int = 0


@dataclass
class Faults:
    """The recorder that all checks of an operator call write to."""

    origins: Origins = field(default_factory=Origins)
    _found: dict[tuple[str, Place, str | None, Origin | None], _Fault] = field(default_factory=dict)
    _grids: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        place: Place,
        message: str,
        *,
        grid: tuple[int, int, int],
        programs: Sequence[int],
        lanes: int,
        tensor: str | None = None,
        element: tuple[int, ...] | None = None,
        origin: Origin | None = None,
        severity: Severity = "error",
        remedy: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        """Counts a fault; message, element and variables are of its first program, ``programs`` in ascending order."""
        key = (kind, place, tensor, origin)
        first = programs[0] if programs else 0
        fault = self._found.get(key)
        if fault is None:
            fault = _Fault(kind, severity, place, message, tensor, origin, remedy, first, element, variables or {})
            self._found[key] = fault
            self._grids[id(fault)] = grid
        elif first < fault.first:
            fault.first, fault.message, fault.element = first, message, element
            fault.variables = variables or {}
        fault.programs.update(programs)
        fault.lanes += lanes

    def __bool__(self) -> bool:
        return bool(self._found)

    def has(self, kind: str) -> bool:
        return any(fault.kind == kind for fault in self._found.values())

    def findings(self) -> list[Finding]:
        found = []
        for fault in self._found.values():
            x, y, _ = self._grids[id(fault)]
            first = fault.first
            found.append(
                Finding(
                    kind=fault.kind,
                    message=fault.message,
                    severity=fault.severity,
                    tensor=fault.tensor,
                    file=fault.place.file,
                    line=fault.place.line,
                    source=fault.place.source,
                    origin_line=fault.origin.place.line if fault.origin else None,
                    program=(first % x, first // x % y, first // (x * y)) if fault.programs else None,
                    programs=len(fault.programs) or None,
                    lanes=fault.lanes or None,
                    element=fault.element,
                    cause="unknown" if fault.severity == "error" else None,
                    remedy=fault.remedy,
                    variables=tuple(fault.variables.items()),
                )
            )
        return found


def users_location(location: Location, calls: Sequence[Location]) -> Location:
    """The innermost in the user's code: an operation's own, or that of the call that led into a library."""
    for candidate in (location, *reversed(calls)):
        if candidate.file is not None and is_users_code(candidate.file):
            return candidate
    return location


def users_place(location: Location, calls: Sequence[Location]) -> Place:
    """The innermost line of the user's code."""
    found = users_location(location, calls)
    return Place(found.file, found.line)


def lanes_by_program(lanes: Tensor, programs: Tensor) -> tuple[list[int], int, int]:
    """Programs with a set lane in ascending order, how many lanes are set, and the row of the first program.

    ``lanes``: bool (programs, …). ``programs``: their linear ids.
    """
    flat = lanes.reshape(lanes.shape[0], -1)
    rows = flat.any(1).nonzero().flatten()
    ids = programs[rows]
    order = torch.argsort(ids)
    return ids[order].tolist(), int(flat.sum()), int(rows[order[0]])
