"""The plan: cases in the order they are run, what breaks kernels first, as many as the budget holds.

What a case takes is estimated from its launches (kernels to compile, operations, lanes), not timed: the same
operator gives the same cases on any machine.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tilewright.debug import refusal
from tilewright.debug.planning import apart, contents, cost, huge, naming, parameters, sizes
from tilewright.debug.planning.modest import TooLarge
from tilewright.debug.planning.probing import Probe, Trait, path_of, traits, with_blocks_of
from tilewright.errors import CaseUnsatisfiable, KernelCompileError
from tilewright.launch.compile import specialise
from tilewright.launch.launch import Launch
from tilewright.records import Case
from tilewright.spec.contents import WIDE_RANGE
from tilewright.spec.inputs import APART, UPSTREAM_LAYOUTS
from tilewright.spec.operator import Operator
from tilewright.spec.virtual import is_huge
from tilewright.wording import count

Effort = Literal["quick", "thorough"]
BUDGETS: Mapping[str, float] = {"quick": 3.0, "thorough": 100.0}
"""Estimated seconds of all planned cases of an operator, its configurations apart."""
DEAREST: Mapping[str, float] = {"quick": 0.6, "thorough": 10.0}
"""Estimated seconds of one case."""
LEAST = 8
"""Cases that are run though they are dear, up to so many times what the dearest else may be."""
_PATIENCE = 6
_MOST_OF_A_PATH = 16_385
"""The largest size at which a launcher takes another way that has further cases: values and layouts of that way."""
_THRESHOLDS = (257, 1025, 4097, 16_385, 65_537)
"""Just above sizes at which launchers choose another kernel."""
QUICK_ROWS = 24
"""Combinations of sizes in a quick plan, beside those that come first."""
_PER_COMPILED = 4e-4
"""Seconds to compile an operation of a kernel, and to read it."""
_PER_CASE = 0.012
_PER_ELEMENT = 30e-9
"""Seconds to draw an element, and to copy it several times."""


@dataclass
class Planned:
    """Cases in their order; of ``grids`` only the launches are looked at, not what they compute."""

    cases: list[Case] = field(default_factory=list)
    grids: list[Case] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    traits: Mapping[str, Trait] = field(default_factory=dict)


def plan(probe: Probe, effort: Effort, seed: int = 0, *, extremes: bool = True) -> Planned:
    """The cases of an operator whose first case could be recorded.

    ``extremes`` are sizes of which only the checked executor looks at the addresses, and grids that none launches.
    """
    known = traits(probe)
    known = with_blocks_of(probe, known, _of_levels(probe, known, dict.fromkeys(known, "tail"), seed))
    budget = _Budget(probe, effort)
    notes: list[str] = []
    table = {d: _accepted(probe, d, known[d], i, notes) for i, d in enumerate(known)}
    paths = list(_of_paths(probe, table, seed))
    for case in _ordered(probe, known, table, paths, effort, seed):
        budget.offer(case)
    if budget.too_dear and len(budget.taken) < LEAST:
        notes.append(
            f"only {count(len(budget.taken), 'case')} run, {budget.too_dear} left out: what inputs() or the reference "
            "makes takes too long or too much memory; smaller defaults let more of them run"
        )
    found = Planned(budget.taken or [probe.first], notes=notes, traits=known)
    if extremes and not is_huge(probe.first_inputs):
        found.grids = list(huge.beyond_grids(probe, known))
        found.cases += [case for case in huge.wrapping(probe, known) if case not in found.cases]
        if probe.is_wide:  # of others one case says that they are not
            small = [(dim, case) for dim, case in paths if case.arguments[dim] <= _MOST_OF_A_PATH]
            found.cases += apart.apart(probe, known, small)
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
    probe: Probe,
    known: Mapping[str, Trait],
    table: Mapping[str, Mapping[str, int]],
    paths: Sequence[tuple[str, Case]],
    effort: Effort,
    seed: int,
) -> Iterator[Case]:
    operator, first = probe.operator, probe.first
    dims = list(known)
    inputs = probe.first_inputs
    if operator.signature is None:
        yield first
        if is_huge(inputs):
            return

    def at(row: Mapping[str, str], **other: Any) -> Case | None:
        wanted = {dim: table[dim][level] for dim, level in row.items()}
        return _made(operator, {**wanted, **other.pop("options", {})}, seed=seed, **other)

    rows = sizes.combinations(dims)
    head = list(itertools.islice(rows, sizes.FIRST))
    mixed, swapped = head[min(1, len(head) - 1)], head[min(2, len(head) - 1)]
    streams: list[Iterable[Case | None]] = [
        [at(row) for row in head[:3]],
        [at(mixed, layout=layout) for layout in UPSTREAM_LAYOUTS] if operator.grad else [],
        [at(mixed, dtype=dtype) for dtype in operator.dtypes[1:]],
        (at(mixed, options={name: option}) for name, options in _options(operator) for option in options),
        _of_parameters(probe, mixed, table, seed),
        (case for dim in dims if (case := at(head[0], options={dim: 0})) and case.arguments[dim] == 0),
        (at(row) for row in sizes.one_ragged(dims)),
        (at(mixed, values=word) for word in contents.early(operator, inputs)),
        _of_wide_range(operator, at(mixed, options=_optional(operator)), paths),
        (at(mixed, layout=layout) for layout in contents.layouts(operator)),
        [at(row) for row in head[3:]],
        (case for _, case in paths),
        (at(dict.fromkeys(dims, "few"), options={dim: size}) for dim, size in _long(known)),
        (at(row) for row in _spread(list(rows), effort)),
        (at(swapped, values=word) for word in contents.words(operator, inputs, effort)),
        (at(swapped, dtype=dtype) for dtype in operator.dtypes[1:]),
    ]
    if effort == "thorough":
        streams.append(_further(operator, dims, contents.words(operator, inputs, effort), at))
    yield from filter(None, itertools.chain.from_iterable(streams))


def _spread(rows: list[dict[str, str]], effort: Effort) -> list[dict[str, str]]:
    """All rows, or every so many of them where there is no time for more."""
    return rows if effort == "thorough" else rows[:: -(-len(rows) // QUICK_ROWS) or 1]


def _further(
    operator: Operator, dims: list[str], words: list[str], at: Callable[..., Case | None]
) -> Iterator[Case | None]:
    """What only a thorough look holds: everything in every dtype, layouts and values at more sizes, of every option."""
    rows = list(sizes.combinations(dims))
    for dtype in operator.dtypes[1:]:
        yield from (at(row, dtype=dtype) for row in rows)
        yield from (at(rows[1 % len(rows)], dtype=dtype, values=word) for word in words)
    for name, options in _options(operator):
        yield from (at(row, options={name: option}) for option in options for row in rows)
    yield from (at(row, layout=layout) for layout in contents.layouts(operator) for row in rows[:6])
    yield from (at(row, values=word) for word in words for row in rows[3:6])


def _options(operator: Operator) -> list[tuple[str, tuple[Any, ...]]]:
    return [(name, options[1:]) for name, options in operator.choices.items() if len(options) > 1]


def _optional(operator: Operator) -> dict[str, bool]:
    """The options that give all tensors which may be left out."""
    tensors = operator.signature.tensors if operator.signature else ()
    return {p.name: True for p in tensors if p.tensor and p.tensor.optional}


def _of_wide_range(operator: Operator, usual: Case | None, paths: Sequence[tuple[str, Case]]) -> Iterator[Case]:
    """Values that float16 cannot hold, on each way that the launcher takes."""
    dtype = contents.wide_range(operator)
    if dtype is not None:
        cases = [*([usual] if usual else []), *(case for dim, case in paths if case.arguments[dim] <= _MOST_OF_A_PATH)]
        yield from (replace(case, dtype=dtype, values=WIDE_RANGE) for case in cases)


def extremes(probe: Probe, known: Mapping[str, Trait], dim: str, case: Case) -> Iterator[Case]:
    """A case whose kernels no other has, with values that float16 cannot hold, and with a dim laid out far apart."""
    yield from _of_wide_range(probe.operator, case, ())
    if probe.is_wide and apart.may_span_as_much(probe, known, dim):
        yield replace(case, layout=dim + APART)


def _long(known: Mapping[str, Trait]) -> Iterator[tuple[str, int]]:
    for dim, trait in known.items():
        for size in sizes.long(trait):
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


def _of_paths(probe: Probe, table: Mapping[str, Mapping[str, int]], seed: int) -> Iterator[tuple[str, Case]]:
    """The size of a dim at which a launcher takes another way: other kernels, or other flags of them; all else small."""
    operator = probe.operator
    seen = {path_of(probe.launches)}
    for dim in table:
        for size in _THRESHOLDS:
            wanted = {other: size if other == dim else table[other]["few"] for other in table}
            case = _made(operator, wanted, seed=seed)
            if case is None or not isinstance(probe.first.arguments.get(dim), int) or not probe.is_modest(case):
                break
            try:
                path = path_of(probe.record(case))
            except Exception:
                break  # it goes no further
            if path not in seen:
                seen.add(path)
                yield dim, case


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
        self.too_dear = 0

    def offer(self, case: Case) -> None:
        if case.id in self._seen:
            return
        self._seen.add(case.id)
        try:
            is_first = case == self._probe.first
            inputs = self._probe.first_inputs if is_first else self._probe.inputs(case)
            launches = self._probe.launches if is_first else self._probe.launched(inputs)
        except TooLarge:
            self.too_dear += 1
            return
        except Exception as error:
            if isinstance(error.__cause__, TooLarge):
                self.too_dear += 1
            elif self._probe.operator.signature:
                self.taken.append(case)  # it will say why, or be left out with a word
            return
        keys = {(launch.name, self._key(launch)) for launch in launches}
        elements = sum(tensor.numel() for tensor in inputs.tensors.values())
        seconds = _PER_CASE + elements * _PER_ELEMENT + sum(self._compiling(n) for n, _ in keys - self._compiled)
        seconds += cost.of_launches(launches, [self._read.get(launch.name) for launch in launches])
        seconds += self._reference.of(case)
        has_few = len(self.taken) < LEAST
        if seconds > (_PATIENCE * self._dearest if has_few else min(self._left, self._dearest)):
            self.too_dear += 1
            return
        self._compiled |= keys
        self._left -= seconds
        self.taken.append(case)

    def _compiling(self, name: str) -> float:
        read = self._read.get(name)
        return _PER_COMPILED * (100 if read is None else read.operations)

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
    # One odd size tells whether Triton wants powers of two, in which case each size is compiled.
    odd = _refusal(probe, dim, wanted["above"], compiles=True) if trait.tiled else None
    for size in dict.fromkeys(wanted.values()):
        if size not in known:
            known[size] = _refusal(probe, dim, size, compiles=odd is not None)
    refused = {size: words for size, words in known.items() if words}
    if not refused:
        return wanted
    spare = _spare(probe, dim, trait, set(known), compiles=odd is not None)
    good = [size for size in wanted.values() if known[size] is None] + spare
    if not good:
        return wanted
    first = min(refused)
    notes.append(f"{dim}={', '.join(map(str, sorted(refused)))} left out: {refused[first]}")
    return {level: size if known[size] is None else _nearest(size, good) for level, size in wanted.items()}


def _spare(probe: Probe, dim: str, trait: Trait, tried: set[int], *, compiles: bool) -> list[int]:
    """Sizes near those that were refused: the next multiples of what launchers ask for, the next powers of two."""
    size = max(trait.size, 1)
    near = [size * 2, size // 2, size + 16, size + 8, size - 8, size + 4, size - 4, size + 2, size - 2]
    candidates = [n for n in near if n > 0 and n not in tried][:6]
    return [n for n in candidates if _refusal(probe, dim, n, compiles=compiles) is None]


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
