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

import numpy as np

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
    return _grown(found, chosen, range(len(found.cases)))


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


def _grown(found: Measurements, chosen: ConfigSet, shapes: Sequence[int]) -> Rule:
    leaf = _leaf(found, chosen, shapes)
    if leaf.slowdown <= 1 + chosen.within:
        return leaf
    splits: list[tuple[float, int, str, Any, list[int], list[int]]] = []
    for name, value in _questions([found.cases[shape] for shape in shapes]):
        asked = Split(name, value, leaf, leaf)
        yes = [shape for shape in shapes if asked.holds(arguments_of(found.cases[shape]))]
        no = [shape for shape in shapes if shape not in yes]
        if yes and no:
            splits.append((_lost(found, chosen, yes) + _lost(found, chosen, no), len(splits), name, value, yes, no))
    if not splits:  # shapes that no argument tells apart
        return leaf
    _, _, name, value, yes, no = min(splits)
    return Split(name, value, _grown(found, chosen, yes), _grown(found, chosen, no))


def _leaf(found: Measurements, chosen: ConfigSet, shapes: Sequence[int]) -> Leaf:
    """The fastest overall of the configurations that serve all of some shapes; if none does, the one that loses least."""
    slowdowns = found.slowdowns[np.ix_(chosen.rows, shapes)]
    worst, total = slowdowns.max(axis=1), np.log(slowdowns).sum(axis=1)
    serves = worst <= 1 + chosen.within
    place = int(np.lexsort((total, np.where(serves, 0.0, worst)))[0])
    return Leaf(chosen.configs[place], len(shapes), float(worst[place]))


def _lost(found: Measurements, chosen: ConfigSet, shapes: Sequence[int]) -> float:
    """What one configuration for all of them costs at least, counted from the share that is let pass."""
    beyond = found.slowdowns[np.ix_(chosen.rows, shapes)] / (1 + chosen.within) - 1
    return float(np.clip(beyond, 0.0, 1e6).sum(axis=1).min())


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
