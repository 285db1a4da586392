"""Which cases are worth running: sizes around the kernel's own blocks, every dtype, options, layouts.

Deterministic: the same operator gives the same cases.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.errors import CaseUnsatisfiable, UsageError
from tilewright.launch.launch import Launch
from tilewright.records import Case
from tilewright.spec.inputs import UPSTREAM_LAYOUTS
from tilewright.spec.operator import Operator

DEFAULT_BLOCKS = (16, 64)
"""Used where no launch could be caught to read the blocks from."""
LARGEST_BLOCK = 1024
_SMALL = (2, 3, 1, 4, 8, 16)
_MOST_AS_WRITTEN = 1 << 16
"""Up to this product of its sizes the case that the defaults of ``inputs`` describe is planned too."""


def first_case(operator: Operator) -> Case:
    """A small case that fulfils the declaration, to catch a launch with."""
    return _case(operator, dict.fromkeys(operator.dims, 16))


def blocks_of(launches: Iterable[Launch]) -> dict[str, int]:
    """Meta-parameters of caught launches that can be the side of a tile: whole numbers above 1."""
    return blocks_among({name: value for launch in launches for name, value in launch.constexprs.items()})


def blocks_among(values: Mapping[str, Any]) -> dict[str, int]:
    """Those of some meta-parameters that can be the side of a tile."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int) and not isinstance(value, bool) and 1 < value <= LARGEST_BLOCK
    }


def ragged(operator: Operator, blocks: Mapping[str, int], seed: int = 0) -> Case:
    """A case with each dim beside its block: above it and below in turn."""
    sizes = _planned_sizes(operator, blocks)
    return _case(operator, sizes[min(1, len(sizes) - 1)], seed=seed)


def plan(operator: Operator, blocks: Mapping[str, int], seed: int = 0) -> list[Case]:
    """Cases in the order they are run: aligned sizes first, then what breaks masks, then the rest."""
    sizes = _planned_sizes(operator, blocks)
    mixed = sizes[min(1, len(sizes) - 1)]
    cases = [_case(operator, wanted, seed=seed) for wanted in sizes]
    if operator.grad:  # early: what a backward pass gets wrong it mostly gets wrong here
        cases[2:2] = [_case(operator, mixed, layout=layout, seed=seed) for layout in UPSTREAM_LAYOUTS]
    for dtype in operator.dtypes[1:]:
        cases += [_case(operator, wanted, dtype=dtype, seed=seed) for wanted in sizes[:2]]
    for name, options in operator.choices.items():
        cases += [_case(operator, {**mixed, name: option}, seed=seed) for option in options[1:]]
    if operator.signature:
        cases += [_case(operator, mixed, layout=layout, seed=seed) for layout in ("transposed", "sliced")]
    return _unique(cases + _as_written(operator, seed))


def _as_written(operator: Operator, seed: int) -> list[Case]:
    """The defaults of ``inputs``: a dim without a block of its own is larger there than planned, and programs meet."""
    given = {dim: operator.default_arguments.get(dim) for dim in operator.dims}
    sizes = [size for size in given.values() if isinstance(size, int)]
    if operator.signature or len(sizes) < len(given) or math.prod(sizes) > _MOST_AS_WRITTEN or not sizes:
        return []
    return [_case(operator, given, seed=seed)]


def explicit(operator: Operator, arguments: Mapping[str, Any], seed: int = 0) -> Case:
    """The case a user asks for by sizes and options; what is not named takes a small default."""
    given = dict(arguments)
    _check_sizes(operator, given)
    dtype = given.pop("dtype", None)
    layout, values = given.pop("layout", "contiguous"), given.pop("values", "normal")
    seed = given.pop("seed", seed)
    if operator.signature is None:
        return Case(operator.name, given, dtype, layout, values, seed)
    base = _case(operator, dict.fromkeys(operator.dims, 16) | given, fixed=frozenset(given)).arguments
    return Case(operator.name, {**base, **given}, dtype or operator.dtypes[0], layout, values, seed)


def _check_sizes(operator: Operator, given: Mapping[str, Any]) -> None:
    if operator.signature is None:
        return  # what the parameters of inputs() mean only it knows
    for name in operator.dims:
        size = given.get(name, 0)
        for part in size if isinstance(size, (tuple, list)) else (size,):
            if isinstance(part, bool) or not isinstance(part, int) or part < 0:
                raise UsageError(f"{name}={size!r} is no size of {operator.name}", "give a whole number, 0 or more")


# ------------------------------------------------------------------------------------------------ sizes


def _planned_sizes(operator: Operator, blocks: Mapping[str, int]) -> list[dict[str, Any]]:
    sides = {dim: _sides(dim, operator.dims, blocks) for dim in operator.dims}
    uneven = [dim for dim in operator.dims if sides[dim]]
    return [_sized(operator, sides, uneven, pick) for pick in _picks(uneven)]


def _picks(ragged: Sequence[str]) -> list[dict[str, int]]:
    """For each case, which way each ragged dim goes: an index into the sizes around its block."""
    aligned = dict.fromkeys(ragged, 0)
    # Neighbouring dims on different sides of their block: the 129x127 of every bug report.
    above_below = {dim: 1 + i % 2 for i, dim in enumerate(ragged)}
    below_above = {dim: 2 - i % 2 for i, dim in enumerate(ragged)}
    alone = [aligned | {dim: side} for dim in ragged for side in (1, 2, 3)]
    together = [dict.fromkeys(ragged, side) for side in (3, 4)]
    return [aligned, above_below, below_above, *together, *alone]


def _sides(dim: str, dims: Sequence[str], blocks: Mapping[str, int]) -> tuple[int, ...]:
    """Sizes of a dim worth trying: B, B+1, B-1, 1, and a prime with a tail behind two blocks."""
    own = [side for name, side in blocks.items() if _belongs(name, dim)]
    if not own and any(_belongs(name, d) for name in blocks for d in dims):
        return ()  # other dims have blocks of their own: this one is batch-like
    sides = own or sorted(set(blocks.values())) or list(DEFAULT_BLOCKS)
    block = sides[0] if own else sides[len(sides) // 2]
    return (block, block + 1, max(block - 1, 1), 1, _prime_above(2 * block))


def _belongs(block: str, dim: str) -> bool:
    """``BLOCK_M``, ``BLOCK_SIZE_M``, ``BM`` and ``M_BLOCK`` are blocks of a dim ``M``."""
    words = re.split(r"_|(?<=[a-z])(?=[A-Z])", block)
    compact = re.fullmatch(r"B(?:LOCK)?_?([A-Z]\w*)", block)
    return dim in words or (compact is not None and compact.group(1) == dim)


def _prime_above(number: int) -> int:
    candidate = number + 1
    while any(candidate % d == 0 for d in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate


def _sized(
    operator: Operator, sides: Mapping[str, tuple[int, ...]], ragged: Sequence[str], pick: Mapping[str, int]
) -> dict[str, Any]:
    """Wanted sizes of all dims; batch-like ones get small, different sizes."""
    small = itertools.cycle(_SMALL[:2])
    return {dim: sides[dim][pick[dim]] if dim in ragged else next(small) for dim in operator.dims}


def _case(
    operator: Operator,
    wanted: Mapping[str, Any],
    *,
    dtype: str | None = None,
    layout: str = "contiguous",
    seed: int = 0,
    fixed: frozenset[str] = frozenset(),
) -> Case:
    # Options at their default are left out: a case says what is special about it.
    arguments = {**operator.default_arguments, **wanted}
    if operator.signature:
        for name in operator.signature.variadic:
            if not isinstance(arguments.get(name), (tuple, list)):
                arguments[name] = (2, 3)
        dtype = dtype or operator.dtypes[0]
    elif "dtype" not in operator.default_arguments:
        dtype = None
    else:
        dtype = dtype or operator.dtypes[0]
        arguments.pop("dtype", None)
    return Case(operator.name, _satisfying(operator, arguments, fixed), dtype, layout, "normal", seed)


def _satisfying(operator: Operator, wanted: dict[str, Any], fixed: frozenset[str]) -> dict[str, Any]:
    """The wanted sizes, with as few as possible changed so that ``where`` holds.

    Raises:
        CaseUnsatisfiable: no sizes near them do.
    """
    if operator.allows(wanted):
        return wanted
    free = [name for name in operator.dims if name not in fixed]
    literals = _literals(operator.where)
    for changed in range(1, len(free) + 1):
        for names in itertools.combinations(free, changed):
            candidates = [
                sorted({*_SMALL, *literals, *_others(wanted)}, key=lambda c: abs(c - _size(wanted[n]))) for n in names
            ]
            for values in itertools.islice(itertools.product(*candidates), 5_000):
                attempt = {**wanted, **dict(zip(names, values, strict=True))}
                if operator.allows(attempt):
                    return attempt
    raise CaseUnsatisfiable(
        f"{operator.name}: found no sizes that fulfil where={operator.where!r}", "name some with --case 'M=…,N=…'"
    )


def _literals(where: str | None) -> set[int]:
    """Whole numbers written in a constraint: the values it speaks of."""
    if where is None:
        return set()
    numbers = (node.value for node in ast.walk(ast.parse(where, mode="eval")) if isinstance(node, ast.Constant))
    return {number for number in numbers if isinstance(number, int) and not isinstance(number, bool) and number > 0}


def _others(wanted: Mapping[str, Any]) -> set[int]:
    return {value for value in wanted.values() if isinstance(value, int) and not isinstance(value, bool)}


def _size(value: Any) -> int:
    return value if isinstance(value, int) else 1


def _unique(cases: list[Case]) -> list[Case]:
    seen: dict[str, Case] = {}
    for case in cases:
        seen.setdefault(case.id, case)
    return list(seen.values())
