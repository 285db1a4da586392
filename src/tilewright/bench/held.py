"""One side of a plan: a function on the plan's memory, and what it gave last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tilewright.spec import golden
from tilewright.spec.inputs import Inputs

Side = Callable[[Inputs], Any]
"""Runs one side on the inputs it is given."""


class Held:
    """Calls a side on memory that is its own for the time of a call.

    What it returns is held until :meth:`drop`. An error is held too: one that is raised inside a timer's window would
    leave the timer behind in an unknown state.

    Args:
        mutates: arguments that the side is meant to change; empty for a baseline, which may return new values instead.
    """

    def __init__(self, side: Side, memory: Inputs, mutates: tuple[str, ...] = ()) -> None:
        self.side, self.memory = side, memory
        self.mutates = tuple(name for name in mutates if name in memory.tensors)
        self.result: Any = None
        self.error: Exception | None = None
        self.is_replayed = False  # a graph writes to the same outputs each time: they are not to be let go

    def __call__(self) -> None:
        try:
            self.result = self.side(self.memory)
        except Exception as error:
            self.error = error

    def drop(self) -> None:
        if not self.is_replayed:
            self.result = None

    def outputs(self, expected: int) -> tuple[Tensor, ...] | None:
        """What was returned and, of arguments it is meant to change, what they became; None where it is no tensors."""
        returned = golden.as_tensors(self.result)
        if returned is None:
            return None
        mutated = tuple(self.memory.tensors[name] for name in self.mutates)
        return golden.own_outputs(returned, mutated, expected - len(mutated)) + mutated


def in_memory(tensor: Tensor) -> Tensor | None:
    """What a tensor's memory holds, whatever its class makes of it; None where it has no memory.

    A subclass may compute its values when they are first asked for.
    """
    if type(tensor) in (Tensor, torch.nn.Parameter):
        return tensor
    with torch._C.DisableTorchFunctionSubclass():
        try:
            if tensor.numel() and not tensor.untyped_storage().data_ptr():
                return None
            return tensor.as_subclass(Tensor)
        except RuntimeError:
            return None
