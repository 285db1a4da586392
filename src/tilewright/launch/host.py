"""What a launcher raised, told to its author: where, and where it was a GPU that it missed, what to write instead.

Launches are caught with CPU tensors on a machine that may have no GPU. A launcher that reaches for CUDA
fails there in torch's words ("Torch not compiled with CUDA enabled"), which say nothing of what to do.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import os
import re
import traceback
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import torch
import triton

from tilewright.errors import LauncherFailed, TilewrightError, UsageError
from tilewright.launch.launch import Launch
from tilewright.records import Case
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

_TORCH = os.path.dirname(torch.__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
# Frames of these are not the author's; of the standard library only what stands between a launcher and torch.
_NOT_USERS = (
    _TORCH,
    os.path.dirname(triton.__file__) + os.sep,
    _PACKAGE,
    contextlib.__file__,
    os.path.dirname(os.__file__) + os.sep + "functools.py",
)
_DEVICE_MODULES = (_TORCH + "cuda" + os.sep, _TORCH + "accelerator" + os.sep)
_SPEAKS_OF_A_GPU = re.compile(r"cuda|\bgpus?\b|nvidia driver", re.IGNORECASE)

# What the author's line does, and what to write instead; the first that matches.
_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        r"get_device_(properties|capability|name)",
        "ask triton.runtime.driver.active: .utils.get_device_properties(0)['multiprocessor_count'] and "
        ".get_current_target() answer for the chip that is asked about",
    ),
    (
        r"current_stream|Stream\(|synchronize|Event\(|cuda\.stream|CUDAGraph|cuda\.graph",
        "leave it out (a launch goes to the current stream), or do it only if x.is_cuda",
    ),
    (
        r"cuda\.device|device_of|set_device|current_device|device_guard|DeviceGuard",
        "enter it only on a GPU: with torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()",
    ),
    (r"is_available", "drop the check: launches are caught without a GPU"),
    (
        r"is_cuda|device\.type|\.device\b.*[!=]=|get_device\(",
        "drop the check, or compare devices: x.device == w.device",
    ),
    (
        r"device\s*=|\.cuda\(|\.to\(|Generator\(",
        "allocate where the inputs are: device=x.device, torch.empty_like(x), x.new_empty(...)",
    ),
)
_ANY_REMEDY = "use the inputs' device (device=x.device), and do what only CUDA can only if x.is_cuda"


@contextlib.contextmanager
def explaining() -> Iterator[None]:
    """Within it, an error that comes from reaching for a GPU says what a launcher may do instead.

    Raises:
        LauncherFailed: in place of such an error, with its traceback; other errors pass.
    """
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        needs = wanted_gpu(error)
        if needs is None:
            raise
        raise needs.with_traceback(error.__traceback__) from None


def wanted_gpu(error: Exception) -> LauncherFailed | None:
    """The error of a launcher that reached for a GPU, in words; None where that is not what happened."""
    if raised_below_a_launch(error):
        return None
    frames = _frames(error.__traceback__)
    position = _innermost_users(frames)
    if position is None:
        return None
    here, below = frames[position], frames[position + 1 :]
    statement = _statement(here)
    message = str(error).strip().splitlines()[0][:160] if str(error).strip() else ""
    if below:
        reached = any(file.startswith(_DEVICE_MODULES) for file, _ in below) or _is_dummy(error, statement.text)
    elif statement.refuses:
        reached = bool(_SPEAKS_OF_A_GPU.search(f"{statement.text} {message}"))
    else:
        reached = bool(_SPEAKS_OF_A_GPU.search(message))
    if not reached:
        return None
    if statement.refuses and not below:
        what = f"the launcher refuses CPU tensors, which it is run with here: {statement.text}"
    else:
        said = f" ({type(error).__name__}: {message})" if message else ""
        what = f"the launcher reaches for a GPU, and here it is run without one{said}"
    return LauncherFailed(what, _remedy(statement.text))


def handed_on(handler: Callable[[Launch], Any], launch: Launch) -> Any:
    """Gives a launch to its handler; its frame in a traceback is where the launcher ends and the kernel begins."""
    return handler(launch)


def raised_below_a_launch(error: BaseException) -> bool:
    """Whether a kernel, or what executed it, raised an error, and not the launcher around it."""
    return any(frame.f_code is handed_on.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))


def refuses(error: BaseException) -> bool:
    """Whether an error is its author's own no: an assert or a raise in their code."""
    frames = _frames(error.__traceback__)
    position = _innermost_users(frames)
    return position is not None and position == len(frames) - 1 and _statement(frames[position]).refuses


def launching_line() -> tuple[str, int]:
    """File and line of the author's code that is launching a kernel: the innermost on the stack."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(_NOT_USERS) and not frame.filename.startswith("<"):
            return frame.filename, frame.lineno or 0
    return "", 0


def require_cpu(launch: Launch) -> None:
    """A launch that is executed here has its tensors where the inputs are.

    Raises:
        LauncherFailed: one of them is on a device.
    """
    for name, tensor in launch.tensors.items():
        if tensor.device.type not in ("cpu", "meta"):
            raise LauncherFailed(
                f"launch of {launch.name}: {name} is on {tensor.device}, while the launcher is run with CPU tensors",
                _remedy("device="),
            )


def failure(error: Exception) -> TilewrightError:
    """Whatever came of calling a launcher, as one line with file and line of its author's code."""
    if isinstance(error, TilewrightError) and not isinstance(error, LauncherFailed):
        return error
    if isinstance(error, LauncherFailed):
        return LauncherFailed(_where(error) + error.what, error.remedy)
    return LauncherFailed(told(error, "the launcher"))


def inputs_of(operator: Operator, case: Case, device: str = "cpu", *, drawn: bool = True) -> Inputs:
    """The arguments of a case; arguments as for ``Operator.make_inputs``.

    Raises:
        UsageError: the user's ``inputs`` or ``values`` raise, with their line.
    """
    try:
        return operator.make_inputs(case, device, drawn=drawn)
    except TilewrightError:
        raise
    except Exception as error:
        raise UsageError(told(error, f"{operator.name}: making the inputs of {case.label}")) from error


def told(error: Exception, who: str) -> str:
    """``file.py:12: the launcher raised ValueError: words``, the place being the innermost of the author's own."""
    words = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
    return f"{_where(error)}{who} raised {type(error).__name__}: {words}"


# ------------------------------------------------------------------------------------------------- details


class _Statement:
    """The statement at a line; ``refuses`` where it is there to reject arguments: an assert or a raise."""

    def __init__(self, text: str, refuses: bool) -> None:
        self.text, self.refuses = text, refuses


def _frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]


def _where(error: Exception) -> str:
    frames = _frames(error.__traceback__)
    position = _innermost_users(frames)
    return "{}:{}: ".format(*frames[position]) if position is not None else ""


def _innermost_users(frames: list[tuple[str, int]]) -> int | None:
    own = [i for i, (file, _) in enumerate(frames) if not file.startswith(_NOT_USERS)]
    return own[-1] if own else None


def _is_dummy(error: Exception, text: str) -> bool:
    """Classes of torch.cuda that this build of torch has no code for raise from elsewhere in torch."""
    return "dummy base class" in str(error) and "cuda" in text


def _statement(place: tuple[str, int]) -> _Statement:
    """The statement at a place, with the condition of the ``if`` that it stands directly in, should it raise."""
    file, line = place
    lines = linecache.getlines(file)
    plain = _Statement(linecache.getline(file, line).strip(), False)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return plain
    found = plain
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for statement in block if isinstance(block, list) else ():
                if not isinstance(statement, ast.stmt) or not statement.lineno <= line <= (statement.end_lineno or 0):
                    continue
                if isinstance(statement, ast.Assert):
                    found = _Statement(ast.unparse(statement), True)
                elif isinstance(statement, ast.Raise):
                    guard = f"if {ast.unparse(node.test)}: " if isinstance(node, ast.If) else ""
                    found = _Statement(guard + ast.unparse(statement), True)
    return found


def _remedy(text: str) -> str:
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), _ANY_REMEDY)
