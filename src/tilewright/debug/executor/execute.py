"""One caught launch, executed and checked: ``tw.execute``."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.debug.executor.executor import Executor
from tilewright.debug.executor.trace import Trace
from tilewright.hardware.targets import find
from tilewright.launch.launch import Launch
from tilewright.records import Finding


@dataclass(frozen=True)
class Execution:
    """What executing a launch showed.

    ``complete`` is False where the kernel does something that is not supported, which a finding says.
    ``trace`` holds its accesses if they were asked for.
    """

    findings: tuple[Finding, ...]
    complete: bool
    programs: int
    trace: Trace | None = None


def execute(launch: Launch, *, trace: bool = False, target: str = "h100") -> Execution:
    """Runs one caught launch on its CPU tensors, which hold its results afterwards.

    Args:
        launch: as ``tilewright.launch.capture`` hands to its handler, or ``record`` returns.
        trace: also returns what each program read and wrote, access by access. Takes memory: 9 bytes a lane.
        target: the chip that the kernel is lowered for.

    Raises:
        KernelCompileError: Triton rejects the kernel.
        UsageError: the kernel was made under TRITON_INTERPRET=1.
    """
    noted = Trace() if trace else None
    executor = Executor(find(target), trace=noted)
    executor(launch)
    return Execution(tuple(executor.findings()), executor.complete, executor.programs, noted)
