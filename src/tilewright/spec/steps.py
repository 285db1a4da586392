"""How far results move when each step of a reference is a little off: what rounding on the way may do to them.

Where terms cancel whatever the inputs are (the gradient of a softmax over one element) disturbed inputs show
nothing, and no right kernel meets the zero that PyTorch's own order of steps happens to give.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from tilewright.spec.mode import Mode

_CANCELLED = 16.0
"""So many times its scale an element moves where what goes into it cancels."""
_USUAL = 2.0**-4
"""Of the root mean square of an output's moves: an element that moves less does so by chance."""


class _Disturbed(Mode):
    """Every operation that makes new tensors takes each of its operands a little off."""

    def __init__(self, amount: float, seed: int) -> None:
        super().__init__()
        self._amount = amount
        self._source = torch.Generator().manual_seed(seed)

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        schema = func._schema
        if all(argument.alias_info is None for argument in schema.arguments):
            args = tree_map(self._moved, args)
        return func(*args, **kwargs)

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.element_size() < 4:
            return value
        signs = torch.rand(value.shape, generator=self._source, dtype=torch.float64) * 2 - 1
        return value * (1 + self._amount * signs.to(value.device, value.dtype))


def later(
    call: Callable[[], tuple[Tensor, ...]], golden: tuple[Tensor, ...], amount: float, times: int
) -> list[Callable[[], Tensor]]:
    """For each golden result what tells its moves, found for all when first asked for."""
    found = functools.cache(lambda: _moves(call, golden, amount, times))
    return [lambda i=i: found()[i] for i in range(len(golden))]  # type: ignore[misc]


def _moves(
    call: Callable[[], tuple[Tensor, ...]], golden: tuple[Tensor, ...], amount: float, times: int
) -> tuple[Tensor, ...]:
    """By element of each golden result, the largest move over ``amount``; zero where the call fails so."""
    largest = [torch.zeros(g.shape, dtype=torch.float64, device=g.device) for g in golden]
    for seed in range(times):
        try:
            with sdpa_kernel(SDPBackend.MATH), _Disturbed(amount, seed):  # the others are one step in all
                results = call()
        except Exception:
            break  # a reference that cannot be looked into
        for index, (result, gold) in enumerate(zip(results, golden, strict=True)):
            if gold.is_floating_point() and result.shape == gold.shape:
                move = (result.detach().double() - gold.detach().double()).abs() / amount
                largest[index] = torch.maximum(largest[index], move.nan_to_num(0.0, 0.0, 0.0))
    return tuple(largest)


def room(moves: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """What rounding on the way is relative to; in 16 bits only where what goes into an element cancels."""
    if dtype.itemsize < 4:
        return torch.where(moves > _CANCELLED * scale, moves, 0.0)
    usual = _USUAL * float(moves.square().mean().sqrt())
    return torch.where(moves > 0, moves.clamp_min(usual), 0.0)  # what nothing moves is exact
