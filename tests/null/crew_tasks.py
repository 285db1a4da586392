"""What children of a crew do here; files stand for what survives a child."""

import os
import signal
import time
from pathlib import Path

from tilewright.errors import ToolMissing


def prepared(emit, *, path, fails=0):
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    if len(Path(path).read_text().split()) <= fails:
        os.kill(os.getpid(), signal.SIGKILL)


def needs(emit, *, variable):
    if variable not in os.environ:
        raise ToolMissing(f"{variable} is not set")


def square(emit, *, number):
    return number * number


def dies(emit, *, of):
    os.kill(os.getpid(), of)


def dies_once(emit, *, path):
    if not Path(path).exists():
        Path(path).write_text("once")
        os.kill(os.getpid(), signal.SIGKILL)
    return "went on"


def hangs(emit):
    while True:
        time.sleep(1)


def refuses(emit):
    raise ValueError("no")
