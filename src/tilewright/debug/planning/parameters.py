"""Other values of the parameters of ``inputs``: an author's defaults say what kind each is, and how they relate.

All of them are guesses. What ``inputs``, the reference or the launcher's own Python refuses of them was none
of the author's cases, and no finding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.debug.planning.probing import block_values
from tilewright.launch.launch import Launch

_LARGER, _INEXACT = 40.0, 0.1
_MOST = 7
"""Variations of one parameter."""


def variations(defaults: Mapping[str, Any], launches: Sequence[Launch]) -> Iterator[dict[str, Any]]:
    """Values of one parameter at a time that differ from its default; sizes are not among them."""
    found = {name: list(_others(name, value, defaults, launches))[:_MOST] for name, value in defaults.items()}
    for position in range(_MOST):  # the likeliest of each first
        for name, values in found.items():
            if position < len(values):
                yield {name: values[position]}


def related(arguments: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with their tuples as they are to sizes by default: as many as a size says, and kept below what they
    are below of, as lengths are where a size shrinks."""
    found = dict(arguments)
    for name, value in arguments.items():
        if not is_tuple(value) or value != defaults.get(name):
            continue
        kind: Any = type(value)
        count = _counted_by(value, defaults)
        if count is not None and isinstance(now := arguments.get(count), int) and now > 0:
            found[name] = kind(itertools.islice(itertools.cycle(found[name]), now))
        for size, default in _sizes(defaults):
            now = arguments.get(size)
            if now != default and isinstance(now, int) and max(defaults[name]) <= default and size != count:
                limit = now - (max(defaults[name]) < default)
                found[name] = kind(min(entry, max(limit, 0)) for entry in found[name])
    return found


def _counted_by(value: Sequence[int], defaults: Mapping[str, Any]) -> str | None:
    """The one size that says how many entries a tuple has."""
    names = [name for name, size in _sizes(defaults) if size == len(value)]
    return names[0] if len(names) == 1 and len(value) > 1 else None


def is_tuple(value: Any) -> bool:
    """Whether a default is several whole numbers: lengths, offsets, indices."""
    return isinstance(value, (tuple, list)) and bool(value) and all(_is_int(entry) for entry in value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _sizes(defaults: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(name, value) for name, value in defaults.items() if _is_int(value) and name != "seed"]


def _others(name: str, value: Any, defaults: Mapping[str, Any], launches: Sequence[Launch]) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
        yield None
    elif value is None:
        yield from block_values(launches)
    elif isinstance(value, float):
        yield from _floats(value)
    elif is_tuple(value):
        sizes = [size for _, size in _sizes(defaults)]
        candidates = _tuples(value, [size for size in sizes if max(value) <= size])
        counted = _counted_by(value, defaults) is not None
        total = sum(value) if len(value) > 1 and sum(value) in sizes else None
        yield from (c for c in candidates if not counted or len(c) == len(value) if total in (None, sum(c)))


def _floats(value: float) -> Iterator[float]:
    if value == 0.0:
        yield 1.0
    elif value == value and abs(value) != float("inf"):
        yield _LARGER * value
        yield _INEXACT * value


def _tuples(value: Sequence[int], limits: Sequence[int]) -> Iterator[Sequence[int]]:
    """With an element 0, 1, at the end of what bounds them; all equal; one alone; more of them."""
    kind: Any = type(value)
    first = value[0]
    seen = {tuple(value)}
    largest = [end for limit in sorted(limits) for end in (limit - 1, limit)]
    candidates = [(0, *value[1:]) if len(value) > 1 else (first, 0, 1)]
    candidates += [(0, *value[1:-1], value[-1] + first)] if len(value) > 1 else []  # as much in all
    candidates += [(*value[:-1], end) for end in largest[:2]]
    candidates += [(0,), (*value, 0, *largest[1:2], 1), (first,) * max(len(value), 2), (0,) * len(value), (1,)]
    for candidate in candidates:
        if candidate not in seen:
            seen.add(candidate)
            yield kind(candidate)
