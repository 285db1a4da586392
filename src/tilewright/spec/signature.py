"""What a launcher's annotated signature declares: tensors, inputs, meta-parameters, options, results."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jaxtyping
import torch

from tilewright.errors import AnnotationError, UnknownParameter
from tilewright.spec.shapes import TensorSpec, is_tensor_annotation, read_returns, read_tensor
from tilewright.spec.space import LAUNCH_OPTIONS, Space

Role = Literal["tensor", "input", "meta", "option"]
_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """One parameter of a launcher and what it is for."""

    name: str
    role: Role
    positional: bool
    tensor: TensorSpec | None = None
    default: Any = _REQUIRED
    literals: tuple[Any, ...] = ()  # values of a Literal[...] annotation

    @property
    def has_default(self) -> bool:
        return self.default is not _REQUIRED


@dataclass(frozen=True)
class Signature:
    """A launcher's parameters and results; ``returns`` is None where nothing was annotated."""

    parameters: tuple[Parameter, ...]
    returns: tuple[TensorSpec | None, ...] | None

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.role == "tensor")

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of all dims, in the order they are first written."""
        return tuple(dict.fromkeys(s for p in self.tensors if p.tensor for s in p.tensor.symbols))

    @property
    def variadic(self) -> frozenset[str]:
        """Names written ``*name``: their size is a tuple."""
        return frozenset(d.expression for p in self.tensors if p.tensor for d in p.tensor.dims if d.variadic)

    def __getitem__(self, name: str) -> Parameter:
        return next(p for p in self.parameters if p.name == name)


def read(launcher: Callable[..., Any], space: Space | None) -> Signature:
    """Reads a launcher's signature; keyword-only names found in ``space`` are meta-parameters.

    Raises:
        AnnotationError: a parameter without annotation or default, or an annotation we cannot read.
        UnknownParameter: the space names a parameter the launcher does not take.
    """
    name = getattr(launcher, "__name__", "launcher")
    hints = _hints(launcher, name)
    parameters = tuple(_read_parameter(p, hints, space, name) for p in inspect.signature(launcher).parameters.values())
    roles = {p.name: p.role for p in parameters}
    for meta in space.parameters if space else ():
        if roles.get(meta, "meta") != "meta":
            raise UnknownParameter(
                f"{name}: the space varies {meta}, which is not keyword-only", f"write it behind `*`: `*, {meta}`"
            )
        if meta not in roles:
            raise UnknownParameter(
                f"{name}: the space varies {meta}, which the launcher does not take",
                f"add `*, {meta}` to its signature and pass it to the kernel",
            )
    return Signature(parameters, read_returns(hints.get("return", Any), f"{name}'s result"))


def _hints(launcher: Callable[..., Any], name: str) -> dict[str, Any]:
    # String annotations are resolved where the launcher was written; jaxtyping's own names always work.
    names = {**vars(jaxtyping), "Tensor": torch.Tensor, **getattr(inspect.unwrap(launcher), "__globals__", {})}
    try:
        return typing.get_type_hints(launcher, globalns=names)
    except Exception as error:
        raise AnnotationError(f"{name}: an annotation cannot be resolved: {error}") from None


def _read_parameter(
    parameter: inspect.Parameter, hints: dict[str, Any], space: Space | None, launcher: str
) -> Parameter:
    name, annotation = parameter.name, hints.get(parameter.name)
    where = f"{launcher}({name})"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise AnnotationError(
            f"{where}: *args and **kwargs say nothing of what a case must hold", "name the parameters"
        )
    positional = parameter.kind is not parameter.KEYWORD_ONLY
    if annotation is not None and is_tensor_annotation(annotation):
        return Parameter(name, "tensor", positional, read_tensor(annotation, where), parameter.default)
    if not positional and ((space is not None and name in space) or name in LAUNCH_OPTIONS):
        return Parameter(name, "meta", positional, None, parameter.default)
    if annotation is None and parameter.default is _REQUIRED:
        raise AnnotationError(
            f"{where}: no annotation", f'write for example {name}: Float[Tensor, "M N"], or {name}: int'
        )
    literals = typing.get_args(annotation) if typing.get_origin(annotation) is Literal else ()
    return Parameter(name, "input" if positional else "option", positional, None, parameter.default, literals)
