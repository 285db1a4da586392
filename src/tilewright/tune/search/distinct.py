"""Points of equal binary are one measurement: a search sees one of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from tilewright.tune.points import Point
from tilewright.tune.search.interface import Search


def representatives(points: Sequence[Point]) -> list[int]:
    """For each point the first of those that launch the same."""
    first: dict[str, int] = {}
    return [first.setdefault(point.binary, i) if point.binary else i for i, point in enumerate(points)]


class Distinct:
    """A search over points of which one stands for all of its binary; what is told of any of them is told of it."""

    def __init__(self, points: Sequence[Point], make: Callable[[Sequence[Point]], Search]) -> None:
        self._stands_for = representatives(points)
        self._shown = sorted(set(self._stands_for))
        self._place = {index: place for place, index in enumerate(self._shown)}
        self._search = make(_Shown(points, self._shown))
        self.name = self._search.name

    def next(self) -> int | None:
        place = self._search.next()
        return None if place is None else self._shown[place]

    def told(self, index: int, seconds: float | None) -> None:
        self._search.told(self._place[self._stands_for[index]], seconds)


class _Shown(Sequence[Point]):
    """Some of the points, as they are when they are looked at: more becomes known of them while a search goes on."""

    def __init__(self, points: Sequence[Point], shown: Sequence[int]) -> None:
        self._points, self._indices = points, shown

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, place: int) -> Point: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Point]: ...
    def __getitem__(self, place: int | slice) -> Point | Sequence[Point]:
        if isinstance(place, slice):
            return [self._points[index] for index in self._indices[place]]
        return self._points[self._indices[place]]
