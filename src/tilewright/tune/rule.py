"""A decision rule: which of a set's configurations runs at which sizes, as a small tree that a person can read.

It asks for one size, flag or dtype at a time. A part of the shapes that one configuration serves within the set's share is
not split further; otherwise the question is taken that leaves the least time lost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.records import Case, Config
from tilewright.tune.sets import ConfigSet, Measurements


@dataclass(frozen=True)
class Leaf:
    """A configuration, how many of the measured shapes come here, and the most that one of them loses (1.04: 4 %)."""

    config: Config
    shapes: int
    slowdown: float


@dataclass(frozen=True)
class Split:
    """``name <= value`` for a size, ``name == value`` for anything else: then ``yes``, else ``no``."""

    name: str
    value: Any
    yes: Rule
    no: Rule

    def holds(self, arguments: Mapping[str, Any]) -> bool:
        given = arguments.get(self.name)
        return bool(given <= self.value) if _is_size(self.value) else bool(given == self.value)

    def words(self) -> tuple[str, str]:
        """The question as an expression, and its opposite."""
        value = repr(self.value)
        if _is_size(self.value):
            return f"{self.name} <= {value}", f"{self.name} > {value}"
        return f"{self.name} == {value}", f"{self.name} != {value}"


Rule = Leaf | Split


def arguments_of(case: Case) -> dict[str, Any]:
    """What a rule may ask for: the case's sizes and options, and its dtype."""
    return {**case.arguments, **({"dtype": case.dtype} if case.dtype else {})}


def rule_for(found: Measurements, chosen: ConfigSet) -> Rule:
    """The rule for the measured shapes, over the set's configurations."""
    return _grown(found, chosen, found.cases)


def choose(rule: Rule, arguments: Mapping[str, Any]) -> Config:
    """The configuration that a rule gives for sizes, measured or not."""
    while isinstance(rule, Split):
        rule = rule.yes if rule.holds(arguments) else rule.no
    return rule.config


def leaves(rule: Rule) -> Iterator[Leaf]:
    """The ends of a rule, from the first answer to the last."""
    if isinstance(rule, Leaf):
        yield rule
    else:
        yield from leaves(rule.yes)
        yield from leaves(rule.no)


def _grown(found: Measurements, chosen: ConfigSet, cases: Sequence[Case]) -> Rule:
    leaf = _leaf(found, chosen, cases)
    if leaf.slowdown <= 1 + chosen.within:
        return leaf
    splits = [(name, value, parts) for name, value in _questions(cases) if all(parts := _parted(cases, name, value))]
    if not splits:  # shapes that no argument tells apart
        return leaf
    name, value, (yes, no) = min(splits, key=lambda split: sum(_lost(found, chosen, part) for part in split[2]))
    return Split(name, value, _grown(found, chosen, yes), _grown(found, chosen, no))


def _leaf(found: Measurements, chosen: ConfigSet, cases: Sequence[Case]) -> Leaf:
    """The configuration with the least greatest slowdown over some shapes; of as good ones the fastest overall."""
    columns = {config: [found.slowdown(case, config) for case in cases] for config in chosen.configs}
    enough = lambda config: max(columns[config]) <= 1 + chosen.within
    total = lambda config: sum(map(math.log, columns[config]))
    allowed = [config for config in chosen.configs if enough(config)]
    best = min(allowed, key=total) if allowed else min(chosen.configs, key=lambda c: (max(columns[c]), total(c)))
    return Leaf(best, len(cases), max(columns[best]))


def _lost(found: Measurements, chosen: ConfigSet, cases: Sequence[Case]) -> float:
    """What one configuration for all of them costs at least, counted from the share that is let pass."""
    return min(
        sum(min(max(found.slowdown(case, config) / (1 + chosen.within) - 1, 0.0), 1e6) for case in cases)
        for config in chosen.configs
    )


def _questions(cases: Sequence[Case]) -> Iterator[tuple[str, Any]]:
    """What may be asked to tell some shapes apart, sizes first."""
    arguments = [arguments_of(case) for case in cases]
    names = dict.fromkeys(name for given in arguments for name in given)
    for name in names:
        values: list[Any] = [given.get(name) for given in arguments]
        if all(map(_is_size, values)):
            ordered = sorted(set(values))
            yield from ((name, _between(low, high)) for low, high in itertools.pairwise(ordered))
        elif len(set(map(repr, values))) > 1:
            yield from ((name, value) for value in {repr(v): v for v in values}.values() if not _is_size(value))


def _parted(cases: Sequence[Case], name: str, value: Any) -> tuple[list[Case], list[Case]]:
    asked = Split(name, value, *[Leaf(Config({}), 0, 1.0)] * 2)
    yes = [case for case in cases if asked.holds(arguments_of(case))]
    return yes, [case for case in cases if case not in yes]


def _between(low: float, high: float) -> float:
    """A threshold between two sizes, halfway by ratio: the power of two next to it, or a number of few digits."""
    middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
    whole = isinstance(low, int) and isinstance(high, int)
    if whole and middle >= 1 and low <= (power := 1 << round(math.log2(middle))) < high:
        return power
    for digits in range(1, 8):
        rounded = float(f"{middle:.{digits}g}")
        if low <= rounded < high:
            return int(rounded) if whole else rounded
    return low


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
