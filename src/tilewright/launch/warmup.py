"""What ``kernel.warmup(...)`` returns where no GPU is: a kernel that looks compiled, and whose launches are caught.

Launchers compile a kernel ahead to ask what it needs (registers, shared memory), choose a grid by that, and
launch the compiled kernel itself, as Triton's fused softmax tutorial does.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from triton.compiler.compiler import make_backend
from triton.runtime.errors import OutOfResources

from tilewright.errors import LauncherFailed
from tilewright.hardware.target import Target
from tilewright.launch.driver import gpu_target
from tilewright.launch.launch import Launch, constexpr_names, grid_sizes
from tilewright.records import Resources

Needs = Callable[[Launch], Resources]

# Of the size that kernels of one tile have. A block of 1024 threads with so many registers still fits a unit.
_PLAUSIBLE_REGISTERS = 64
_PLAUSIBLE_SHARED = 4096


def plausible_needs(launch: Launch) -> Resources:
    """Resources as a kernel might have them, where nothing is compiled: shared memory in bytes."""
    warps = int(launch.options.get("num_warps", 4))
    return Resources(_PLAUSIBLE_SHARED, _PLAUSIBLE_REGISTERS, 0, 0, 0, warps, 0.0)


class WarmedKernel:
    """Stands in for Triton's ``CompiledKernel``: same names, figures from ``needs``, launches to ``launched``.

    Nothing is compiled before a figure is asked for.
    """

    def __init__(self, launch: Launch, target: Target, needs: Needs, launched: Callable[[Launch], Any]) -> None:
        self._launch, self._target, self._needs, self._launched = launch, target, needs, launched
        self.name = launch.name
        self.module: Any = None
        self.function: Any = None
        self.n_max_threads = target.max_threads_per_block

    def _init_handles(self) -> None:
        """Loads the kernel, as far as that can fail.

        Raises:
            OutOfResources: Triton's own, where the kernel needs more shared memory than the chip has.
        """
        if self._resources.shared > self._target.shared_per_block:
            raise OutOfResources(self._resources.shared, self._target.shared_per_block, "shared memory")

    @property
    def n_regs(self) -> int:
        """32-bit registers of a thread."""
        return self._resources.registers or _PLAUSIBLE_REGISTERS

    @property
    def n_spills(self) -> int:
        """32-bit words of local memory of a thread, as the CUDA driver counts them."""
        return (self._resources.stack or 0) // 4

    @functools.cached_property
    def metadata(self) -> Any:
        """Launch options with their defaults, ``shared`` in bytes, ``name`` and ``target``."""
        chip = gpu_target(self._target)
        options = dict(vars(make_backend(chip).parse_options(dict(self._launch.options))))
        needs = self._resources
        values = {**options, "name": self.name, "target": chip, "shared": needs.shared, "num_warps": needs.warps}
        return namedtuple("KernelMetadata", sorted(values))(**values)  # type: ignore[misc]

    @functools.cached_property
    def _resources(self) -> Resources:
        return self._needs(self._launch)

    def __getitem__(self, grid: Sequence[Any]) -> Callable[..., Any]:
        """A launch of the compiled kernel: all its arguments in order, constexprs (which are settled) too."""
        self._init_handles()

        def runner(*args: Any, stream: Any = None) -> Any:
            return self._launched(self._bound(grid, args))

        return runner

    def _bound(self, grid: Sequence[Any], args: tuple[Any, ...]) -> Launch:
        names = list(self._launch.arguments)
        if len(args) != len(names):
            raise LauncherFailed(
                f"launch of {self.name}, compiled ahead: it takes {len(names)} arguments, and got {len(args)}",
                f"give all in their order, constexprs too: {', '.join(names)}",
            )
        if not isinstance(grid, (tuple, list)) or len(grid) != 3:
            raise LauncherFailed(
                f"launch of {self.name}, compiled ahead: the grid is {grid!r}", "it must have three sizes: (n, 1, 1)"
            )
        settled = constexpr_names(self._launch.kernel)
        given = {name: value for name, value in zip(names, args, strict=True) if name not in settled}
        arguments = {**self._launch.arguments, **given}
        return replace(self._launch, arguments=arguments, grid=grid_sizes(grid, self.name))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"kernel {self.name}, warmed up where no GPU is, has no {name}: "
            "it has n_regs, n_spills, n_max_threads, metadata, _init_handles() and [grid](...)"
        )
