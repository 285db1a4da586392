"""Cases by what names them: sizes and options that a user asks for, or that a planner wants, as a whole case."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewright.debug.planning import parameters
from tilewright.errors import CaseUnsatisfiable, UsageError
from tilewright.records import Case
from tilewright.spec import contents
from tilewright.spec.operator import Operator
from tilewright.spec.virtual import is_huge

_SMALL = (2, 3, 1, 4, 8, 16)
_UNSAID = ("fp32",)
_MODEST = 1 << 18  # elements of all inputs of a case that others are made from
_LEAST_HALVED, _MOST_HALVINGS = 32, 12


def first_case(operator: Operator, seed: int = 0) -> Case:
    """The case that others vary: the defaults of ``inputs``, or small sizes that fulfil the declaration."""
    sizes = {} if operator.signature is None else dict.fromkeys(operator.dims, 16)
    return made(operator, sizes, seed=seed)


def modest_case(operator: Operator, first: Case) -> Case:
    """The first case, or where its author wrote large defaults the same with all sizes halved until it is small."""
    case = first
    for _ in range(_MOST_HALVINGS):
        try:
            inputs = operator.make_inputs(case, drawn=False)
        except Exception:
            return first  # smaller ones are refused
        if is_huge(inputs) or sum(tensor.numel() for tensor in inputs.tensors.values()) <= _MODEST:
            return case
        sizes = {dim: case.arguments.get(dim) for dim in operator.dims}
        halved = {dim: size // 2 for dim, size in sizes.items() if isinstance(size, int) and size > _LEAST_HALVED}
        if operator.signature is not None or not halved or not operator.allows({**case.arguments, **halved}):
            return first
        arguments = parameters.related({**case.arguments, **halved}, operator.default_arguments)
        case = replace(first, arguments=arguments)
    return case


def explicit(operator: Operator, arguments: Mapping[str, Any], seed: int = 0) -> Case:
    """The case a user asks for by sizes and options; what is not named takes a small default."""
    given = dict(arguments)
    _check_sizes(operator, given)
    dtype = given.pop("dtype", None)
    layout, values = given.pop("layout", "contiguous"), given.pop("values", "normal")
    contents.check(values)
    seed = given.pop("seed", seed)
    if operator.signature is None:
        return Case(operator.name, given, dtype, layout, values, seed)
    base = made(operator, dict.fromkeys(operator.dims, 16) | given, fixed=frozenset(given)).arguments
    return Case(operator.name, {**base, **given}, dtype or operator.dtypes[0], layout, values, seed)


def _check_sizes(operator: Operator, given: Mapping[str, Any]) -> None:
    if operator.signature is None:
        return  # what the parameters of inputs() mean only it knows
    for name in operator.dims:
        size = given.get(name, 0)
        for part in size if isinstance(size, (tuple, list)) else (size,):
            if isinstance(part, bool) or not isinstance(part, int) or part < 0:
                raise UsageError(f"{name}={size!r} is no size of {operator.name}", "give a whole number, 0 or more")


def made(
    operator: Operator,
    wanted: Mapping[str, Any],
    *,
    dtype: str | None = None,
    layout: str = "contiguous",
    values: str = "normal",
    seed: int = 0,
    fixed: frozenset[str] = frozenset(),
) -> Case:
    """A whole case around some sizes and options; as few of those that are not ``fixed`` as possible are changed
    so that ``where`` holds.

    Raises:
        CaseUnsatisfiable: no sizes near them do.
    """
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
        # Where the declaration says no dtypes, the first is what inputs() takes by default.
        dtype = dtype or (None if operator.dtypes == _UNSAID else operator.dtypes[0])
        arguments.pop("dtype", None)
    return Case(operator.name, _satisfying(operator, arguments, fixed), dtype, layout, values, seed)


def _satisfying(operator: Operator, wanted: dict[str, Any], fixed: frozenset[str]) -> dict[str, Any]:
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
