"""Executing launches with Triton's stock interpreter (``TRITON_INTERPRET=1``), in a child process.

The language is the interpreter's; the loop over programs is ours, so that memory is fenced, the program
at work is known, and a debugger can be opened in the one that matters. print, assert and breakpoint in
kernels work as in any Python.
"""

from __future__ import annotations

import bdb
import contextlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter as stock
from triton.runtime.interpreter import InterpretedFunction

from tilewright.debug import assertions, bfloat, float8, tiles
from tilewright.debug.debugger import Arriving, Counting, Debugger
from tilewright.debug.guard import Memory, WildAccess, is_users_code
from tilewright.errors import TilewrightError, UsageError
from tilewright.launch.launch import Launch, constexpr_names
from tilewright.records import Finding


@dataclass
class Interpreter:
    """A handler for captured launches that executes each at once.

    ``debugger`` opens pdb where an access goes wild. With a ``seeker`` no access does: it runs the program that it
    looks for, and may end the call with it.
    """

    memory: Memory = field(default_factory=lambda: Memory(stock._interpreter))
    launches: list[Launch] = field(default_factory=list)
    programs: int = 0
    debugger: Debugger | None = None
    seeker: Counting | Arriving | None = None
    complete: bool = True  # what it cannot run raises

    def findings(self) -> list[Finding]:
        """None of its own: what goes wrong in it raises."""
        return []

    def __call__(self, launch: Launch) -> None:
        if not isinstance(launch.kernel, InterpretedFunction):
            raise UsageError(f"{launch.name}: not made under TRITON_INTERPRET=1, so the interpreter cannot run it")
        self.launches.append(launch)
        self.memory.lenient = self.seeker is not None
        self.memory.start_launch(launch)
        with _replaced(stock, "_interpreter", self.memory), _mended(), _language_of(launch.kernel) as function:
            arguments = self._convert(launch)
            stock.interpreter_builder.set_grid_dim(*launch.grid)
            for program in _programs(launch.grid):
                self.memory.program = program
                self.programs += 1
                stock.interpreter_builder.set_grid_idx(*program)
                self._run(function, arguments, program)

    def _run(self, function: Callable[..., Any], arguments: dict[str, Any], program: tuple[int, int, int]) -> None:
        if self.seeker is not None and self.seeker.stop.program == program:
            self.memory.watch = self.seeker.watch()
            self.seeker.run(function, arguments)
            self.memory.watch = None
            return
        try:
            function(**arguments)
        except Exception as error:
            left = find_cause(error, bdb.BdbQuit) is not None
            if self.debugger is not None and not left:
                self.debugger.post_mortem(find_cause(error, WildAccess) or root_cause(error), program)
            raise

    def _convert(self, launch: Launch) -> dict[str, Any]:
        """Kernel arguments as the interpreter wants them, with made-up addresses for tensors."""
        constexprs = constexpr_names(launch.kernel)
        convert = stock._implicit_cvt
        converted = {}
        for name, value in launch.arguments.items():

            def with_region(argument: Any, name: str = name) -> Any:
                result = convert(argument)
                tensor = getattr(argument, "base", argument)  # triton.reinterpret wraps a tensor
                if hasattr(argument, "data_ptr") and isinstance(tensor, torch.Tensor):
                    result.handle.data = np.array(
                        [self.memory.admit(name, _as_dtype(argument, tensor))], dtype=np.uint64
                    )
                return result

            # Descriptors convert their base by the module's own name for this function.
            with _replaced(stock, "_implicit_cvt", with_region):
                converted[name] = value if name in constexprs else with_region(value)
        return converted


def _as_dtype(argument: Any, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if argument is not tensor and argument.dtype.itemsize == 1 else tensor


def find_cause(error: BaseException | None, kind: type[BaseException]) -> Any:
    """The first exception of a type along an exception's causes: the interpreter wraps what kernels raise."""
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


def root_cause(error: BaseException) -> BaseException:
    """What a kernel raised, below the interpreter's wrapping."""
    while error.__cause__ is not None and not isinstance(error, TilewrightError):
        error = error.__cause__
    return error


def kernel_line(error: BaseException) -> tuple[str, int] | None:
    """File and line in a kernel where an exception came up, or None where it came from the host."""
    link: BaseException | None = error
    while link is not None and not any(
        f.f_code is Interpreter._run.__code__ for f, _ in traceback.walk_tb(link.__traceback__)
    ):
        link = link.__cause__ or link.__context__
    if link is None:
        return None
    own = [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(root_cause(error).__traceback__)]
    return next((place for place in reversed(own) if is_users_code(place[0])), None)


def _programs(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    for x in range(grid[0]):
        for y in range(grid[1]):
            for z in range(grid[2]):
                yield x, y, z


@contextlib.contextmanager
def _mended() -> Iterator[None]:
    with assertions.checked(), float8.mended(), bfloat.mended(), tiles.mended():
        yield


@contextlib.contextmanager
def _language_of(kernel: InterpretedFunction) -> Iterator[Callable[..., Any]]:
    """The kernel's function, rewritten for the interpreter, with the language that it sees patched."""
    function = kernel.rewrite()
    scope = stock._patch_lang(function)
    try:
        yield function
    finally:
        scope.restore()


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    former = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, former)
