"""Sizes worth trying of each dim, and the combinations that hold every pair of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from tilewright.debug.planning.probing import Trait

LEVELS = ("aligned", "above", "below", "tail", "one", "few", "double", "part")
"""What a size is to the blocks along it: B, B+1, B-1, a prime behind two blocks, 1, a small prime, 2 B, B and a
quarter: what divides that need not divide by B."""
_BATCHES = (2, 3)
_MANY_ROWS = 37
_LARGEST_STEP = 128
_LONGEST = 6007
_TRIPS, _FEWER = 3001, 499
FIRST = 6
"""Combinations before those that go dim by dim."""

Sizes = dict[str, int]


def levels(trait: Trait, position: int, *, limited: bool) -> dict[str, int]:
    """Sizes of a dim by level. ``position`` tells batch-like dims apart; ``limited``: what does not grow is not
    made larger than the tile that holds it, for the kernel's author may have meant just that."""
    if not trait.moves and limited:
        found = {"aligned": trait.size, "above": trait.size + 1, "below": max(trait.size - 1, 1), "one": 1, "few": 3}
        return {**found, "tail": prime_above(2 * trait.size), "double": 2 * trait.size, "part": trait.size + 2}
    if not trait.blocks:
        several = _BATCHES[position % 2]
        found = dict.fromkeys(("aligned", "above", "below", "part"), several)
        # Where programs share rows out among them, several have to meet.
        found |= {"tail": _MANY_ROWS if trait.axes else 3, "one": 1, "few": 1, "double": 1}
        if trait.tiled:
            found = {"aligned": trait.size, "above": trait.size + 1, "below": max(trait.size - 1, 1)}
            found |= {"tail": prime_above(2 * trait.size), "one": 1, "few": 3, "double": 2 * trait.size}
            found["part"] = _and_a_quarter(trait.size)
    else:
        least, most = trait.blocks[0], trait.blocks[-1]
        found = {"aligned": most, "above": most + 1, "below": max(least - 1, 1), "tail": prime_above(2 * most)}
        found |= {"one": 1, "few": 3 if least > 4 else 2, "double": 2 * most, "part": _and_a_quarter(most)}
    if limited and not trait.grows:
        largest = max(trait.size, trait.blocks[-1] if trait.blocks else 0)
        found = {level: size if size <= largest else largest - 1 - (level == "tail") for level, size in found.items()}
        found = {level: max(size, 1) for level, size in found.items()}
    return found


def _and_a_quarter(size: int) -> int:
    return size + max(size // 4, 1)


def prime_above(number: int) -> int:
    candidate = number + 1
    while any(candidate % d == 0 for d in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate


def long(trait: Trait) -> tuple[int, ...]:
    """Sizes that a loop goes round many times over: sums that lose what they add show there. The larger one first,
    which may be too dear."""
    if trait.step is None:
        return ()
    return tuple(
        prime_above(min(trips * trait.step, max(_LONGEST, _LARGEST_STEP * trait.step))) for trips in (_TRIPS, _FEWER)
    )


def combinations(dims: Sequence[str]) -> Iterator[dict[str, str]]:
    """Levels of all dims, what breaks masks first; together they hold every pair of levels of two dims."""
    fixed = list(_first(dims))
    yield from fixed
    yield from covering(dims, LEVELS, fixed)


def _first(dims: Sequence[str]) -> Iterator[dict[str, str]]:
    # Neighbouring dims on different sides of their block: the 129x127 of every bug report.
    sides = ("above", "below")
    yield dict.fromkeys(dims, "aligned")
    yield {dim: sides[i % 2] for i, dim in enumerate(dims)}
    yield {dim: sides[1 - i % 2] for i, dim in enumerate(dims)}
    yield dict.fromkeys(dims, "tail")
    yield dict.fromkeys(dims, "few")
    yield dict.fromkeys(dims, "part")
    yield from one_ragged(dims)
    yield dict.fromkeys(dims, "one")


def one_ragged(dims: Sequence[str]) -> Iterator[dict[str, str]]:
    """Each dim beside its block while the others are whole: many kernels have masks only where a dim needs one."""
    for dim in dims if len(dims) > 1 else ():
        yield {**dict.fromkeys(dims, "aligned"), dim: "above"}


def covering(dims: Sequence[str], names: Sequence[str], given: Sequence[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """Rows that hold each pair of levels of two dims which ``given`` rows do not hold, greedily, few in all."""
    missing = {((a, x), (b, y)) for a, b in itertools.combinations(dims, 2) for x, y in itertools.product(names, names)}
    missing |= {((dim, x), (dim, x)) for dim in dims for x in names}
    for held in given:
        missing -= _pairs(dims, held)
    while missing:
        row: dict[str, str] = {}
        first = min(missing)
        row.update(first)
        for dim in dims:
            if dim not in row:
                row[dim] = max(names, key=lambda name, dim=dim: _gain(missing, row, dim, name))  # type: ignore[misc]
        row = {dim: row[dim] for dim in dims}
        missing -= _pairs(dims, row)
        yield row


def _gain(missing: set[tuple[tuple[str, str], tuple[str, str]]], row: Mapping[str, str], dim: str, name: str) -> int:
    """How many missing pairs a dim's level makes with those that a row has already."""
    own = (dim, name)
    return sum(((other, own) in missing) + ((own, other) in missing) for other in row.items())


def _pairs(dims: Sequence[str], row: Mapping[str, str]) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    items = [(dim, row[dim]) for dim in dims]
    return {(a, b) for a, b in itertools.combinations(items, 2)} | {(a, a) for a in items}
