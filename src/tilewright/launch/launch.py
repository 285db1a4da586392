"""One kernel launch caught in flight, as data."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.errors import LauncherFailed
from tilewright.records import Config
from tilewright.spec import dtypes


@dataclass(frozen=True)
class Tuning:
    """How an ``@triton.autotune`` kernel comes to its configuration.

    ``configs`` are those its own pruning leaves of the ``offered`` ones; ``key`` holds the arguments that its ``key=`` names and the call
    gives, ``dtypes`` those of all tensors, which Triton adds to the key. With ``rehearses`` the launch stands for
    those of the tuner's benchmark.
    """

    tuner: Any
    offered: int
    configs: tuple[Config, ...]
    key: Mapping[str, Any]
    dtypes: tuple[str, ...]
    rehearses: bool = False

    @property
    def cached_by(self) -> tuple[Any, ...]:
        """What the tuner's cache is asked for; a tensor in it is itself alone."""
        values = (id(v) if isinstance(v, torch.Tensor) else v for v in self.key.values())
        return (id(self.tuner), *values, *self.dtypes)


@dataclass(frozen=True)
class Launch:
    """A kernel with everything it was launched with.

    ``kernel`` is Triton's own object (a ``JITFunction``, or an ``InterpretedFunction`` where this process
    interprets). ``arguments`` holds all parameters by name, defaults applied, constexprs included;
    ``options`` what is for the compiler (``num_warps`` and its like); ``grid`` always has three sizes.
    ``config`` and ``tuning`` are set where ``@triton.autotune`` made this launch.
    """

    kernel: Any
    arguments: Mapping[str, Any]
    grid: tuple[int, int, int]
    options: Mapping[str, Any]
    config: Config | None = None
    tuning: Tuning | None = None

    @property
    def name(self) -> str:
        return str(python_function(self.kernel).__name__)

    @property
    def programs(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def constexprs(self) -> dict[str, Any]:
        return {name: self.arguments[name] for name in constexpr_names(self.kernel)}

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Tensors the kernel gets, by parameter; a descriptor's base under the descriptor's name."""
        found = {}
        for name, value in self.arguments.items():
            base = getattr(value, "base", value)
            if isinstance(base, torch.Tensor):
                found[name] = base
        return found

    def describe(self) -> dict[str, Any]:
        """JSON-ready words: for reports, logs and hashes."""
        return {
            "kernel": self.name,
            "grid": list(self.grid),
            "arguments": {name: describe_value(value) for name, value in self.arguments.items()},
            "options": {name: describe_value(value) for name, value in self.options.items()},
        }


def describe_value(value: Any) -> Any:
    """A tensor as ``bf16[128,64]``, anything else as itself or its text."""
    if isinstance(value, torch.Tensor):
        return f"{dtypes.short(value.dtype)}[{','.join(map(str, value.shape))}]"
    return value if isinstance(value, (bool, int, float, str)) or value is None else repr(value)


def python_function(kernel: Any) -> Callable[..., Any]:
    """The Python function below Triton's decorators."""
    while not inspect.isfunction(kernel):
        kernel = kernel.fn
    return kernel


def constexpr_names(kernel: Any) -> tuple[str, ...]:
    """Parameters annotated ``tl.constexpr``."""
    parameters = inspect.signature(python_function(kernel)).parameters
    return tuple(name for name, p in parameters.items() if "constexpr" in str(p.annotation))


def bind(
    kernel: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    grid: Any,
    config: Config | None,
    tuning: Tuning | None,
) -> Launch:
    """The Launch that ``kernel[grid](*args, **kwargs)`` means.

    Raises:
        LauncherFailed: arguments that do not fit the kernel, or a grid that is none.
    """
    signature = inspect.signature(python_function(kernel))
    name = python_function(kernel).__name__
    own = {key: value for key, value in kwargs.items() if key in signature.parameters}
    options = {key: value for key, value in kwargs.items() if key not in signature.parameters}
    try:
        bound = signature.bind(*args, **own)
    except TypeError as error:
        raise LauncherFailed(f"launch of {name}: {error}") from None
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    return Launch(
        kernel, arguments, grid_sizes(grid(arguments) if callable(grid) else grid, name), options, config, tuning
    )


def grid_sizes(grid: Any, kernel: str) -> tuple[int, int, int]:
    """A grid as three sizes.

    Raises:
        LauncherFailed: it is none; ``kernel`` is named then.
    """
    try:
        sizes = tuple(operator.index(size) for size in grid)
    except TypeError:
        sizes = (-1,)  # no sizes at all, or M / BLOCK where a whole number is needed
    if any(size < 0 for size in sizes):
        raise LauncherFailed(
            f"launch of {kernel}: the grid is {grid!r}", "it must be a tuple of one to three whole numbers"
        )
    if not 1 <= len(sizes) <= 3:
        raise LauncherFailed(f"launch of {kernel}: the grid has {len(sizes)} sizes", "it must have one to three")
    x, y, z = sizes + (1,) * (3 - len(sizes))
    return x, y, z
