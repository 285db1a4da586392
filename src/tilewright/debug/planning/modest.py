"""A launcher is asked for its launches at sizes that nobody has memory for: it must not take it on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from tilewright.spec.mode import Mode
from tilewright.spec.poison import ALLOCATIONS


class TooLarge(Exception):
    """A large tensor was computed, or written as a whole."""


class AtMost(Mode):
    """Ends a call whose operations would compute, or write to, a tensor of so many elements.

    Raises:
        TooLarge: one would.
    """

    def __init__(self, elements: int) -> None:
        super().__init__()
        self.elements = elements

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        schema = func._schema
        name = schema.name.removeprefix("aten::")
        computes = schema.is_mutable or all(entry.alias_info is None for entry in schema.returns)
        if name in ALLOCATIONS or not computes:
            return func(*args, **kwargs)
        if _result_of(name, args) >= self.elements:
            raise TooLarge
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.numel() >= self.elements:
            raise TooLarge
        return result


def _result_of(name: str, args: tuple[Any, ...]) -> int:
    """How many elements an operation makes, as far as its arguments say: it is not asked once it is too late."""
    tensors = [argument for argument in args if isinstance(argument, Tensor)]
    if name in _PRODUCTS and len(tensors) >= 2:
        one, other = tensors[-2:]
        return math.prod(one.shape[:-1]) * (other.shape[-1] if other.dim() > 1 else 1)
    if not tensors:
        sizes = next((argument for argument in args if isinstance(argument, (list, tuple))), ())
        return math.prod(size for size in sizes if isinstance(size, int)) if sizes else 0
    rank = max(tensor.dim() for tensor in tensors)
    shapes = [(1,) * (rank - tensor.dim()) + tuple(tensor.shape) for tensor in tensors]
    return math.prod(map(max, zip(*shapes, strict=True))) if name in _POINTWISE or name.rstrip("_") in _POINTWISE else 0


_PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm"))
_POINTWISE = frozenset(
    ("add", "sub", "mul", "div", "where", "maximum", "minimum", "pow", "remainder", "masked_fill")
    + ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "bitwise_and", "bitwise_or")
)
