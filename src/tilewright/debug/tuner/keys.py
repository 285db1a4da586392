"""``autotune-key``: a key that holds what changes with every call, or misses what the choice depends on.

Triton keeps one choice for each key, so each new value of what a key holds tunes again, and calls that a key does
not tell apart share a choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from torch import Tensor

from tilewright.debug.planning import naming
from tilewright.debug.tuner.choices import shared_choices
from tilewright.debug.tuner.place import finding
from tilewright.debug.tuner.sizes import Grown, grown, missing
from tilewright.debug.tuner.survey import Survey, Tuned, only_values_follow, survey
from tilewright.hardware.target import Target
from tilewright.launch.capture import record
from tilewright.launch.host import inputs_of
from tilewright.records import Case, Finding
from tilewright.spec.operator import Operator
from tilewright.spec.poison import Poisoned


def findings(operator: Operator, planned: Sequence[Case], target: Target, seconds: float | None) -> list[Finding]:
    """Findings of the keys of an operator's tuned kernels; a call of its launcher may take ``seconds``."""
    base = naming.first_case(operator)
    if not _may_tune(operator, base, target):
        return []
    first = survey(operator, base, target, seconds)
    if first is None or not first.tuned:
        return []
    again = survey(operator, base, target, seconds)
    other = survey(operator, replace(base, seed=base.seed + 1), target, seconds)
    larger = grown(operator, base, first, target, seconds)
    found = [*_unknown(first), *_changing(first, again), *_drifting(first, other)]
    found += [*_followed(first, larger, target), *missing(first, larger)]
    found += shared_choices(operator, [*planned, base, *(call.case for call in larger)], target)
    once = {(f.tensor, f.file, f.line, f.message): replace(f, case=base) for f in found}.values()
    wrong = {(f.file, f.line) for f in once if f.severity == "error"}
    return [f for f in once if f.severity == "error" or (f.file, f.line) not in wrong]


def _may_tune(operator: Operator, base: Case, target: Target) -> bool:
    """Whether a call launches tuned kernels, as far as one shows in which nothing is executed."""
    try:
        with Poisoned():
            launches = record(operator, inputs_of(operator, base), target)
    except Exception:
        return True  # a launcher that looks at what its kernels compute
    return any(launch.tuning is not None for launch in launches)


def _unknown(first: Survey) -> Iterator[Finding]:
    """Names that are no parameters: Triton drops them from the key until 3.8, and refuses them from 3.9 on."""
    for tuned in first.tuned:
        tuner = tuned.tuning.tuner
        for name in (name for name in tuner.keys if name not in tuner.arg_names):
            words = f"the key names {name}, and {tuned.launch.name} has no such parameter: Triton leaves it out unsaid"
            remedy = f"its parameters: {', '.join(tuner.arg_names)}"
            yield finding("autotune-key", tuner, words, severity="warning", remedy=remedy)


def _changing(first: Survey, again: Survey | None) -> Iterator[Finding]:
    """Key arguments that differ between two calls with equal inputs."""
    for one, other in _pairs(first, again):
        for name, value in one.tuning.key.items():
            second = other.tuning.key.get(name)
            if isinstance(value, Tensor):
                changes = value is not second
                why = "a tensor, which equals itself alone: each new tensor tunes again"
            else:
                changes = bool(value != second)
                why = f"{value!r} in one call and {second!r} in the next, with equal inputs: every call tunes again"
            if changes:
                yield _held(one, name, why)


def _drifting(first: Survey, other: Survey | None) -> Iterator[Finding]:
    """Floats in a key that differ where only the values of the inputs do."""
    for one, second in _pairs(first, other):
        for name, value in one.tuning.key.items():
            now = second.tuning.key.get(name)
            if isinstance(value, float) and now != value:
                why = f"{value!r} in one call and {now!r} in another with other values: each new value tunes again"
                yield _held(one, name, why)


def _held(tuned: Tuned, name: str, why: str) -> Finding:
    words = f"the key of {tuned.launch.name} holds {name}, {why}"
    return finding("autotune-key", tuned.tuning.tuner, words, name, _without(tuned, name))


def _followed(first: Survey, larger: Sequence[Grown], target: Target) -> Iterator[Finding]:
    """Numbers in a key which no size moves, and which change what a kernel computes, but nothing of what it does."""
    for position, tuned in enumerate(first.tuned):
        constexprs = tuned.launch.constexprs
        for name, value in tuned.tuning.key.items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or name in constexprs or any(_moves(name, tuned, g.tuned[position]) for g in larger):
                continue
            if only_values_follow(tuned, name, target):
                words = (
                    f"the key of {tuned.launch.name} holds {name}, {value!r} here, which changes what it computes and "
                    "nothing of what it reads and writes: no choice depends on it, and each new value tunes again"
                )
                remedy = _without(tuned, name)
                yield finding("autotune-key", tuned.tuning.tuner, words, name, remedy, severity="warning")


def _moves(name: str, first: Tuned, second: Tuned) -> bool:
    return bool(first.launch.arguments[name] != second.launch.arguments.get(name))


def _pairs(first: Survey, second: Survey | None) -> Iterable[tuple[Tuned, Tuned]]:
    same = second is not None and [t.launch.name for t in first.tuned] == [t.launch.name for t in second.tuned]
    return zip(first.tuned, second.tuned, strict=True) if same and second is not None else ()


def _without(tuned: Tuned, name: str) -> str:
    left = ", ".join(f'"{other}"' for other in tuned.tuning.tuner.keys if other != name)
    return f"@triton.autotune(..., key=[{left}])"
