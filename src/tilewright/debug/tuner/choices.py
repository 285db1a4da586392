"""Calls that share a key, and not the configurations they allow: what is chosen in one is launched in the other.

A configuration is not allowed where ``early_config_prune`` drops it, or a static assertion of the kernel refuses it.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.debug.check import check_case, forced
from tilewright.debug.executor.program import compiled
from tilewright.debug.tuner.place import finding
from tilewright.errors import StaticAssertionFailed
from tilewright.hardware.target import Target
from tilewright.launch.capture import every_config, record
from tilewright.launch.host import inputs_of
from tilewright.launch.launch import Launch, Tuning, python_function
from tilewright.records import Case, Config, Finding
from tilewright.spec.operator import Operator
from tilewright.spec.poison import Poisoned
from tilewright.spec.virtual import is_huge

_TRIED = 4
"""Configurations of a kernel that are run where they are not allowed."""


@dataclass(frozen=True)
class _Allowed:
    """A tuned kernel's launch in a case, and the configurations that it may be launched in."""

    case: Case
    launch: Launch
    tuning: Tuning
    configs: tuple[Config, ...]


def shared_choices(operator: Operator, planned: Sequence[Case], target: Target) -> list[Finding]:
    """One finding for each tuner with a key that two cases share, of which one allows what the other does not.

    An error where a configuration of the one is wrong in the other; a warning where it is only not wanted there.
    """
    found = []
    for allowed in _by_tuner(operator, planned, target):
        pairs = [(a, b) for a, b in itertools.permutations(allowed, 2) if _shares(a, b) and _more(a, b)]
        pairs.sort(key=lambda pair: len(_arguments(*pair)))
        if pairs:
            found.append(_judged(operator, pairs[0], target))
    return found


def _by_tuner(operator: Operator, planned: Sequence[Case], target: Target) -> list[list[_Allowed]]:
    found: dict[tuple[int, int], list[_Allowed]] = {}
    for case in planned:
        for position, launches in enumerate(_launches(operator, case, target)):
            tuning = launches[0].tuning
            if tuning is not None and _may_refuse(tuning.tuner):
                own = tuple(launch.config for launch in launches if launch.config and not _refused(launch, target))
                found.setdefault((id(tuning.tuner), position), []).append(_Allowed(case, launches[0], tuning, own))
    return list(found.values())


def _launches(operator: Operator, case: Case, target: Target) -> list[list[Launch]]:
    """The launches of a case, none executed, in all configurations of each that a tuner makes."""
    try:
        inputs = inputs_of(operator, case)
        with Poisoned():
            launches = [] if is_huge(inputs) else record(operator, inputs, target, choose=every_config)
    except Exception:
        return []  # its own run says why
    grouped = itertools.groupby(launches, key=lambda launch: launch.tuning and id(launch.tuning.key))
    return [list(group) for _, group in grouped]


def _may_refuse(tuner: Any) -> bool:
    return bool(tuner.early_config_prune) or "static_assert" in inspect.getsource(python_function(tuner))


def _refused(launch: Launch, target: Target) -> bool:
    try:
        compiled(launch, target)
    except StaticAssertionFailed:
        return True
    return False


def _shares(a: _Allowed, b: _Allowed) -> bool:
    return a.tuning.cached_by == b.tuning.cached_by


def _more(a: _Allowed, b: _Allowed) -> list[Config]:
    """Configurations allowed in one case and not in another."""
    return [config for config in a.configs if config not in b.configs]


def _arguments(a: _Allowed, b: _Allowed) -> list[str]:
    """Arguments that differ between two launches of a kernel, and are none of the configuration's; strides last."""
    first, second = a.launch.arguments, b.launch.arguments
    own = a.launch.config.values if a.launch.config else {}
    plain = [n for n in a.tuning.tuner.arg_names if n not in own and isinstance(first.get(n), (bool, int, float, str))]
    differing = [name for name in plain if first[name] != second.get(name)]
    return [name for name in differing if "stride" not in name.lower()] or differing


def _judged(operator: Operator, pair: tuple[_Allowed, _Allowed], target: Target) -> Finding:
    a, b = pair
    tuner, names = a.tuning.tuner, _arguments(a, b)
    key = ", ".join(f'"{name}"' for name in [*tuner.keys, *names])
    remedy = f"@triton.autotune(..., key=[{key}])"
    fault = next(filter(None, (_fault(operator, b, config, target) for config in _more(a, b)[:_TRIED])), None)
    config = fault[0] if fault else _more(a, b)[0]
    shown = [", ".join(f"{name}={launch.arguments[name]!r}" for name in names) for launch in (a.launch, b.launch)]
    words = (
        f"{config} may be chosen at {shown[0] or a.case.label}, not at {shown[1] or b.case.label}, and the key "
        f"({', '.join(a.tuning.key) or 'empty'}) is the same: what is chosen first is launched in both"
    )
    tensor = names[0] if names else None
    if fault is None:
        return finding("autotune-key", tuner, words, tensor, remedy, severity="warning")
    return finding("autotune-key", tuner, f"{words}; launched there, it {fault[1]}", tensor, remedy)


def _fault(operator: Operator, where: _Allowed, config: Config, target: Target) -> tuple[Config, str] | None:
    """What goes wrong in a case in a configuration that it does not allow, where all is right in one that it does."""
    if any(f.severity == "error" for f in check_case(operator, where.case, target, checked=True).findings):
        return None
    ran, findings = forced(operator, where.case, target, config)
    if not any(launch.config == config for launch in ran):
        return config, "does not compile: a static assertion refuses it"
    errors = [f for f in findings if f.severity == "error"]
    return (config, f"ends in {errors[0].kind}: {errors[0].message}") if errors else None
