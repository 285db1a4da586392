"""The checked executor: a handler for captured launches that runs all programs at once, with every check on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.jit import JITFunction

from tilewright.debug.executor import schedule
from tilewright.debug.executor.arguments import bound_arguments
from tilewright.debug.executor.faults import Faults, Place
from tilewright.debug.executor.machine import Machine, Unsupported
from tilewright.debug.executor.memory import Memory
from tilewright.debug.executor.nonfinite import watched
from tilewright.debug.executor.ops import HANDLERS, REGION_HANDLERS, hints
from tilewright.debug.executor.program import Program, compiled
from tilewright.debug.executor.races import Races
from tilewright.debug.patience import StillRunning
from tilewright.errors import LauncherFailed, TilewrightError, UsageError
from tilewright.hardware.target import Target
from tilewright.launch.launch import Launch, python_function
from tilewright.records import Finding
from tilewright.spec.poison import Poisoned

GRID_LIMITS = (2**31 - 1, 65_535, 65_535)
"""CUDA's largest grid (CUDA C++ Programming Guide, technical specifications per compute capability)."""


class Changes(Protocol):
    """What is done otherwise than the kernels say, to see what that would mend (``debug/causes``)."""

    in_sequence: bool
    """Programs run one after the other."""

    def launched(self, launch: Launch) -> Launch:
        """The launch to be executed in the place of one."""

    def prepare(self, machine: Machine, launch: Launch) -> None:
        """Called before a launch runs; may put other handlers into the machine."""


@dataclass
class Executor:
    """Executes each launch it is handed, and gathers what is wrong with them.

    Attributes:
        target: the chip that kernels are lowered for.
        poisoned: the mode that knows which memory was handed out uninitialised.
        edges_only: of each launch run only the programs at the edges of the grid: for tensors of any size.
        grids_only: runs no program at all: only whether each grid can be launched is looked at.
        backwards: runs programs from the last to the first.
        watches_floats: finds where values that are not finite arise (``nonfinite.py``); slower.
        exact_products: takes tf32 products of fp32 for fp32's own: what rounding operands changed is then seen.
        complete: False once a launch met an operation that is not supported.
        updates: positions of launches that may read what they write.
        changes: edits to what kernels do, while causes are looked for.
        order_matters: some launch looked at what an atomic found, so that its programs may know their order.
    """

    target: Target
    poisoned: Poisoned | None = None
    stdout: Callable[[str], None] = print
    trace: Any = None
    backwards: bool = False
    watches_floats: bool = False
    exact_products: bool = False
    memory: Memory = field(init=False)
    faults: Faults = field(default_factory=Faults)
    launches: list[Launch] = field(default_factory=list)
    updates: set[int] = field(default_factory=set)
    programs: int = 0
    edges_only: bool = False
    grids_only: bool = False
    changes: Changes | None = None
    complete: bool = True
    order_matters: bool = False
    uses_tf32: bool = False
    _machine: Machine | None = None

    def __post_init__(self) -> None:
        self.memory = Memory(self.poisoned)

    def __call__(self, launch: Launch) -> None:
        if self.grids_only:
            self.launches.append(launch)
            self._fits(launch)
            return
        if not isinstance(launch.kernel, JITFunction):
            raise UsageError(
                f"{launch.name} was made under TRITON_INTERPRET=1, and the checked executor compiles kernels",
                "unset TRITON_INTERPRET, or use the interpreter",
            )
        if self.changes is not None:
            launch = self.changes.launched(launch)
        program = compiled(launch, self.target) if self._fits(launch) else None
        self.launches.append(launch)
        if program is None:
            return
        self.memory.start_launch(launch.grid)
        _refuse_other_devices(launch)
        try:
            self._run(launch, program)
        except Unsupported as limit:
            self._give_up(launch, limit.place, limit.words)
        except (TilewrightError, StillRunning):
            raise
        except Exception as error:
            words = f"the checked executor itself fails here ({type(error).__name__}: {error}): please report it"
            self._give_up(launch, self.at or Place(None, None), words)

    @property
    def at(self) -> Place | None:
        """The line of the kernel that is, or was last, executed."""
        machine = self._machine
        return None if machine is None or machine.op is None else machine.place(machine.op)

    def _give_up(self, launch: Launch, place: Place, words: str) -> None:
        """A launch that cannot be executed: said aloud, and no verdict is complete without it."""
        self.complete = False
        remedy = (
            "--device checks it on a GPU; --interpreter, with fewer checks, where Triton's own interpreter knows it"
        )
        self.faults.add("unsupported", place, words, grid=launch.grid, programs=[], lanes=0, remedy=remedy)

    def findings(self) -> list[Finding]:
        return self.faults.findings()

    def _run(self, launch: Launch, program: Program) -> None:
        handlers = watched(HANDLERS) if self.watches_floats else HANDLERS
        machine = Machine(program.module, launch.grid, self.memory, self.faults, handlers, REGION_HANDLERS, self.stdout)
        self._machine = machine
        machine.races = Races(launch.programs, program.synchronises)
        machine.observed = program.observed
        machine.check_hints = hints.check
        machine.launch_index = len(self.launches) - 1
        machine.trace = self.trace
        machine.exact_products = self.exact_products
        self.programs += launch.programs
        self.order_matters |= program.knows_order
        self.uses_tf32 |= program.uses_tf32
        # The mode that poisons watches what the host does; our own operations are none of its business.
        with torch.no_grad(), _disable_current_modes():
            arguments = bound_arguments(launch, program.module.entry, self.memory)
            self._find_written(machine, program)
            self._note_updates(program)
            if self.changes is not None:
                self.changes.prepare(machine, launch)
            in_sequence = self.changes is not None and self.changes.in_sequence
            schedule.run(
                machine,
                program,
                arguments,
                backwards=self.backwards,
                edges_only=self.edges_only,
                at_once=1 if in_sequence else schedule.MOST_PROGRAMS,
            )

    def _find_written(self, machine: Machine, program: Program) -> None:
        if program.stored is not None:
            machine.written = {id(r.storage) for r in self.memory.regions if r.name.partition(".")[0] in program.stored}

    def _note_updates(self, program: Program) -> None:
        def through(names: frozenset[str] | None) -> set[int]:
            every = [(r.name.partition(".")[0], id(r.storage)) for r in self.memory.regions]
            return {storage for name, storage in every if names is None or name in names}

        if not through(program.stored).isdisjoint(through(program.loaded)):
            self.updates.add(len(self.launches) - 1)

    def _fits(self, launch: Launch) -> bool:
        for axis, (size, limit) in enumerate(zip(launch.grid, GRID_LIMITS, strict=True)):
            if size > limit:
                code = python_function(launch.kernel).__code__
                words = f"the grid of {launch.name} is {launch.grid}: {'xyz'[axis]} goes up to {limit}"
                place = Place(code.co_filename, code.co_firstlineno)
                remedy = "put the large axis first: x goes up to 2^31 - 1"
                self.faults.add("grid-limit", place, words, grid=launch.grid, programs=[], lanes=0, remedy=remedy)
                return False
        return launch.programs > 0


def _refuse_other_devices(launch: Launch) -> None:
    for name, tensor in launch.tensors.items():
        if isinstance(tensor, Tensor) and tensor.device.type != "cpu":
            raise LauncherFailed(
                f"launch of {launch.name}: {name} is on {tensor.device}",
                "debug runs on CPU tensors: create it with device=x.device",
            )
