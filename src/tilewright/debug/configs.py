"""Which configurations of an operator are checked, and the cases that name them.

A case may name a configuration beside its sizes: ``N=65 BLOCK=128``. What the interpreter cannot see, such as
``num_warps``, makes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.debug.plan import Plan
from tilewright.debug.planning import plan as planning
from tilewright.debug.planning.probing import Trait, in_configuration
from tilewright.errors import UnknownDim
from tilewright.hardware.target import Target
from tilewright.launch.capture import Choose, config_values, every_config, first_config, record
from tilewright.launch.host import inputs_of
from tilewright.launch.launch import Launch
from tilewright.records import Case, Config
from tilewright.spec.operator import Operator, default_config
from tilewright.spec.space import LAUNCH_OPTIONS

MOST = 24
"""Configurations checked of one operator, the default one included."""


def split(operator: Operator, case: Case) -> tuple[Case, Config | None]:
    """The case of the inputs alone, and the configuration that its arguments name beside them."""
    known = operator.argument_names
    given = {} if known is None else {n: v for n, v in case.arguments.items() if n not in known}
    if not given:
        return case, None
    inputs = {name: value for name, value in case.arguments.items() if name not in given}
    return replace(case, arguments=inputs), Config(given)


def for_launcher(operator: Operator, config: Config | None) -> Config | None:
    """What of a configuration the launcher takes itself; the rest is an autotuner's."""
    values = {} if config is None else {n: v for n, v in config.values.items() if n in operator.meta_names}
    return Config(values) if values else None


def for_tuner(config: Config | None) -> Choose:
    """Picks the first configuration of an autotuner that agrees with ``config``."""
    if config is None:
        return first_config

    def choose(tuner: Any, configs: list[Any]) -> list[Any]:
        return [c for c in configs if _agrees(config_values(c), config.values)][:1] or configs[:1]

    return choose


def left_out(operator: Operator, config: Config | None, launches: Sequence[Launch]) -> bool:
    """Whether tuners that know a configuration do not launch it with these arguments: pruned, or refused by the kernel."""
    tuned = {} if config is None else {n: v for n, v in config.values.items() if n not in operator.meta_names}
    own = [launch.config.values for launch in launches if launch.config is not None]
    own = [values for values in own if not tuned.keys().isdisjoint(values)]
    return bool(own) and not any(_agrees(values, tuned) for values in own)


def check_names(operator: Operator, case: Case, target: Target) -> None:
    """Refuses a case that names what is neither an input nor a meta-parameter.

    Raises:
        UnknownDim: such a name.
    """
    inputs, config = split(operator, case)
    unknown = [name for name in (config.values if config else ()) if name not in operator.meta_names]
    if not unknown:
        return
    tuned = {name for values in _tuned(operator, inputs, target) for name in values}
    for name in unknown:
        if name not in tuned:
            known = [*(operator.argument_names or ()), *operator.meta_names, *sorted(tuned)]
            words = f"{operator.name} has no dim, option or meta-parameter {name!r}"
            raise UnknownDim(words, f"it has {', '.join(known) or 'none'}")


def plan(
    operator: Operator,
    first: Case,
    target: Target,
    seed: int,
    known: Mapping[str, Trait],
    extremes: Callable[[str, Case], Iterable[Case]] = lambda dim, case: (),
) -> Plan:
    """A ragged case for each distinct configuration but the default, sized by that configuration's own blocks.

    ``known`` is what the dims mean to the kernels in the default one. Where a configuration lets a dim be so large
    that other kernels are launched, ``extremes`` makes further cases of that.
    """
    if operator.argument_names is None:
        return Plan(())
    if operator.space is None:
        distinct = _distinct(_tuned(operator, first, target))
        default = distinct[0] if distinct else {}
    else:
        distinct = _distinct([config.values for config in operator.space])
        default = _visible(default_config(operator).values)
    others = [values for values in distinct if values != default]
    if len(distinct) < 2 or not others:
        return Plan(())
    has_default = int(len(others) < len(distinct))
    chosen = spread(others, MOST - has_default)
    configured = [_case(operator, first, values, target, seed, known) for values in chosen]
    for dim, case in _other_kernels(operator, first, chosen, list(configured), target):
        configured += [case, *extremes(dim, case)]
    return Plan((), tuple(configured), len(distinct), has_default)


def _other_kernels(
    operator: Operator,
    first: Case,
    chosen: Sequence[Mapping[str, Any]],
    configured: Sequence[Case],
    target: Target,
) -> Iterator[tuple[str, Case]]:
    """Cases of configurations beyond one of whose blocks the launcher takes other kernels, one for each set of them,
    and the dim that has grown: of the fewest blocks of 1, which no tile is ragged along, and the smallest otherwise."""
    found: dict[frozenset[str], list[tuple[tuple[int, int], str, Case]]] = {}
    for values, case in zip(chosen, configured, strict=True):
        usual = {launch.name for launch in _launches(operator, first, values, target)}
        ones = sum(value == 1 for value in values.values())
        for dim in operator.dims:
            for block in sorted({v for v in values.values() if isinstance(v, int) and 16 <= v <= _MOST_OF_A_BLOCK}):
                larger = {**first.arguments, dim: block + 1}
                if not operator.allows(larger):
                    continue
                names = frozenset(
                    launch.name for launch in _launches(operator, replace(first, arguments=larger), values, target)
                )
                if names - usual:
                    grown = replace(case, arguments={**case.arguments, dim: block + 1})
                    found.setdefault(names, []).append(((ones, block), dim, grown))
    for candidates in found.values():
        _, dim, case = min(candidates, key=lambda candidate: candidate[0])
        yield dim, case


_MOST_OF_A_BLOCK = 4096


def _launches(operator: Operator, case: Case, values: Mapping[str, Any], target: Target) -> list[Launch]:
    """The launches of a case in a configuration; none where it is refused: the case itself will say so."""
    config = Config(values)
    try:
        inputs = inputs_of(operator, case, drawn=False)
        return record(operator, inputs, target, for_launcher(operator, config), choose=for_tuner(config))
    except Exception:
        return []


def spread(points: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    """At most so many of some configurations, such that each pair of values of two parameters is among them early."""
    waiting, seen = list(points), set[Any]()
    chosen: list[Mapping[str, Any]] = []
    if len(waiting) <= count:
        return waiting
    pairs = {id(point): _pairs(point) for point in waiting}
    while len(chosen) < count:
        best = max(waiting, key=lambda point: len(pairs[id(point)] - seen))  # the first of those that tie
        seen |= pairs[id(best)]
        chosen.append(best)
        waiting.remove(best)
    return chosen


def _pairs(point: Mapping[str, Any]) -> set[Any]:
    items = [(name, repr(value)) for name, value in point.items()]
    return {(a, b) for i, a in enumerate(items) for b in items[i:]}


def _case(
    operator: Operator, first: Case, values: Mapping[str, Any], target: Target, seed: int, known: Mapping[str, Trait]
) -> Case:
    launches = _launches(operator, first, values, target)
    return planning.ragged(operator, in_configuration(known, launches), seed, values)


def _tuned(operator: Operator, first: Case, target: Target) -> list[Mapping[str, Any]]:
    """Configurations that autotuned kernels of the launcher have, in their order."""
    try:
        launches: list[Launch] = record(operator, inputs_of(operator, first), target, choose=every_config)
    except Exception:
        return []  # the first case will say what is wrong, with its line
    return [launch.config.values for launch in launches if launch.config is not None]


def _distinct(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    keys = set()
    for values in map(_visible, points):
        key = Config(values).key
        if values and key not in keys:
            keys.add(key)
            found.append(values)
    return found


def _visible(values: Mapping[str, Any]) -> dict[str, Any]:
    """What of a configuration changes what the interpreter does."""
    return {name: value for name, value in values.items() if name not in LAUNCH_OPTIONS}


def _agrees(config: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    shared = [name for name in wanted if name in config]
    return bool(shared) and all(config[name] == wanted[name] for name in shared)
