"""One step from a case to simpler ones: what is simpler of sizes, of parameters, of layout, dtype and values."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilewright.records import Case
from tilewright.spec.operator import Operator

_NONE = inspect.Parameter.empty


def cases(operator: Operator, case: Case, *, largest_first: bool = True) -> Iterator[Case]:
    """Cases one step simpler, the boldest steps first; each is simpler for good, so that steps come to an end."""
    yield from _of_another_kind(operator, case)
    for arguments in _steps(operator, case, largest_first):
        if operator.allows(arguments):
            yield replace(case, arguments=arguments)


def cost(operator: Operator, case: Case) -> tuple[int, int]:
    """How far a case is from the simplest: what is special about it, then the sum of its sizes."""
    defaults = _defaults(operator)
    special = [case.layout != "contiguous", case.values != "normal", case.seed != 0]
    special += [defaults[n] != v for n, v in case.arguments.items() if n in defaults and not _is_int(v)]
    special += [n not in (operator.argument_names or case.arguments) for n in case.arguments]
    total = sum(map(abs, sizes(operator, case).values()))
    total += sum(len(v) + sum(map(abs, v)) for v in case.arguments.values() if _is_int_tuple(v))
    return sum(special) + _rank(operator, case.dtype), total


def sizes(operator: Operator, case: Case) -> dict[str, int]:
    """The sizes that a case names, but for those that are tuples."""
    return {name: case.arguments[name] for name in operator.dims if _is_int(case.arguments.get(name))}


def _of_another_kind(operator: Operator, case: Case) -> Iterator[Case]:
    if case.layout != "contiguous":
        yield replace(case, layout="contiguous")
    if case.values != "normal":
        yield replace(case, values="normal")
    if case.dtype is not None:
        for dtype in (*operator.dtypes[:1], "fp32"):
            if dtype in operator.dtypes and _rank(operator, dtype) < _rank(operator, case.dtype):
                yield replace(case, dtype=dtype)
    if case.seed != 0:
        yield replace(case, seed=0)


def _rank(operator: Operator, dtype: str | None) -> int:
    """The dtype that is declared first is the simplest, then float32."""
    if dtype is None or dtype == operator.dtypes[0]:
        return 0
    return 1 if dtype == "fp32" else 2


def _steps(operator: Operator, case: Case, largest_first: bool) -> Iterator[dict[str, Any]]:
    """Arguments one step simpler."""
    given, known = dict(case.arguments), operator.argument_names
    own = sizes(operator, case)
    if known is not None and any(name not in known for name in given):
        yield {name: value for name, value in given.items() if name in known}  # the default configuration
    for size in (1, 2):
        if sum(value > size for value in own.values()) > 1:
            yield given | {name: size for name, value in own.items() if value > size}
    for name, value in _others(operator, given).items():
        yield from ({**given, name: simple} for simple in _simpler(value, _defaults(operator).get(name, _NONE)))
    order = sorted(own, key=lambda name: -own[name] if largest_first else own[name])
    for name in order:
        yield from ({**given, name: smaller} for smaller in _smaller(operator, name, own[name]))
    for value in sorted({v for v in own.values() if list(own.values()).count(v) > 1}, reverse=True):
        together = [name for name in order if own[name] == value]  # where= may hold them equal
        yield from (given | dict.fromkeys(together, smaller) for smaller in _smaller_sizes(value))
    for name in operator.signature.variadic if operator.signature else ():
        if _is_int_tuple(given.get(name)):
            yield from ({**given, name: shorter} for shorter in _shorter(given[name], _smaller_sizes, least=0))


def _others(operator: Operator, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are neither sizes nor of a configuration."""
    known = operator.argument_names or tuple(given)
    variadic = operator.signature.variadic if operator.signature else ()
    named = {name: value for name, value in given.items() if name in known and name not in variadic}
    return {n: v for n, v in named.items() if n not in operator.dims or not _is_int(v)}


def _defaults(operator: Operator) -> dict[str, Any]:
    """Values that parameters and options have where a case says nothing."""
    return {**{name: options[0] for name, options in operator.choices.items()}, **operator.default_arguments}


def _simpler(value: Any, default: Any) -> Iterator[Any]:
    """What is simpler than a value that is no size: its default; of whole numbers, fewer and smaller ones."""
    if default is not _NONE and not _is_int_tuple(value) and _differ(value, default):
        yield default
    if _is_int(value):
        yield from _nearer(value, default if _is_int(default) else 0)
    elif _is_int_tuple(value):
        yield from _shorter(value, lambda number: _nearer(number, 0), least=1)


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or one != other


def _smaller(operator: Operator, name: str, size: int) -> Iterator[int]:
    """Simpler values of a whole number that a case chooses: smaller sizes, or nearer to a default that is no size."""
    default = operator.default_arguments.get(name, 1)
    return _smaller_sizes(size) if default > 0 else iter(_nearer(size, default))


def _smaller_sizes(size: int) -> Iterator[int]:
    """Smaller sizes, smallest first: small ones, those beside powers of two, and those a power of two below.

    Nothing and less is stranger than one element, so those sizes are last to stay.
    """
    if size < 1:
        yield from (1, 2)
        return
    powers = [1 << i for i in range(size.bit_length())]
    tried = {1, 2, 3, size // 4, size // 2, size - 1}
    tried.update(n for p in powers for n in (p - 1, p, p + 1, size - p))
    yield from sorted(n for n in tried if 0 < n < size)


def _nearer(value: int, default: int) -> Iterable[int]:
    """Whole numbers nearer to a default, nearest first."""
    distance, sign = abs(value - default), 1 if value > default else -1
    return [default + sign * step for step in (0, *_smaller_sizes(distance))] if distance else []


def _shorter(values: Any, simpler: Any, least: int) -> Iterator[Any]:
    """Parts of a tuple, the shortest first; then the tuple with one element simpler."""
    make, count = type(values), len(values)
    parts: list[Any] = [make()] if least == 0 and count else []
    if count > 1:
        parts += [make((value,)) for value in values]
        parts += [values[: count // 2], values[count // 2 :]]
        parts += [values[:i] + values[i + 1 :] for i in range(count)]
    yield from (part for i, part in enumerate(parts) if part not in parts[:i])
    for i, value in enumerate(values):
        yield from (values[:i] + make((number,)) + values[i + 1 :] for number in simpler(value))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int_tuple(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) > 0 and all(map(_is_int, value))
