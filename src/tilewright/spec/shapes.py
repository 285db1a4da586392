"""Dims and dtypes read from jaxtyping annotations: ``Float[Tensor, "B K+1 *rest"]``.

The annotation is the declaration; this file turns it into plain data and evaluates it for a case.
"""

from __future__ import annotations

import ast
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tilewright.errors import AnnotationError, UnknownDim, UsageError
from tilewright.spec import dtypes

# What a family of dtypes means when a case must pick one; "float" takes the case's shared dtype.
_FAMILIES = {"bool": "bool", "Bool": "bool", "Int": "int64", "Integer": "int64", "UInt": "uint8"}
_SHARED = ("Float", "Inexact", "Num", "Real", "Shaped")
FUNCTIONS = {"min": min, "max": max, "abs": abs}
"""What expressions over dims may call."""


@dataclass(frozen=True)
class Dim:
    """One dim of an annotation: a name (``M``), a number (``3``), an expression (``K+1``), or ``*name``."""

    expression: str
    variadic: bool = False

    @property
    def symbols(self) -> tuple[str, ...]:
        tree = ast.parse(self.expression, mode="eval")
        names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        return tuple(name for name in names if name not in FUNCTIONS)

    def sizes(self, dims: Mapping[str, Any]) -> tuple[int, ...]:
        """The sizes this dim stands for, given a value for each symbol (a tuple for ``*name``)."""
        try:
            if self.variadic:
                given = dims[self.expression]
                return tuple(int(size) for size in (given if isinstance(given, (tuple, list)) else (given,)))
            return (int(evaluate(self.expression, dims)),)
        except (NameError, KeyError) as error:
            raise UnknownDim(f"dim {self.expression!r}: {error}") from None
        except (TypeError, ValueError):
            given = ", ".join(f"{name}={dims[name]!r}" for name in self.symbols)
            raise UsageError(f"dim {self.expression!r} is no size with {given}", "give whole numbers") from None


def evaluate(expression: str, dims: Mapping[str, Any]) -> Any:
    """The value of an expression over dims; it sees nothing else, but may call FUNCTIONS."""
    return eval(expression, {"__builtins__": {}, **FUNCTIONS}, dict(dims))


@dataclass(frozen=True)
class TensorSpec:
    """A tensor parameter or result: its dims, and a dtype (None: the dtype a case's floats share)."""

    dims: tuple[Dim, ...]
    dtype: str | None
    optional: bool = False
    family: str = field(default="Float", compare=False)
    admitted: tuple[str, ...] = field(default=(), compare=False)  # dtypes of the family by torch's names; () for any

    def shape(self, sizes: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(size for dim in self.dims for size in dim.sizes(sizes))

    def axis(self, dim: str) -> int | None:
        """Where a dim stands in a tensor of several, each of them one axis; None where it does not."""
        written = [d.expression for d in self.dims]
        several = len(written) > 1 and not any(d.variadic for d in self.dims)
        return written.index(dim) if several and dim in written else None

    def fits(self, shape: tuple[int, ...], sizes: Mapping[str, Any]) -> bool:
        """Whether a result has this shape; a dim that no input has the name of may have any size."""
        wanted: list[int | None] = []
        for dim in self.dims:
            if all(symbol in sizes for symbol in dim.symbols):
                wanted += dim.sizes(sizes)
            elif dim.variadic:
                return True
            else:
                wanted.append(None)
        return len(shape) == len(wanted) and all(w in (None, size) for w, size in zip(wanted, shape, strict=True))

    def admits(self, dtype: torch.dtype) -> bool:
        """Whether a result of this dtype is what the annotation says."""
        if self.dtype is not None:
            return dtype == dtypes.to_torch(self.dtype)
        return not self.admitted or str(dtype).removeprefix("torch.") in self.admitted

    def torch_dtype(self, shared: str | None) -> torch.dtype:
        return dtypes.to_torch(self.dtype or shared or "fp32")

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s for dim in self.dims for s in dim.symbols))

    def __str__(self) -> str:
        dims = " ".join(("*" if dim.variadic else "") + dim.expression for dim in self.dims)
        return f"{self.dtype or self.family}[{dims}]"


def is_tensor_annotation(annotation: Any) -> bool:
    """True for jaxtyping's array annotations, a bare Tensor, and either of them ``| None``."""
    return (
        annotation is Tensor
        or hasattr(_without_none(annotation)[0], "dim_str")
        or _without_none(annotation)[0] is Tensor
    )


def read_tensor(annotation: Any, where: str) -> TensorSpec:
    """The TensorSpec of an annotation. ``where`` names the parameter, for the error.

    Raises:
        AnnotationError: a bare Tensor, anonymous dims, broadcast dims, or a dtype we cannot draw.
    """
    inner, optional = _without_none(annotation)
    if not hasattr(inner, "dim_str"):
        raise AnnotationError(
            f"{where}: annotation {_name(annotation)} does not say the dims",
            'write them, for example Float[Tensor, "M N"] (from jaxtyping import Float)',
        )
    dims = tuple(_read_dim(word, where) for word in str(inner.dim_str).split())
    admitted = inner.dtypes if isinstance(inner.dtypes, (tuple, list)) else ()
    return TensorSpec(dims, _read_dtype(inner, where), optional, _family(inner), tuple(admitted))


def read_returns(annotation: Any, where: str) -> tuple[TensorSpec | None, ...] | None:
    """Specs of a launcher's results; None where the annotation is missing."""
    if annotation is None or annotation is type(None):
        return ()
    if annotation is Any:
        return None
    if typing.get_origin(annotation) is tuple:
        return tuple(_read_result(part, where) for part in typing.get_args(annotation))
    return (_read_result(annotation, where),)


def _read_result(annotation: Any, where: str) -> TensorSpec | None:
    inner, _ = _without_none(annotation)
    if inner is Tensor:
        return None
    spec = read_tensor(annotation, where)
    # A family such as Int says which dtype to draw, but promises none of a result.
    return replace(spec, dtype=None) if _family(inner) in ("Int", "Integer", "UInt") else spec


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not type(None)]
        if len(parts) == 1:
            return parts[0], True
    return annotation, False


def _read_dim(word: str, where: str) -> Dim:
    text = word.partition("=")[2] if "=" in word else word  # "rows=4" names a fixed size for the reader
    variadic = text.startswith("*")
    text = text.removeprefix("*")
    if text.startswith(("#", "?", "_", "{")) or "..." in text:
        raise AnnotationError(
            f"{where}: dim {word!r} has no size to choose", "give each dim a name, a number or an expression"
        )
    dim = Dim(text, variadic)
    try:
        names = dim.symbols
    except SyntaxError:
        raise AnnotationError(f"{where}: dim {word!r} is no Python expression") from None
    if variadic and names != (text,):
        raise AnnotationError(f"{where}: dim {word!r}: after * comes one name")
    return dim


def _read_dtype(annotation: Any, where: str) -> str | None:
    """The short dtype an annotation fixes, or None where it takes the case's shared one."""
    name = _family(annotation)
    if name in _SHARED:
        return None
    if name in _FAMILIES:
        return _FAMILIES[name]
    choices = annotation.dtypes
    if len(choices) == 1 and hasattr(torch, choices[0]):
        return dtypes.short(getattr(torch, choices[0]))
    raise AnnotationError(
        f"{where}: cannot draw values of dtype {name}", "use Float, Int, UInt, Bool or one exact dtype"
    )


def _family(annotation: Any) -> str:
    """``Float`` of ``Float[Tensor, "M N"]``."""
    return re.split(r"\W", str(annotation.__name__), maxsplit=1)[0]


def _name(annotation: Any) -> str:
    return getattr(annotation, "__name__", str(annotation))
