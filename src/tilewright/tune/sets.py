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

from tilewright.errors import UsageError
from tilewright.records import Case, Config, Trial

WITHIN = 0.05
_LARGEST_SEARCH = 100_000  # sets looked at before the greedy answer stands


@dataclass(frozen=True)
class Measurements:
    """Seconds of each configuration at each shape, None where it was not measured."""

    cases: tuple[Case, ...]
    configs: tuple[Config, ...]
    seconds: Mapping[tuple[str, str], float]

    def slowdown(self, case: Case, config: Config) -> float:
        """Time over that of the best at this shape: 1 is the best, infinite what was not measured."""
        return self.seconds.get((case.id, config.key), math.inf) / self._least[case.id]

    @functools.cached_property
    def _least(self) -> dict[str, float]:
        least: dict[str, float] = {}
        for (case_id, _), seconds in self.seconds.items():
            least[case_id] = min(seconds, least.get(case_id, math.inf))
        return least


@dataclass(frozen=True)
class ConfigSet:
    """Configurations that cover all shapes within ``within``; no set of fewer than ``at_least`` does."""

    configs: tuple[Config, ...]
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
    # In an order of their own, so that the answer does not depend on the order of measuring.
    cases, configs = {t.case.id: t.case for t in timed}, {t.config.key: t.config for t in timed}
    return Measurements(
        tuple(cases[case_id] for case_id in sorted(cases)),
        tuple(configs[key] for key in sorted(configs)),
        {(t.case.id, t.config.key): t.median_seconds for t in timed if t.median_seconds},
    )


def smallest_set(found: Measurements, within: float = WITHIN) -> ConfigSet:
    """The fewest configurations of which each shape has one within a share of its best; of as many, the fastest."""
    slowdowns = {c: [found.slowdown(case, c) for case in found.cases] for c in found.configs}
    covers = {c: _bits(s <= 1 + within for s in slowdowns[c]) for c in found.configs}
    candidates = _undominated(covers)
    greedy = _greedy(candidates, len(found.cases))
    least = _packing(candidates, len(found.cases))
    search = _Search(candidates, len(found.cases))
    chosen = greedy
    for size in range(least, len(greedy)):
        smaller = search.of_size(size)
        if smaller is not None:
            chosen = smaller
            break
        if search.gave_up:
            break
        least = size + 1
    return ConfigSet(_fastest(chosen, covers, slowdowns), within, min(least, len(chosen)))


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << index for index, flag in enumerate(flags) if flag)


def _undominated(covers: Mapping[Config, int]) -> dict[Config, int]:
    """Without configurations that cover nothing more than another one does."""
    kept: dict[Config, int] = {}
    for config, bits in sorted(covers.items(), key=lambda item: (-item[1].bit_count(), item[0].key)):
        if bits and not any(bits | other == other for other in kept.values()):
            kept[config] = bits
    return kept


def _greedy(covers: Mapping[Config, int], shapes: int) -> tuple[Config, ...]:
    """Whichever covers most of what is left, again and again."""
    left, chosen = (1 << shapes) - 1, []
    while left:
        best = max(covers, key=lambda config: (covers[config] & left).bit_count())
        chosen.append(best)
        left &= ~covers[best]
    return tuple(chosen)


def _packing(covers: Mapping[Config, int], shapes: int) -> int:
    """How many shapes can be picked of which no configuration covers two: no set has fewer members."""
    reach = [_reached(covers, shape) for shape in range(shapes)]
    taken = count = 0
    for shape in sorted(range(shapes), key=lambda s: reach[s].bit_count()):
        if not taken >> shape & 1:
            count += 1
            taken |= reach[shape]
    return count


def _reached(covers: Mapping[Config, int], shape: int) -> int:
    """The shapes that share a configuration with this one, itself among them."""
    return _union(bits for bits in covers.values() if bits >> shape & 1)


def _union(several: Iterable[int]) -> int:
    return functools.reduce(operator.or_, several, 0)


class _Search:
    """Sets of a given size, by the shape that fewest configurations cover; gives up after many."""

    def __init__(self, covers: Mapping[Config, int], shapes: int) -> None:
        self._covers, self._all = covers, (1 << shapes) - 1
        self._by_shape = [[c for c, bits in covers.items() if bits >> s & 1] for s in range(shapes)]
        self._most = max(bits.bit_count() for bits in covers.values())
        self._steps = 0
        self.gave_up = False

    def of_size(self, size: int) -> tuple[Config, ...] | None:
        """A set of this many that covers all; None where there is none, or where it gave up."""
        return self._extended((), 0, size)

    def _extended(self, chosen: tuple[Config, ...], covered: int, size: int) -> tuple[Config, ...] | None:
        if covered == self._all:
            return chosen
        left = (self._all & ~covered).bit_count()
        self._steps += 1
        self.gave_up = self._steps > _LARGEST_SEARCH
        if self.gave_up or left > (size - len(chosen)) * self._most:
            return None
        open_shapes = (s for s in range(len(self._by_shape)) if not covered >> s & 1)
        hardest = min(open_shapes, key=lambda s: len(self._by_shape[s]))
        for config in self._by_shape[hardest]:
            found = self._extended((*chosen, config), covered | self._covers[config], size)
            if found is not None or self.gave_up:
                return found
        return None


def _fastest(
    chosen: tuple[Config, ...], covers: Mapping[Config, int], slowdowns: Mapping[Config, Sequence[float]]
) -> tuple[Config, ...]:
    """A set as large, in which no single exchange that still covers all makes the shapes faster together."""
    whole = _union(covers[config] for config in chosen)
    members = list(chosen)
    while True:
        now = _cost(members, slowdowns)
        exchanges = [
            (cost, place, config)
            for place in range(len(members))
            for config in covers
            if config not in members
            and _union(covers[c] for c in [*members[:place], config, *members[place + 1 :]]) == whole
            and (cost := _cost([*members[:place], config, *members[place + 1 :]], slowdowns)) < now - 1e-12
        ]
        if not exchanges:
            return tuple(sorted(members, key=lambda config: config.key))
        _, place, config = min(exchanges, key=lambda exchange: (exchange[0], exchange[1], exchange[2].key))
        members[place] = config


def _cost(members: Sequence[Config], slowdowns: Mapping[Config, Sequence[float]]) -> float:
    """The sum over all shapes of the logarithm of their slowdown in the best of the set."""
    return sum(math.log(min(column)) for column in zip(*(slowdowns[config] for config in members), strict=True))
