"""Tasks for the tests of child processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tilewright import process
from tilewright.errors import ChildFailed, KernelCompileError


def add(emit, *, a, b):
    return a + b


def nothing(emit):
    return None


def process_id(emit):
    return os.getpid()


def environment(emit, *, names):
    return [os.environ.get(name) for name in names]


def count_up(emit, *, to):
    for number in range(to):
        emit(number)
    return "done"


def refuse(emit, *, what):
    raise KernelCompileError(what, "mend it")


def fail(emit, *, reason):
    raise ChildFailed("no more", "try again", reason)


def divide(emit, *, by):
    return 1 / by


def leave(emit, *, code):
    raise SystemExit(code)


def die(emit, *, number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def maybe_die(emit, *, name, dies=False, seconds=0.0):
    time.sleep(seconds)
    if dies:
        os.abort()
    return name, os.getpid()


def sleep(emit, *, seconds, started=None):
    emit("asleep")
    if started:
        Path(started).write_text(str(os.getpid()))
    time.sleep(seconds)
    return "awake"


def pause(emit, *, seconds):
    emit.pause()
    time.sleep(seconds)
    emit.resume()
    return "back"


def swallow(emit, *, mebibytes):
    memory = []
    for _ in range(mebibytes):
        memory.append(b"x" * 2**20)
    time.sleep(60)
    return len(memory)


def with_a_child(emit, *, file, seconds=60, then="sleep"):
    """Starts a program of its own, says both process ids, and lives on or dies."""
    child = subprocess.Popen(["sleep", str(seconds)])
    draft = Path(file + ".draft")
    draft.write_text(f"{os.getpid()} {child.pid}")
    draft.rename(file)  # whoever waits for it sees all of it
    emit("started")
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)


def unsendable(emit):
    return threading.Lock()


def fork_and_die(emit, *, file):
    """Leaves a copy of the process behind, with all its open files."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    Path(file).write_text(str(pid))
    os.kill(os.getpid(), signal.SIGKILL)


def speak(emit, *, text):
    print(text)
    print(text, file=sys.stderr)


def again(emit, *, levels):
    """Starts the pipeline in a child, as a user's file without a main guard does."""
    return 1 + process.run("process_tasks:again", {"levels": levels - 1}) if levels else 0
