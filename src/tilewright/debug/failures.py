"""What a call raised, as a finding with its line, program and tensor."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tilewright.debug.assertions import FailedAssertion
from tilewright.debug.executor.executor import Executor
from tilewright.debug.guard import WildAccess
from tilewright.debug.interpreter import Interpreter, find_cause, kernel_line, root_cause
from tilewright.debug.patience import StillRunning
from tilewright.errors import KernelCompileError, TilewrightError
from tilewright.launch.launch import Launch
from tilewright.records import Finding
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator, source_file


def finding(error: Exception, handler: Interpreter | Executor, operator: Operator, inputs: Inputs) -> Finding:
    """The finding of an exception that left a launcher, of a kernel or of its own."""
    if isinstance(error, TilewrightError):
        place = _place(error, handler, operator)
        return Finding("launch-error", error.what, remedy=error.remedy or None, **place)
    wild = find_cause(error, WildAccess)
    if wild is not None and isinstance(handler, Interpreter):
        return _wild(wild, handler, inputs)
    cause = root_cause(error)
    place = _place(error, handler, operator)
    if isinstance(cause, FailedAssertion):
        return Finding("launch-error", str(cause), lanes=cause.lanes, **place)
    who = "the kernel" if kernel_line(error) else "the launcher"
    if isinstance(cause, StillRunning):
        return Finding("launch-error", f"{cause}", **place)
    words = f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else 'no message'}"
    return Finding("launch-error", f"{who} raised {words}", **place)


def source_line(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()


def _wild(wild: WildAccess, interpreter: Interpreter, inputs: Inputs) -> Finding:
    site = wild.site
    return Finding(
        kind=wild.kind,
        message=wild.message,
        tensor=wild.tensor,
        argument=_argument(wild.tensor, interpreter, inputs),
        file=site.file,
        line=site.line,
        source=source_line(site.file, site.line),
        program=interpreter.memory.program,
        programs=1,
        lanes=wild.lanes,
        element=wild.element,
        cause="unknown",
    )


def with_arguments(findings: Iterable[Finding], launches: Sequence[Launch], inputs: Inputs) -> Iterator[Finding]:
    """Findings of the checked executor with the operator's names for the kernels' parameters."""
    for found in findings:
        name = found.tensor and _input_at([launch.tensors.get(found.tensor) for launch in launches], inputs)
        yield replace(found, argument=name or None)


def _place(error: BaseException, handler: Interpreter | Executor, operator: Operator) -> dict[str, Any]:
    """File, line and program of an exception: the kernel's line, else the launcher's."""
    if isinstance(error, KernelCompileError) and error.place is not None:
        return {"file": error.place[0], "line": error.place[1], "source": source_line(*error.place)}
    if isinstance(handler, Executor):
        if handler.at is not None and isinstance(root_cause(error), StillRunning):
            return {"file": handler.at.file, "line": handler.at.line, "source": handler.at.source}
    elif (position := kernel_line(error)) is not None:
        return {
            "file": position[0],
            "line": position[1],
            "source": source_line(*position),
            "program": handler.memory.program,
        }
    own = source_file(operator)
    raised = root_cause(error)
    frames = [f for f in traceback.extract_tb(raised.__traceback__) if own is not None and Path(f.filename) == own]
    if not frames:
        return {}
    return {"file": frames[-1].filename, "line": frames[-1].lineno, "source": frames[-1].line}


def _argument(tensor: str | None, interpreter: Interpreter, inputs: Inputs) -> str | None:
    """The operator's name for a kernel's parameter."""
    if tensor is None or not interpreter.launches:
        return None
    return _input_at([interpreter.launches[-1].tensors.get(tensor)], inputs)


def _input_at(parameters: Sequence[Tensor | None], inputs: Inputs) -> str | None:
    """The input that shares its memory with one of some tensors."""
    addresses = {p.untyped_storage().data_ptr() for p in parameters if p is not None}
    for name, value in inputs.tensors.items():
        if value.untyped_storage().data_ptr() in addresses:
            return name
    return None
