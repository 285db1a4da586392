"""Value classes of inputs: what an author says of a tensor's contents beyond its shape and dtype.

A value class is a callable ``(request) -> Tensor``; a user's own function does as well::

    def increasing(request):  # values={"position": increasing}
        return torch.arange(request.shape[0]).to(request.dtype)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilewright.errors import UnknownDim
from tilewright.spec.shapes import Dim, evaluate


@dataclass(frozen=True)
class Request:
    """What a value class is asked for: a tensor of this ``shape`` and ``dtype``, on the CPU.

    ``sizes`` are the dims of the case by name, for classes that depend on another dim; ``generator`` is
    seeded by the case and the tensor's name: what draws from it is the same each time.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    sizes: Mapping[str, Any]
    generator: torch.Generator


Values = Callable[[Request], Tensor]


@dataclass(frozen=True)
class normal:
    """Normally distributed, rounded to the tensor's dtype."""

    mean: float = 0.0
    std: float = 1.0

    def __call__(self, request: Request) -> Tensor:
        sample = torch.randn(request.shape, generator=request.generator, dtype=torch.float32)
        return (sample * self.std + self.mean).to(request.dtype)


@dataclass(frozen=True)
class uniform:
    """Uniform in [low, high)."""

    low: float = 0.0
    high: float = 1.0

    def __call__(self, request: Request) -> Tensor:
        sample = torch.rand(request.shape, generator=request.generator, dtype=torch.float32)
        return (sample * (self.high - self.low) + self.low).to(request.dtype)


@dataclass(frozen=True)
class integers:
    """Whole numbers in [low, high); ``high`` may be an expression over dims, such as ``"V"``."""

    low: int = 0
    high: int | str = 100

    def __call__(self, request: Request) -> Tensor:
        high = dim_value(self.high, request.sizes)
        sample = torch.randint(self.low, max(high, self.low + 1), request.shape, generator=request.generator)
        return sample.to(request.dtype)


def indices(dim: str) -> integers:
    """Valid indices into a dim of that name: whole numbers in [0, dim)."""
    return integers(0, dim)


@dataclass(frozen=True)
class offsets:
    """Cumulative offsets of ragged segments (``cu_seqlens``): rising from 0 to the size of ``dim``.

    Segments differ in length; with more than two of them one is empty.
    """

    dim: str

    def __call__(self, request: Request) -> Tensor:
        total = dim_value(self.dim, request.sizes)
        cuts = request.shape[0] - 2
        inner = torch.randint(0, total + 1, (max(cuts, 0),), generator=request.generator)
        if cuts >= 2:
            inner[1] = inner[0]
        ends = [torch.zeros(1, dtype=torch.int64), inner.sort().values, torch.full((1,), total)]
        return torch.cat(ends)[: request.shape[0]].to(request.dtype)


@dataclass(frozen=True)
class mask:
    """True with the given probability."""

    probability: float = 0.5

    def __call__(self, request: Request) -> Tensor:
        return (torch.rand(request.shape, generator=request.generator) < self.probability).to(request.dtype)


@dataclass(frozen=True)
class constant:
    """One value everywhere."""

    value: float

    def __call__(self, request: Request) -> Tensor:
        return torch.full(request.shape, self.value).to(request.dtype)


@dataclass(frozen=True)
class choice:
    """For an input that is no tensor: cases take each of these values."""

    options: tuple[Any, ...]

    def __init__(self, *options: Any) -> None:
        object.__setattr__(self, "options", options)


def default_for(dtype: torch.dtype) -> Values:
    """What a tensor holds when the declaration says nothing."""
    if dtype == torch.bool:
        return mask()
    if dtype.is_floating_point:
        return normal()
    return integers(-100, 100) if dtype.is_signed else integers(0, 100)


def dim_value(expression: int | str, sizes: Mapping[str, Any]) -> int:
    """The value of a number or of an expression over dims."""
    if isinstance(expression, int):
        return expression
    try:
        return int(evaluate(expression, sizes))
    except NameError as error:
        raise UnknownDim(f"values over {expression!r}: {error}", f"it may use {', '.join(sizes)}") from None


def symbols(make: Any) -> tuple[str, ...]:
    """Names of the dims that a value class looks at; none for a word, or a user's own function, which is not asked."""
    expression = make.dim if isinstance(make, offsets) else make.high if isinstance(make, integers) else 0
    return Dim(expression).symbols if isinstance(expression, str) else ()
