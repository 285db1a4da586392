"""Which of the tuned sizes is nearest to one that was never tuned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Key = Mapping[str, Any]


def nearest(key: Key, tuned: Sequence[Key]) -> int | None:
    """The index of the tuned key that differs least, sizes being compared by their ratio; None where none is alike.

    What is no size (a flag, a word, a number below one) must be equal. Of two as near, the smaller sizes are taken.
    """
    distances = [
        (distance, _sizes(other), index)
        for index, other in enumerate(tuned)
        if (distance := _apart(key, other)) is not None
    ]
    return min(distances)[-1] if distances else None


def _apart(key: Key, other: Key) -> float | None:
    """The sum of |log2| of the ratios of sizes; None where something that must be equal is not."""
    if key.keys() != other.keys():
        return None
    total = 0.0
    for name, value in key.items():
        if _is_size(value) and _is_size(other[name]):
            total += abs(math.log2(value / other[name]))
        elif value != other[name]:
            return None
    return total


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _sizes(key: Key) -> list[int]:
    return [value for _, value in sorted(key.items()) if _is_size(value)]
