"""The plan: cases in the order they are run, what breaks kernels first, as many as the budget holds.

What a case takes is estimated from its launches (kernels to compile, operations, lanes), not timed: the same
operator gives the same cases on any machine.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tilewright.debug import refusal
from tilewright.debug.planning import contents, cost, huge, naming, parameters, sizes
from tilewright.debug.planning.probing import Probe, Trait, traits, with_blocks_of
from tilewright.errors import CaseUnsatisfiable, KernelCompileError
from tilewright.launch.compile import specialise
from tilewright.launch.launch import Launch
from tilewright.records import Case
from tilewright.spec.inputs import UPSTREAM_LAYOUTS
from tilewright.spec.operator import Operator
from tilewright.spec.virtual import is_huge

Effort = Literal["quick", "thorough"]
BUDGETS: Mapping[str, float] = {"quick": 3.0, "thorough": 100.0}
"""Estimated seconds of all planned cases of an operator, its configurations apart."""
DEAREST: Mapping[str, float] = {"quick": 0.6, "thorough": 10.0}
"""Estimated seconds of one case."""
_PER_KERNEL = 0.05
_PER_CASE = 0.012
_PER_ELEMENT = 30e-9
"""Seconds to draw an element, and to copy it several times."""


@dataclass
class Planned:
    """Cases in their order; of ``grids`` only the launches are looked at, not what they compute."""

    cases: list[Case] = field(default_factory=list)
    grids: list[Case] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan(probe: Probe, effort: Effort, seed: int = 0) -> Planned:
    """The cases of an operator whose first case could be recorded."""
    operator = probe.operator
    known = traits(probe)
    if operator.signature:
        known = with_blocks_of(probe, known, _of_levels(probe, known, dict.fromkeys(known, "tail"), seed))
    budget = _Budget(probe, effort)
    notes: list[str] = []
    table = {d: _accepted(probe, d, known[d], i, notes) for i, d in enumerate(known)}
    for case in _ordered(probe, known, table, effort, seed):
        budget.offer(case)
    found = Planned(budget.taken, notes=notes)
    if not is_huge(probe.inputs(probe.first)):
        found.grids = list(huge.beyond_grids(probe, known))
    found.cases += [case for case in huge.wrapping(probe, known) if case not in found.cases]
    return found


def ragged(operator: Operator, known: Mapping[str, Trait], seed: int, values: Mapping[str, Any]) -> Case:
    """A case with each dim beside its block, above it and below in turn, in a configuration."""
    sides = ("above", "below")
    wanted = {
        dim: sizes.levels(trait, i, limited=operator.signature is None)[sides[i % 2]]
        for i, (dim, trait) in enumerate(known.items())
    }
    case = naming.made(operator, wanted, seed=seed)
    return replace(case, arguments={**case.arguments, **values})


def _of_levels(probe: Probe, known: Mapping[str, Trait], row: Mapping[str, str], seed: int) -> Case:
    limited = probe.operator.signature is None
    wanted = {d: sizes.levels(t, i, limited=limited)[row[d]] for i, (d, t) in enumerate(known.items())}
    return naming.made(probe.operator, wanted, seed=seed)


# ------------------------------------------------------------------------------------------------- order


def _ordered(
    probe: Probe, known: Mapping[str, Trait], table: Mapping[str, Mapping[str, int]], effort: Effort, seed: int
) -> Iterator[Case]:
    operator, first = probe.operator, probe.first
    dims = list(known)
    if operator.signature is None:
        yield first
        if is_huge(probe.inputs(first)):
            return

    def at(row: Mapping[str, str], **other: Any) -> Case | None:
        wanted = {dim: table[dim][level] for dim, level in row.items()}
        return _made(operator, {**wanted, **other.pop("options", {})}, seed=seed, **other)

    rows = sizes.combinations(dims)
    head = list(itertools.islice(rows, 5))
    mixed, swapped = head[min(1, len(head) - 1)], head[min(2, len(head) - 1)]
    streams: list[Iterable[Case | None]] = [
        [at(row) for row in head[:3]],
        [at(mixed, layout=layout) for layout in UPSTREAM_LAYOUTS] if operator.grad else [],
        [at(mixed, dtype=dtype) for dtype in operator.dtypes[1:]],
        (at(mixed, options={name: option}) for name, options in _options(operator) for option in options),
        _of_parameters(probe, mixed, table, seed),
        [at(row) for row in head[3:]],
        (at({**dict.fromkeys(dims, "few"), dim: "few"}, options={dim: size}) for dim, size in _long(known)),
        (at(mixed, values=word) for word in contents.early(operator)),
        (at(mixed, layout=layout) for layout in contents.layouts(operator)),
        (at(mixed, options={dim: 0}) for dim in dims),
        (at(row) for row in rows),
        (at(swapped, values=word) for word in contents.words(operator, effort)),
        (at(swapped, dtype=dtype) for dtype in operator.dtypes[1:]),
    ]
    if effort == "thorough":
        streams += list(_further(probe, known, at))
    yield from filter(None, itertools.chain.from_iterable(streams))


def _further(probe: Probe, known: Mapping[str, Trait], at: Any) -> Iterator[Iterable[Case | None]]:
    """What only a thorough look holds: everything in every dtype, layouts and values of every option, more sizes."""
    operator, dims = probe.operator, list(known)
    rows = list(sizes.combinations(dims))
    for dtype in operator.dtypes[1:]:
        yield (at(row, dtype=dtype) for row in rows)
        yield (at(rows[1 % len(rows)], dtype=dtype, values=word) for word in contents.words(operator, "thorough"))
    for name, options in _options(operator):
        yield (at(row, options={name: option}) for option in options for row in rows)
    yield (at(row, layout=layout) for layout in contents.layouts(operator) for row in rows[:6])
    yield (at(row, values=word) for word in contents.words(operator, "thorough") for row in rows[3:6])


def _options(operator: Operator) -> list[tuple[str, tuple[Any, ...]]]:
    return [(name, options[1:]) for name, options in operator.choices.items() if len(options) > 1]


def _long(known: Mapping[str, Trait]) -> Iterator[tuple[str, int]]:
    for dim, trait in known.items():
        size = sizes.long(trait)
        if size is not None:
            yield dim, size


def _of_parameters(
    probe: Probe, row: Mapping[str, str], table: Mapping[str, Mapping[str, int]], seed: int
) -> Iterator[Case | None]:
    """Other values of what ``inputs`` takes, beside its sizes as written and beside ragged ones."""
    operator = probe.operator
    if operator.signature is not None:
        return
    defaults = probe.first.arguments
    ragged_sizes = {dim: table[dim][level] for dim, level in row.items()}
    for changed in parameters.variations(operator.default_arguments, probe.launches):
        yield _made(operator, {**defaults, **changed}, seed=seed)
        yield _made(operator, {**defaults, **ragged_sizes, **changed}, seed=seed)


def _made(operator: Operator, wanted: Mapping[str, Any], **other: Any) -> Case | None:
    if operator.signature is None:
        wanted = parameters.related({**operator.default_arguments, **wanted}, operator.default_arguments)
    try:
        return naming.made(operator, wanted, **other)
    except CaseUnsatisfiable:
        return None


# ------------------------------------------------------------------------------------------------ budget


class _Budget:
    """Takes cases while what they are estimated to take fits; a kernel that is compiled already costs nothing."""

    def __init__(self, probe: Probe, effort: Effort) -> None:
        self._probe, self._left, self._dearest = probe, BUDGETS[effort], DEAREST[effort]
        self._read = {launch.name: read for launch, read in zip(probe.launches, probe.read, strict=True)}
        self._reference = cost.of_reference(probe)
        self._compiled: set[Any] = set()
        self._seen: set[str] = set()
        self.taken: list[Case] = []

    def offer(self, case: Case) -> None:
        if case.id in self._seen:
            return
        self._seen.add(case.id)
        try:
            inputs = self._probe.inputs(case)
            launches = self._probe.launched(inputs)
        except Exception:
            if self._probe.operator.signature or not self.taken:
                self.taken.append(case)  # it will say why, or be left out with a word
            return
        keys = {self._key(launch) for launch in launches}
        elements = sum(tensor.numel() for tensor in inputs.tensors.values())
        seconds = _PER_CASE + elements * _PER_ELEMENT + _PER_KERNEL * len(keys - self._compiled)
        seconds += cost.of_launches(launches, [self._read.get(launch.name) for launch in launches])
        seconds += self._reference.of(case)
        if seconds > min(self._left, self._dearest) and self.taken:
            return
        self._compiled |= keys
        self._left -= seconds
        self.taken.append(case)

    def _key(self, launch: Launch) -> Any:
        with contextlib.suppress(Exception):
            return specialise(launch, self._probe.target, debug=True, sanitize_overflow=False).key
        return id(launch.kernel)


# ---------------------------------------------------------------------------------------------- refusals


def _accepted(probe: Probe, dim: str, trait: Trait, position: int, notes: list[str]) -> dict[str, int]:
    """Sizes of a dim by level, without those that Triton or the launcher refuses; a note says so once."""
    operator = probe.operator
    wanted = sizes.levels(trait, position, limited=operator.signature is None)
    known: dict[int, str | None] = {trait.size: None}
    for size in dict.fromkeys(wanted.values()):
        if size not in known:
            known[size] = _refusal(probe, dim, size, compiles=trait.tiled)
    refused = {size: words for size, words in known.items() if words}
    if not refused:
        return wanted
    spare = _spare(probe, dim, trait, set(known))
    good = [size for size in wanted.values() if known[size] is None] + spare
    if not good:
        return wanted
    first = min(refused)
    notes.append(f"{dim}={', '.join(map(str, sorted(refused)))} left out: {refused[first]}")
    return {level: size if known[size] is None else _nearest(size, good) for level, size in wanted.items()}


def _spare(probe: Probe, dim: str, trait: Trait, tried: set[int]) -> list[int]:
    """Sizes near those that were refused: the next multiples of what launchers ask for, the next powers of two."""
    size = max(trait.size, 1)
    near = [size * 2, size // 2, size + 16, size + 8, size - 8, size + 4, size - 4, size + 2, size - 2]
    candidates = [n for n in near if n > 0 and n not in tried][:6]
    return [n for n in candidates if _refusal(probe, dim, n, compiles=trait.tiled) is None]


def _nearest(size: int, good: list[int]) -> int:
    return min(good, key=lambda other: (abs(math.log2(other + 1) - math.log2(size + 1)), other))


def _refusal(probe: Probe, dim: str, size: int, *, compiles: bool) -> str | None:
    """Why a size of a dim is none, all others as in the first case; None where it is taken.

    Kernels are compiled only where a tile is as large as the dim: there Triton may refuse.
    """
    operator = probe.operator
    arguments = {**probe.first.arguments, dim: size}
    if not operator.allows(arguments):
        return None  # where= is kept by changing others
    try:
        launches = probe.record(replace(probe.first, arguments=parameters.related(arguments, probe.first.arguments)))
    except Exception as error:
        return refusal.words(operator, error) or (refusal.made_by_inputs(operator, error))
    for launch in launches if compiles else ():
        try:
            probe.compiled(launch)
        except KernelCompileError as error:
            return error.what
        except Exception:
            return None
    return None
