"""Sizes that move a kernel's work by much, and none of its tuner's key: each dim is made larger alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from tilewright.debug.tuner.place import finding
from tilewright.debug.tuner.survey import Survey, Tuned, survey
from tilewright.hardware.target import Target
from tilewright.records import Case, Finding
from tilewright.spec.operator import Operator

_FACTOR = 8
_MUCH = 4
"""A dim ``_FACTOR`` times as large that makes this many times the work is one that the work depends on."""


@dataclass(frozen=True)
class Grown:
    """A call with one dim larger than in the first; its tuned launches are those of the first, in their order."""

    dim: str
    case: Case
    before: int
    now: int
    tuned: tuple[Tuned, ...]


def grown(operator: Operator, base: Case, first: Survey, target: Target, seconds: float | None) -> list[Grown]:
    """One call for each dim that can be larger alone."""
    found = []
    for dim in operator.dims:
        size = base.arguments.get(dim)
        if not isinstance(size, int):
            continue
        larger = {**base.arguments, dim: _FACTOR * size}
        if not operator.allows(larger):
            continue
        case = replace(base, arguments=larger)
        other = survey(operator, case, target, seconds)
        if other is not None and [t.launch.name for t in other.tuned] == [t.launch.name for t in first.tuned]:
            found.append(Grown(dim, case, size, larger[dim], other.tuned))
    return found


def missing(first: Survey, larger: Sequence[Grown]) -> Iterator[Finding]:
    """Kernels whose key holds no size that moves the work of a program, though others do; or no size at all.

    A key that holds one of several such sizes is a choice its author made, and one that holds a size which no dim
    moves may be.
    """
    for position, tuned in enumerate(first.tuned):
        calls = [(g, g.tuned[position]) for g in larger]
        if any(isinstance(value, Tensor) for value in tuned.tuning.key.values()):
            continue
        moved = {g.dim for g, other in calls if other.tuning.cached_by != tuned.tuning.cached_by}
        if _fixed_sizes(tuned, [other for _, other in calls]):
            continue
        busier = [(g, other) for g, other in calls if other.program >= _MUCH * max(tuned.program, 1)]
        if busier and moved.isdisjoint(g.dim for g, _ in busier):
            yield _finding(tuned, *busier[0], tuned.program, busier[0][1].program, "one program reads and writes")
        elif not moved:
            more = [(g, other) for g, other in calls if other.total >= _MUCH * max(tuned.total, 1)]
            if more:
                yield _finding(tuned, *more[0], tuned.total, more[0][1].total, "its programs read and write")


def _fixed_sizes(tuned: Tuned, others: Sequence[Tuned]) -> list[str]:
    """Whole numbers in the key that no call changed."""
    whole = {n: v for n, v in tuned.tuning.key.items() if isinstance(v, int) and not isinstance(v, bool)}
    return [name for name, value in whole.items() if all(other.tuning.key.get(name) == value for other in others)]


def _finding(tuned: Tuned, grown: Grown, other: Tuned, before: int, now: int, verb: str) -> Finding:
    tuner, held = tuned.tuning.tuner, ", ".join(tuned.tuning.key)
    words = (
        f"{tuned.launch.name} is tuned for the first size it meets, and runs so at all others: {verb} {before} elements "
        f"at {grown.dim}={grown.before} and {now} at {grown.dim}={grown.now}, and the key ({held or 'empty'}) is the same"
    )
    name = _argument(grown, tuned, other)
    listed = ", ".join(f'"{key}"' for key in [*tuner.keys, *([name] if name else [])] if key in tuner.arg_names)
    in_words = f"give the kernel {grown.dim} as an argument, and name it in key="
    remedy = f"@triton.autotune(..., key=[{listed}])" if name else in_words
    return finding("autotune-key", tuner, words, name, remedy, severity="warning")


def _argument(grown: Grown, tuned: Tuned, other: Tuned) -> str | None:
    """The kernel's argument that is the size of a dim, or moves with it; a stride only where nothing else does."""
    first, second = tuned.launch.arguments, other.launch.arguments
    moving = [n for n, v in first.items() if _is_number(v) and second.get(n) != v and n in tuned.tuning.tuner.arg_names]
    own = [*(tuned.launch.config.values if tuned.launch.config else ())]
    moving = [name for name in moving if name not in own]
    moving.sort(key=lambda n: ("stride" in n.lower(), (first[n], second[n]) != (grown.before, grown.now)))
    return moving[0] if moving else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
