"""A bare kernel as an operator: called with example arguments, without a reference."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tilewright.errors import UsageError
from tilewright.spec.address import KernelCall
from tilewright.spec.operator import Operator
from tilewright.spec.space import LAUNCH_OPTIONS


def of_kernel(kernel: Any, call: KernelCall, namespace: Mapping[str, Any]) -> Operator:
    """An operator of a bare kernel called with example arguments; no reference, so values go unchecked.

    Raises:
        UsageError: the arguments or the grid cannot be evaluated, or do not fit the kernel.
    """
    names = {"torch": torch, "triton": sys.modules["triton"], **namespace}
    grid = _grid(call.grid, names)
    name = getattr(kernel, "__name__", getattr(getattr(kernel, "fn", None), "__name__", "kernel"))

    def example(seed: int = 0) -> dict[str, Any]:
        torch.manual_seed(seed)
        try:
            args, kwargs = eval(f"(lambda *a, **k: (a, k))({call.arguments})", names)
        except Exception as error:
            raise UsageError(f"--args {call.arguments!r}: {type(error).__name__}: {error}") from None
        return _fitting(kernel, name, args, kwargs)

    example()  # what does not fit is said at once
    return Operator(name=name, run=kernel, inputs=example, grid=grid)


def is_kernel(value: Any) -> bool:
    """True for what ``@triton.jit``, ``@triton.autotune`` and ``@triton.heuristics`` make."""
    return hasattr(value, "run") and hasattr(value, "fn") and not isinstance(value, Operator)


def _fitting(kernel: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Example arguments by the kernel's names for them."""
    parameters = inspect.signature(_python_function(kernel)).parameters
    takes = ", ".join(parameters)
    if len(args) > len(parameters):
        raise UsageError(f"--args gives {len(args)} arguments, {name} takes {takes}")
    for given in kwargs:
        if given not in parameters and given not in LAUNCH_OPTIONS:
            raise UsageError(f"--args gives {given}, {name} takes {takes}")
    found = {**dict(zip(parameters, args, strict=False)), **kwargs}
    missing = [n for n, p in parameters.items() if n not in found and p.default is p.empty]
    is_plain = inspect.isfunction(kernel.fn)  # an autotuner or heuristics give arguments too
    if missing and is_plain:
        raise UsageError(f"--args gives no {', '.join(missing)}, which {name} needs", f"it takes {takes}")
    return found


def _grid(text: str, names: dict[str, Any]) -> Any:
    try:
        grid = eval(text, names)
    except Exception as error:
        raise UsageError(f"--grid {text!r}: {type(error).__name__}: {error}") from None
    if callable(grid):
        return grid
    try:
        sizes = [operator.index(size) for size in grid]
    except TypeError:
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise UsageError(f"--grid {text!r} is no grid", "write one to three whole numbers: '(8,)'")
    return grid


def _python_function(kernel: Any) -> Callable[..., Any]:
    while not inspect.isfunction(kernel):
        kernel = kernel.fn
    return kernel
