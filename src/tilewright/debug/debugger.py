"""pdb in a kernel, at the program that matters."""

from __future__ import annotations

import contextlib
import pdb
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tilewright.debug.guard import is_users_code

_HANDOVER_SECONDS = 0.2  # for whoever draws on the terminal to stop and clear its line


@dataclass(frozen=True)
class Stop:
    """Where a debugger is wanted: at the start of one program of one launch. ``why`` is said there."""

    launch: int
    program: tuple[int, int, int]
    why: str = field(default="", compare=False)


class Debugger:
    """pdb in a kernel: the clocks of the process's limits are stopped while the user has the terminal."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause, self._resume = pause, resume

    def run(self, function: Callable[..., Any], arguments: dict[str, Any], stop: Stop) -> None:
        """Runs one program of a kernel under pdb, from its first line."""
        with self._terminal():
            print(f"*** program {stop.program} from its first line: {stop.why}", flush=True)
            pdb.Pdb().runcall(function, **arguments)

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
            debugger = pdb.Pdb()
            debugger.reset()
            debugger.interaction(here.tb_frame, alone)

    def breakpoint(self, *args: Any, **kwargs: Any) -> None:
        """What ``breakpoint()`` in a kernel does: the clocks stay stopped, as pdb returns only in passing."""
        self._take_terminal()
        pdb.Pdb().set_trace(sys._getframe(1))

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
