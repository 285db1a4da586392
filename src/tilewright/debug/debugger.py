"""pdb in a kernel, at the line that matters, with tiles as tensors."""

from __future__ import annotations

import ast
import bdb
import contextlib
import linecache
import pdb
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tilewright.debug import tiles
from tilewright.debug.guard import Region, Watch, is_users_code, kernel_position
from tilewright.records import Finding

_HANDOVER_SECONDS = 0.2  # for whoever draws on the terminal to stop and clear its line


class Seen(Exception):
    """Ends a call of a launcher that was made for the debugger alone."""


@dataclass(frozen=True)
class Stop:
    """Where a debugger is wanted: before a statement of a program, in the iteration where a fault shows there.

    That is the one in which an access touches ``element`` of ``tensor``, the last one where the fault is in what was
    ``stored``; else the one in which scalars are what the finding says.
    """

    file: str
    lines: range
    program: tuple[int, int, int]
    why: str
    tensor: str | None = None
    element: tuple[int, ...] | None = None
    variables: tuple[tuple[str, int | float | bool], ...] = ()
    stored: bool = False

    @classmethod
    def of(cls, finding: Finding) -> Stop | None:
        """The stop of a finding; None where it has no line."""
        if finding.file is None or finding.line is None:
            return None
        x, y, z = (*(finding.program or ()), 0, 0, 0)[:3]
        why = f"{finding.kind}{f' on {finding.tensor}' if finding.tensor else ''}: {finding.message}"
        return cls(
            finding.file,
            _statement(finding.file, finding.line),
            (x, y, z),
            why,
            finding.tensor,
            finding.element,
            finding.variables,
            finding.kind in ("mismatch", "non-finite"),
        )


class KernelDebugger(pdb.Pdb):
    """pdb for which tiles are torch tensors: ``p acc`` shows one, ``p (acc - q).abs().max()`` computes with them."""

    def _getval(self, arg: str) -> Any:
        frame = self.curframe
        assert frame is not None
        with contextlib.suppress(Exception):  # what is no torch may be the kernel's own language
            return eval(arg, frame.f_globals, tiles.as_tensors(frame.f_locals))
        return super()._getval(arg)  # type: ignore[misc]

    def do_p(self, arg: str) -> None:
        """p expression: its value; a tile as a torch tensor."""
        with contextlib.suppress(Exception):  # pdb has said what it was
            self.message(tiles.shown(self._getval(arg)))

    do_pp = do_p

    def displayhook(self, obj: Any) -> None:
        if obj is not None:
            self.message(tiles.shown(obj))


@dataclass
class Hit:
    """One time that a statement is reached: whether scalars are as wanted, and whether it touches the element."""

    fits: bool
    touches: bool = False


class Counting(bdb.Bdb):
    """Counts how often a program reaches a statement, and notes in which of these times the fault shows."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self.stop, self.hits = stop, list[Hit]()

    def user_line(self, frame: FrameType) -> None:
        if _is_at(self, frame, self.stop):
            self.hits.append(Hit(_fits(frame, self.stop)))
        self.set_continue()

    def wanted(self) -> int:
        """The time that a debugger is to stop at, counted from 1."""
        for shows in (lambda hit: hit.touches, lambda hit: hit.fits):
            found = [number for number, hit in enumerate(self.hits, 1) if shows(hit)]
            if found:
                return found[-1 if self.stop.stored else 0]
        return 1

    def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:  # type: ignore[override]
        """Runs the program; the call ends once the fault was seen to show.

        Raises:
            Seen: so it was.
        """
        _run_to(self, self.stop, function, arguments)
        if any(hit.touches or hit.fits for hit in self.hits):
            raise Seen

    def watch(self) -> Watch | None:
        """What tells of accesses to the element."""
        if self.stop.tensor is None or self.stop.element is None:
            return None
        return Watch(self.stop.tensor, self.stop.element, self._touched)

    def _touched(self, region: Region) -> None:
        file, line = kernel_position()
        if self.hits and file == self.stop.file and line in self.stop.lines:
            self.hits[-1].touches = True


class Arriving(KernelDebugger):
    """pdb that opens when a program has reached a statement so many times."""

    def __init__(self, stop: Stop, hit: int, terminal: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        super().__init__(nosigint=True)
        self.stop, self.hit, self.arrived, self._terminal = stop, hit, False, terminal

    def user_line(self, frame: FrameType) -> None:
        if not self.arrived:
            self.hit -= _is_at(self, frame, self.stop)
            if self.hit:
                self.set_continue()
                return
            self.arrived = True
            self.clear_all_breaks()
            print(f"*** program {self.stop.program}, before line {frame.f_lineno}: {self.stop.why}", flush=True)
        super().user_line(frame)

    def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:  # type: ignore[override]
        """Runs the program.

        Raises:
            Seen: the user has been at its statement, and gone on.
        """
        with self._terminal():
            _run_to(self, self.stop, function, arguments)
        if self.arrived:
            raise Seen

    def watch(self) -> None:
        """Nothing: where to stop is known."""


class Debugger:
    """pdb in a kernel: the clocks of the process's limits are stopped while the user has the terminal."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause, self._resume = pause, resume

    def arriving(self, stop: Stop, hit: int) -> Arriving:
        """A debugger that opens at a stop."""
        return Arriving(stop, hit, self._terminal)

    def post_mortem(self, error: BaseException, program: tuple[int, int, int]) -> None:
        """Opens pdb at the line of the kernel where an exception came up."""
        entry = error.__traceback__
        frames = []
        while entry is not None:
            frames.append(entry)
            entry = entry.tb_next
        own = [e for e in frames if is_users_code(e.tb_frame.f_code.co_filename)]
        here = own[-1] if own else frames[-1]
        alone = types.TracebackType(None, here.tb_frame, here.tb_lasti, here.tb_lineno)
        with self._terminal():
            print(f"*** program {program}: {error}", flush=True)
            debugger = KernelDebugger()
            debugger.reset()
            debugger.interaction(here.tb_frame, alone)

    def breakpoint(self, *args: Any, **kwargs: Any) -> None:
        """What ``breakpoint()`` in a kernel does: the clocks stay stopped, as pdb returns only in passing."""
        self._take_terminal()
        KernelDebugger().set_trace(sys._getframe(1))

    def _take_terminal(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._pause()
        time.sleep(_HANDOVER_SECONDS)

    @contextlib.contextmanager
    def _terminal(self) -> Iterator[None]:
        self._take_terminal()
        try:
            yield
        finally:
            self._resume()


def _run_to(debugger: bdb.Bdb, stop: Stop, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Runs a program with a debugger that is asked at a statement alone, and at no other line."""
    debugger.set_break(stop.file, stop.lines[0])
    try:
        debugger.runcall(function, **arguments)
    finally:
        debugger.clear_all_breaks()


def _is_at(debugger: bdb.Bdb, frame: FrameType, stop: Stop) -> bool:
    return frame.f_lineno == stop.lines[0] and debugger.canonic(frame.f_code.co_filename) == debugger.canonic(stop.file)


def _fits(frame: FrameType, stop: Stop) -> bool:
    """Whether a frame's scalars are what a finding says of them, those that it has."""
    known = {name: tiles.as_scalar(frame.f_locals[name]) for name, _ in stop.variables if name in frame.f_locals}
    return bool(known) and all(known[name] == value for name, value in stop.variables if name in known)


def _statement(file: str, line: int) -> range:
    """The lines of the statement that a line belongs to; of a kernel's head, those of its first statement."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return range(line, line + 1)
    found = range(line, line + 1)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and _first(node) <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno or 0
            if line > last:
                continue  # a statement within has it
            if isinstance(node, ast.FunctionDef):
                inner = next((n for n in node.body if not _is_docstring(n)), node.body[0])
                return range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)
            found = range(node.lineno, last + 1)
    return found


def _first(node: ast.stmt) -> int:
    return int(min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
