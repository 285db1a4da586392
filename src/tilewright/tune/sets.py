"""A smallest set of configurations that is near the best for every shape.

A configuration covers a shape where it was measured and is slower than the best measured there by no more than a given
share. Which fewest of them cover all shapes is decided by a search over all sets as long as that is small, and answered
greedily beyond, with a bound: shapes of which no configuration covers two need one each.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import UsageError
from tilewright.records import Case, Config, Trial

WITHIN = 0.05
_LARGEST_SEARCH = 20_000  # sets looked at before the greedy answer stands


@dataclass(frozen=True)
class Measurements:
    """What was measured: ``slowdowns`` has a row for each configuration and a column for each case.

    A slowdown is a time over that of the best at this shape: 1 is the best, infinite what was not measured.
    """

    cases: tuple[Case, ...]
    configs: tuple[Config, ...]
    slowdowns: np.ndarray[Any, np.dtype[np.float64]]

    def slowdown(self, case: Case, config: Config) -> float:
        """That of one configuration at one shape."""
        if config not in self.configs:
            return math.inf
        return float(self.slowdowns[self.configs.index(config), self.cases.index(case)])


@dataclass(frozen=True)
class ConfigSet:
    """Configurations that cover all shapes within ``within``; no set of fewer than ``at_least`` does.

    ``rows`` are their places in the Measurements.
    """

    configs: tuple[Config, ...]
    rows: tuple[int, ...]
    within: float
    at_least: int

    @property
    def is_smallest(self) -> bool:
        return len(self.configs) == self.at_least


def measurements(trials: Sequence[Trial]) -> Measurements:
    """What timed Trials say; of one shape and configuration the last. What was abandoned as slow does not count.

    Raises:
        UsageError: none is timed, or they are of several operators, boards, versions of Triton or regimes.
    """
    timed = [trial for trial in trials if trial.status == "timed" and trial.median_seconds and not trial.abandoned]
    if not timed:
        raise UsageError("no configuration was timed", "tilewright tune OPERATOR on a GPU times them")
    for name in ("operator", "target", "device", "triton", "regime"):
        if len(several := {getattr(trial, name) for trial in timed}) > 1:
            words = ", ".join(sorted(map(str, several)))
            raise UsageError(f"trials of several {name}s do not make one set: {words}")
    named = [(trial.case.id, trial.config.key, trial) for trial in timed]
    cases, configs = {case: t.case for case, _, t in named}, {config: t.config for _, config, t in named}
    # In an order of their own, so that the answer does not depend on the order of measuring.
    columns, rows = ({key: i for i, key in enumerate(sorted(keys))} for keys in (cases, configs))
    seconds = np.full((len(rows), len(columns)), np.inf)
    for case, config, trial in named:
        seconds[rows[config], columns[case]] = trial.median_seconds
    ordered = tuple(cases[key] for key in columns), tuple(configs[key] for key in rows)
    return Measurements(*ordered, seconds / seconds.min(axis=0))


def smallest_set(found: Measurements, within: float = WITHIN) -> ConfigSet:
    """The fewest configurations of which each shape has one within a share of its best; of as many, the fastest."""
    covers = [_bits(row) for row in found.slowdowns <= 1 + within]
    candidates = _undominated(covers)
    shapes = len(found.cases)
    chosen, least = _greedy(candidates, shapes), _packing(candidates, shapes)
    search = _Search(candidates, shapes)
    for size in range(least, len(chosen)):
        smaller = search.of_size(size)
        if smaller is not None:
            chosen = smaller
            break
        if search.gave_up:
            break
        least = size + 1
    members = _fastest(chosen, covers, found.slowdowns)
    return ConfigSet(tuple(found.configs[row] for row in members), members, within, min(least, len(members)))


# Below, a configuration is its row, and the shapes that it covers are the bits of a number.


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << index for index, flag in enumerate(flags) if flag)


def _undominated(covers: Sequence[int]) -> dict[int, int]:
    """Without configurations that cover nothing more than another one does."""
    kept: dict[int, int] = {}
    for row in sorted(range(len(covers)), key=lambda row: -covers[row].bit_count()):
        bits = covers[row]
        if bits and not any(bits | other == other for other in kept.values()):
            kept[row] = bits
    return kept


def _greedy(covers: Mapping[int, int], shapes: int) -> tuple[int, ...]:
    """Whichever covers most of what is left, again and again."""
    left, chosen = (1 << shapes) - 1, []
    while left:
        best = max(covers, key=lambda row: (covers[row] & left).bit_count())
        chosen.append(best)
        left &= ~covers[best]
    return tuple(chosen)


def _packing(covers: Mapping[int, int], shapes: int) -> int:
    """How many shapes can be picked of which no configuration covers two: no set has fewer members."""
    reach = [_union(bits for bits in covers.values() if bits >> shape & 1) for shape in range(shapes)]
    taken = count = 0
    for shape in sorted(range(shapes), key=lambda s: reach[s].bit_count()):
        if not taken >> shape & 1:
            count += 1
            taken |= reach[shape]
    return count


def _union(several: Iterable[int]) -> int:
    return functools.reduce(operator.or_, several, 0)


class _Search:
    """Sets of a given size, by the shape that fewest configurations cover; gives up after many."""

    def __init__(self, covers: Mapping[int, int], shapes: int) -> None:
        self._covers, self._all = covers, (1 << shapes) - 1
        self._by_shape = [[row for row, bits in covers.items() if bits >> s & 1] for s in range(shapes)]
        self._hardest_first = sorted(range(shapes), key=lambda s: len(self._by_shape[s]))
        self._most = max(bits.bit_count() for bits in covers.values())
        self._steps = 0
        self.gave_up = False

    def of_size(self, size: int) -> tuple[int, ...] | None:
        """A set of this many that covers all; None where there is none, or where it gave up."""
        return self._extended((), 0, size)

    def _extended(self, chosen: tuple[int, ...], covered: int, size: int) -> tuple[int, ...] | None:
        if covered == self._all:
            return chosen
        left = (self._all & ~covered).bit_count()
        self._steps += 1
        self.gave_up = self._steps > _LARGEST_SEARCH
        if self.gave_up or left > (size - len(chosen)) * self._most:
            return None
        hardest = next(shape for shape in self._hardest_first if not covered >> shape & 1)
        for row in self._by_shape[hardest]:
            found = self._extended((*chosen, row), covered | self._covers[row], size)
            if found is not None or self.gave_up:
                return found
        return None


def _fastest(
    chosen: Sequence[int], covers: Sequence[int], slowdowns: np.ndarray[Any, np.dtype[np.float64]]
) -> tuple[int, ...]:
    """A set as large, in which no exchange of one member that still covers all makes the shapes faster together."""
    whole = _union(covers[row] for row in chosen)
    members = list(chosen)
    cost = np.log(slowdowns[members].min(axis=0)).sum()
    while True:
        best = (cost, 0, members[0])
        for place in range(len(members)):
            others = members[:place] + members[place + 1 :]
            covered = _union(covers[row] for row in others)
            able = [row for row, bits in enumerate(covers) if covered | bits == whole]
            fastest = np.minimum(slowdowns[able], slowdowns[others].min(axis=0, initial=np.inf))
            costs = np.log(fastest).sum(axis=1)
            if costs.min() < best[0] - 1e-12:
                best = (costs.min(), place, able[int(costs.argmin())])
        if best[0] == cost:
            return tuple(sorted(members))
        cost, place, row = best
        members[place] = row
