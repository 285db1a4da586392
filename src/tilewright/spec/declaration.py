"""Whether a declaration of an operator says what can be, and what its parts mean.

Checked when it is made, with a remedy for what cannot be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tilewright.errors import AnnotationError, TilewrightError, UnknownDim, UnknownParameter, UsageError
from tilewright.spec import contents
from tilewright.spec import dtypes as dtype_names
from tilewright.spec import values as value_classes
from tilewright.spec.shapes import Dim

if TYPE_CHECKING:
    from tilewright.spec.operator import Operator


def check_declaration(declared: Operator) -> None:
    for name in declared.dtypes:
        if not isinstance(name, str):
            raise AnnotationError(f"{declared.name}: dtypes= holds {name!r}", "write names such as 'bf16'")
        dtype_names.to_torch(name)
    if declared.is_bare_kernel and (declared.inputs is None or declared.grid is None):
        raise UsageError(f"{declared.name}: a bare kernel needs inputs= and grid=")
    if declared.signature is None:
        _check_positional(declared)
        return
    parameters = [p.name for p in declared.signature.parameters]
    for option in ("values", "mutates", "grad"):
        for name in getattr(declared, option):
            if name not in parameters:
                raise UnknownParameter(
                    f"{declared.name}: {option}= names {name!r}", f"its parameters: {', '.join(parameters)}"
                )
    tensors = [p.name for p in declared.signature.tensors]
    for name in (*declared.mutates, *declared.grad):
        if name not in tensors:
            raise UnknownParameter(f"{declared.name}: {name} is no tensor", f"its tensors: {', '.join(tensors)}")
    for name, given in declared.values.items():
        if isinstance(given, str) and name in tensors:
            contents.check(given)
    for parameter in declared.signature.parameters:
        has_values = parameter.has_default or parameter.literals or parameter.name in declared.values
        if parameter.role in ("input", "option") and not has_values:
            raise AnnotationError(
                f"{declared.name}({parameter.name}): an {parameter.role} without default",
                f"give its values, for example values={{{parameter.name!r}: [1, 2]}}",
            )
    for place, names in _dims_named(declared):
        for name in names:
            if name not in {*declared.dims, *declared.choices}:
                raise UnknownDim(f"{declared.name}: {place} names {name}", f"its dims: {', '.join(declared.dims)}")


def _check_positional(declared: Operator) -> None:
    """mutates= and grad= against the parameters of a launcher that is not annotated."""
    parameters = launcher_parameters(declared.run)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return
    names = [p.name for p in parameters]
    for option in ("mutates", "grad"):
        for name in getattr(declared, option):
            if name not in names:
                raise UnknownParameter(
                    f"{declared.name}: {option}= names {name!r}", f"its parameters: {', '.join(names)}"
                )


def launcher_parameters(run: Any) -> list[inspect.Parameter]:
    """Parameters of a launcher, or of the kernel itself below Triton's decorators."""
    while not inspect.isfunction(run) and hasattr(run, "fn"):
        run = run.fn
    try:
        return list(inspect.signature(run).parameters.values())
    except (TypeError, ValueError):
        return []


def _dims_named(declared: Operator) -> Iterator[tuple[str, Sequence[str]]]:
    """Each part of a declaration that speaks of dims, and those that it names."""
    if declared.where is not None:
        try:
            yield f"where={declared.where!r}", Dim(declared.where).symbols
        except SyntaxError:
            raise UsageError(f"{declared.name}: where={declared.where!r} is no Python expression") from None
    for label, sizes in declared.shapes.items():
        yield f"shapes[{label!r}]", [name for name in sizes if name != "dtype"]
    for parameter, make in declared.values.items():
        yield f"values[{parameter!r}]", value_classes.symbols(make)
    if declared.flops is not None:
        named = [p for p in inspect.signature(declared.flops).parameters.values() if p.kind is not p.VAR_KEYWORD]
        yield "flops=", [p.name for p in named if p.default is p.empty]


# ------------------------------------------------------------------------------- what a declaration's parts mean


def made(make: Callable[..., Any], request: value_classes.Request, name: str) -> torch.Tensor:
    """What a value class makes; whatever it raises is the declaration's fault."""
    try:
        made = make(request)
    except TilewrightError:
        raise
    except Exception as error:
        raise UsageError(
            f"values[{name!r}] raised {type(error).__name__}: {error}",
            "it is called with one request, which has shape, dtype, sizes and generator",
        ) from error
    if not isinstance(made, torch.Tensor):
        raise UsageError(f"values[{name!r}] made {type(made).__name__}, not a tensor")
    return made


def short_dtypes(given: Any) -> tuple[str, ...]:
    each = (given,) if isinstance(given, (str, torch.dtype)) else tuple(given)
    return tuple(dtype_names.short(one) if isinstance(one, torch.dtype) else one for one in each)


def names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def as_options(given: Any) -> tuple[Any, ...]:
    if isinstance(given, value_classes.choice):
        return given.options
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


def is_size(parameter: inspect.Parameter) -> bool:
    is_int = isinstance(parameter.default, int) and not isinstance(parameter.default, bool)
    return is_int and parameter.name != "seed"


def call_with_known(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return function(**arguments)
    missing = [n for n, p in parameters.items() if n not in arguments and p.default is p.empty]
    if missing:
        raise UnknownDim(
            f"flops= takes {', '.join(missing)}, which the case does not have", f"it has {', '.join(arguments)}"
        )
    return function(**{name: arguments[name] for name in parameters if name in arguments})
