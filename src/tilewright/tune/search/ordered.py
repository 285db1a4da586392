"""A search that learns nothing: an order fixed beforehand."""

from __future__ import annotations

from collections.abc import Sequence


class Ordered:
    """Names the points in the order given, each once."""

    name = "ordered"

    def __init__(self, order: Sequence[int]) -> None:
        self._left = list(reversed(order))
        self._done: set[int] = set()

    def next(self) -> int | None:
        while self._left:
            index = self._left.pop()
            if index not in self._done:
                self._done.add(index)
                return index
        return None

    def told(self, index: int, seconds: float | None) -> None:
        self._done.add(index)
