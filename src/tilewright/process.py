"""Child processes with time and memory limits: the one place that makes them.

A *task* is a module-level function named ``"package.module:function"`` whose first parameter is
``emit``: it may call ``emit(event)`` with anything picklable while it works, and returns its answer.
Whatever a task does to its process (an illegal access, a hang, a compiler abort, too much memory)
reaches the caller as :class:`~tilewright.errors.ChildFailed`, never as its own death.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from tilewright.errors import ChildFailed, TilewrightError, UsageError

_POLL_SECONDS = 0.05
_DEPTH = "TILEWRIGHT_PROCESS_DEPTH"
_MAX_DEPTH = 2
_MEMORY_CHECK_SECONDS = 0.25
_GRACE_SECONDS = 2.0


@dataclass(frozen=True)
class Limits:
    """Bounds of one task. ``seconds`` of wall time, ``memory_bytes`` resident in the child and its children."""

    seconds: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Paused:
    """Sent by a child that hands the terminal to the user: its clock stops until ``Resumed``."""


@dataclass(frozen=True)
class Resumed:
    """The user has left the debugger; the clock runs again, from zero."""


class Worker:
    """One child process that runs tasks one after another until it is closed or dies.

    Args:
        env: variables set (or, where None, removed) in the child before Python starts.
        interactive: the child keeps this terminal, so that a debugger in it can read keys and get Ctrl-C.
        quiet: what the child prints goes nowhere; otherwise to our own streams.
        stdout_to_stderr: what the child prints goes to stderr, as stdout carries records.
        on_pause: called when the child hands the terminal to the user.
    """

    def __init__(
        self,
        *,
        env: Mapping[str, str | None] | None = None,
        interactive: bool = False,
        quiet: bool = False,
        stdout_to_stderr: bool = False,
        on_pause: Callable[[], None] = lambda: None,
    ) -> None:
        depth = int(os.environ.get(_DEPTH, "0"))
        if depth >= _MAX_DEPTH:
            raise UsageError(
                "a child process started the pipeline again",
                'it imports the file that defines the operator: put the call below `if __name__ == "__main__":`',
            )
        ours, theirs = Pipe()
        self._connection: Connection = ours
        self._interactive = interactive
        self._on_pause = on_pause
        wanted = {**os.environ, **(env or {}), _DEPTH: str(depth + 1)}
        environment = {name: value for name, value in wanted.items() if value is not None}
        # The child imports from where we import, so that an uninstalled checkout works too.
        boot = f"import sys; sys.path[:] = {sys.path!r}; from tilewright.process import serve; serve({theirs.fileno()})"
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(
            [sys.executable, "-c", boot],
            env=environment,
            pass_fds=(theirs.fileno(),),
            stdin=None if interactive else nowhere,
            stdout=nowhere if quiet else (2 if stdout_to_stderr else None),
            stderr=nowhere if quiet else None,
            # A group of its own, so that its children (ptxas) die with it; a debugger needs ours.
            start_new_session=not interactive,
        )
        theirs.close()
        self._limits = Limits()
        self._started = 0.0
        self._memory_checked = 0.0
        self._paused = False
        self._ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def connection(self) -> Connection:
        """For waiting on several workers at once."""
        return self._connection

    def submit(self, task: str, arguments: Mapping[str, Any], limits: Limits = Limits()) -> None:
        """Starts a task. Its answer comes by :meth:`poll` or :meth:`result`."""
        self._limits = limits
        self._started = self._memory_checked = time.monotonic()
        self._paused = False
        try:
            self._connection.send((task, dict(arguments), limits.seconds))
        except (BrokenPipeError, ConnectionResetError):
            raise self._death() from None

    def poll(self, on_event: Callable[[Any], None]) -> tuple[bool, Any]:
        """(True, answer) once the task ended, else (False, None), after passing on what it emitted.

        Raises:
            ChildFailed: the child died or passed a limit (it is killed then).
            TilewrightError: the task raised one.
        """
        try:
            while self._connection.poll(0):
                kind, payload = self._connection.recv()
                if kind == "event":
                    self._take_event(payload, on_event)
                elif kind == "error":
                    raise payload
                else:
                    return True, payload
        except (EOFError, ConnectionResetError):
            raise self._death() from None
        if self._process.poll() is not None and not self._connection.poll(0):
            raise self._death()  # though a process that it forked holds the pipe open
        self._enforce_limits()
        return False, None

    def result(self, on_event: Callable[[Any], None] = lambda event: None) -> Any:
        """Waits for the answer of the task at work; raises as :meth:`poll` does."""
        while True:
            try:
                done, answer = self.poll(on_event)
                if done:
                    return answer
                wait([self._connection], _POLL_SECONDS)
            except KeyboardInterrupt:
                # In a debugger Ctrl-C belongs to the child, which has got it too.
                if not self._paused:
                    self.kill()
                    raise

    def kill(self) -> None:
        """Ends the child and its children at once; those of a child that is dead already too."""
        if self._ended:
            return
        if self._interactive:
            self._process.kill()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        self._ended = True

    def close(self) -> None:
        """Lets an idle child end by itself, and waits for it."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._connection.send(None)
            self._process.wait(timeout=_GRACE_SECONDS)
        self.kill()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def _take_event(self, event: Any, on_event: Callable[[Any], None]) -> None:
        if isinstance(event, Paused):
            self._paused = True
            self._on_pause()
        elif isinstance(event, Resumed):
            self._paused = False
            self._started = time.monotonic()
        else:
            on_event(event)

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        seconds, memory = self._limits.seconds, self._limits.memory_bytes
        if seconds is not None and not self._paused and now - self._started > seconds:
            self.kill()
            raise ChildFailed(f"no answer within {seconds:g} s", reason="timeout")
        if memory is not None and now - self._memory_checked > _MEMORY_CHECK_SECONDS:
            self._memory_checked = now
            used = _resident_bytes(self._process.pid)
            if used > memory:
                self.kill()
                raise ChildFailed(
                    f"used {used / 2**30:.1f} GiB of memory, limit {memory / 2**30:.1f} GiB", reason="memory"
                )

    def _death(self) -> ChildFailed:
        code = self._process.wait()
        self.kill()
        if code < 0:
            return ChildFailed(f"the process died of {signal.Signals(-code).name}", reason="crashed", signal=-code)
        return ChildFailed(f"the process ended with exit code {code}", reason="crashed")


def run(
    task: str,
    arguments: Mapping[str, Any],
    *,
    limits: Limits = Limits(),
    on_event: Callable[[Any], None] = lambda event: None,
    **worker_options: Any,
) -> Any:
    """Runs one task in a fresh child and returns its answer; raises as :meth:`Worker.poll` does."""
    with Worker(**worker_options) as worker:
        worker.submit(task, arguments, limits)
        answer = worker.result(on_event)
        worker.close()
        return answer


def run_many(
    task: str,
    jobs: Iterable[Mapping[str, Any]],
    *,
    workers: int,
    limits: Limits = Limits(),
    kept: list[Worker] | None = None,
    **worker_options: Any,
) -> Iterator[tuple[int, Any]]:
    """Runs a task over many arguments on a pool; yields (index, answer) in the order they end.

    A job that fails yields its error (:class:`TilewrightError`) in place of the answer; a worker that
    died is replaced, and the others are not disturbed. ``kept`` is for a caller that comes again: workers of earlier
    calls, to begin with, and this call's own, which it then has to kill.
    """
    waiting = list(enumerate(jobs))[::-1]
    workers = max(workers, 1)
    busy: dict[int, tuple[Worker, int]] = {}
    idle: list[Worker] = [] if kept is None else kept
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                index, arguments = waiting.pop()
                worker = _at_work(idle, task, arguments, limits, worker_options)
                busy[worker.pid] = (worker, index)
            wait([worker.connection for worker, _ in busy.values()], _POLL_SECONDS)
            for pid, (worker, index) in list(busy.items()):
                answer = _answer_or_error(worker)
                if answer is None:
                    continue
                del busy[pid]
                if isinstance(answer[0], ChildFailed):
                    worker.kill()  # dead already, or in a state nobody vouches for
                else:
                    idle.append(worker)
                yield index, answer[0]
    finally:
        for worker, _ in busy.values():
            worker.kill()
        for worker in idle if kept is None else ():
            worker.kill()


def _at_work(
    idle: list[Worker], task: str, arguments: Mapping[str, Any], limits: Limits, options: Mapping[str, Any]
) -> Worker:
    """A worker that has been given the task: an idle one, unless it died meanwhile, or a new one."""
    while True:
        is_new = not idle
        worker = Worker(**options) if is_new else idle.pop()
        try:
            worker.submit(task, arguments, limits)
            return worker
        except BaseException as error:
            worker.kill()
            if is_new or not isinstance(error, ChildFailed):
                raise


def _answer_or_error(worker: Worker) -> tuple[Any] | None:
    try:
        done, answer = worker.poll(lambda event: None)
        return (answer,) if done else None
    except TilewrightError as error:
        return (error,)


class _Residents:
    """Memory resident by session, looked up no more often than it is asked for by one child: there may be many."""

    seen = -math.inf
    by_session: Mapping[int, int] = {}


def _resident_bytes(leader: int) -> int:
    """Memory resident in all processes of a session (a lone process where it leads none)."""
    now = time.monotonic()
    if now - _Residents.seen > _MEMORY_CHECK_SECONDS / 2:
        _Residents.seen, _Residents.by_session = now, _resident_by_session()
    return _Residents.by_session.get(leader, 0)


def _resident_by_session() -> dict[int, int]:
    """Bytes by the leader of a session, and by each process that leads none."""
    found: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rsplit(b")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it ended while we looked
        for of in {int(entry), int(fields[3])}:
            found[of] = found.get(of, 0) + int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return found


# ------------------------------------------------------------------------------------------ in the child


class Emitter:
    """What a task gets to speak to its caller while it works."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def __call__(self, event: Any) -> None:
        with self._lock:
            self._connection.send(("event", event))

    def pause(self) -> None:
        """The user has the terminal now: stop the clock."""
        faulthandler.cancel_dump_traceback_later()
        self(Paused())

    def resume(self) -> None:
        self(Resumed())


def serve(descriptor: int) -> None:
    """The child's life: tasks from the pipe until it closes."""
    os.set_inheritable(descriptor, False)  # a program that a task starts must not hold the pipe open
    connection = Connection(descriptor)
    emit = Emitter(connection)
    own_session = os.getsid(0) == os.getpid()
    threading.Thread(target=_end_with_parent, args=(descriptor, own_session), daemon=True).start()
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            return
        if message is None:
            return
        task, arguments, seconds = message
        if seconds is not None and own_session:
            # Should the parent be killed while native code keeps our threads from running: end all the same.
            faulthandler.dump_traceback_later(seconds * 1.5 + 10, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115
        answer = _perform(task, arguments, emit)
        faulthandler.cancel_dump_traceback_later()
        if not _sent(connection, answer):
            return


def _end_with_parent(descriptor: int, own_session: bool) -> None:
    """Sleeps until the pipe's other end is gone, as it is when the parent was killed; then ends our processes."""
    hangup = select.poll()
    hangup.register(descriptor, 0)  # a hang-up is reported unasked
    if not any(event & select.POLLHUP for _, event in hangup.poll()):
        return  # closed on this side: we are ending anyway
    if own_session:
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _sent(connection: Connection, answer: tuple[str, Any]) -> bool:
    """Sends an answer, or why it cannot be sent; False where nobody listens any more."""
    try:
        connection.send(answer)
    except (BrokenPipeError, ConnectionResetError):
        return False
    except Exception as error:  # pickling raises many kinds
        words = f"its answer cannot be sent to another process: {type(error).__name__}: {error}"
        connection.send(("error", ChildFailed(words, reason="crashed")))
    return True


def _perform(task: str, arguments: dict[str, Any], emit: Emitter) -> tuple[str, Any]:
    try:
        module, _, name = task.partition(":")
        function = getattr(importlib.import_module(module), name)
        return "answer", function(emit, **arguments)
    except TilewrightError as error:
        return "error", error
    except KeyboardInterrupt:
        return "error", ChildFailed("interrupted", reason="crashed")
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
        failure = ChildFailed(f"{type(error).__name__}: {error} ({where})", reason="crashed")
        failure.__notes__ = [traceback.format_exc()]
        return "error", failure


def run_script(path: str | os.PathLike[str], seconds: float) -> int | None:
    """Runs a Python script to its end, unheard; its exit status, or None where it took longer than ``seconds``."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    try:
        ended = subprocess.run(
            [sys.executable, path], env=environment, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return ended.returncode
