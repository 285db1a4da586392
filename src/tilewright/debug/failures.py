"""What a call raised, as a finding with its line, program and tensor."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path
from typing import Any

from tilewright.debug.assertions import FailedAssertion
from tilewright.debug.guard import WildAccess
from tilewright.debug.interpreter import Interpreter, find_cause, kernel_line, root_cause
from tilewright.debug.patience import StillRunning
from tilewright.errors import TilewrightError
from tilewright.records import Finding
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator, source_file


def finding(error: Exception, interpreter: Interpreter, operator: Operator, inputs: Inputs) -> Finding:
    """The finding of an exception that left a launcher, of a kernel or of its own."""
    if isinstance(error, TilewrightError):
        place = _place(error, interpreter, operator)
        return Finding("launch-error", error.what, remedy=error.remedy or None, **place)
    wild = find_cause(error, WildAccess)
    if wild is not None:
        return _wild(wild, interpreter, inputs)
    cause = root_cause(error)
    place = _place(error, interpreter, operator)
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


def _place(error: BaseException, interpreter: Interpreter, operator: Operator) -> dict[str, Any]:
    """File, line and program of an exception: the kernel's line, else the launcher's."""
    position = kernel_line(error)
    if position is not None:
        return {
            "file": position[0],
            "line": position[1],
            "source": source_line(*position),
            "program": interpreter.memory.program,
        }
    own = source_file(operator)
    raised = root_cause(error)
    frames = [f for f in traceback.extract_tb(raised.__traceback__) if own is not None and Path(f.filename) == own]
    if not frames:
        return {}
    return {"file": frames[-1].filename, "line": frames[-1].lineno, "source": frames[-1].line}


def _argument(tensor: str | None, interpreter: Interpreter, inputs: Inputs) -> str | None:
    """The operator's name for a kernel's parameter: the input that shares its memory."""
    if tensor is None or not interpreter.launches:
        return None
    parameter = interpreter.launches[-1].tensors.get(tensor)
    for name, value in inputs.tensors.items():
        if parameter is not None and value.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr():
            return name
    return None
