"""A simulated GPU in real children: times follow from the configuration, and faults are real.

``faults`` says by configuration key what goes wrong: ``segfault`` and ``abort`` end the child by a signal, as an illegal
access or a compiler does; ``loop`` never ends; ``memory`` runs out of it; ``raise`` raises; ``wrong`` is wrong.
"""

import hashlib
import os
import signal
import time
from pathlib import Path

from tilewright.errors import LauncherFailed
from tilewright.tune.runner import Measured

GIVEN = {}


def prepare(emit, *, address, case, regime, folder, triton_key, faults=None, log=None, pause=0.0, unready=False):
    if unready:
        raise LauncherFailed("the reference does not run")
    GIVEN.update(faults=faults or {}, log=log, pause=pause, case=case)


def seconds_of(config):
    """Between 100 and 500 µs, different for each configuration."""
    digits = int(hashlib.sha256(config.key.encode()).hexdigest()[:8], 16)
    return 1e-4 * (1 + 4 * digits / 2**32)


def measure(emit, *, config, seconds, best=None):
    if GIVEN["log"]:
        with Path(GIVEN["log"]).open("a") as file:
            file.write(config.key + "\n")
    time.sleep(GIVEN["pause"])
    fault = GIVEN["faults"].get(config.key)
    if fault in ("segfault", "abort", "kill"):
        os.kill(os.getpid(), {"segfault": signal.SIGSEGV, "abort": signal.SIGABRT, "kill": signal.SIGKILL}[fault])
    if fault == "loop":
        while True:
            pass
    if fault == "memory":
        taken = b"x" * 2**29
        time.sleep(20 + len(taken) % 2)
    if fault == "raise":
        raise LauncherFailed("out of the GPU's memory: simulated")
    if fault == "wrong":
        return Measured(1000.0)
    time_of_it = seconds_of(config)
    if best is not None and time_of_it > 1.3 * best:
        return Measured(0.1, time_of_it, abandoned=True)
    return Measured(0.1, time_of_it, 0.99 * time_of_it, 1.01 * time_of_it, took=GIVEN["pause"])


def duel(emit, *, configs, seconds, seed):
    return {
        place: [seconds_of(config) * (1 + 1e-4 * (r % 3)) for r in range(12)] for place, config in enumerate(configs)
    }


def describe():
    """What a node of a cluster says of its GPU."""
    return "a simulated H100", "h100"
