"""The whole command in a process of its own, which may be killed and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from simulated_tasks import seconds_of

from tilewright.records import Config

HERE = Path(__file__).parent


class Command:
    """One command over one store, with a folder of its own for Triton's cache."""

    def __init__(self, folder, **options):
        self.store, self.log = folder / "store.db", folder / "measured"
        self.options = {"log": str(self.log), **options}
        path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
        self.env = {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": str(folder / "triton")}

    def start(self, **more):
        words = [sys.executable, str(HERE / "tune_scaled.py"), str(self.store), json.dumps({**self.options, **more})]
        return subprocess.Popen(
            words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def run(self, **more):
        """What it printed at its end: the Choice and the Trials."""
        process = self.start(**more)
        out, self.said = process.communicate(timeout=120)
        assert process.returncode == 0, self.said
        return json.loads(out.splitlines()[-1])

    @property
    def measured(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def wait_for(self, count, process):
        while len(self.measured) < count and process.poll() is None:
            time.sleep(0.005)


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def damage(path, page, content):
    """Overwrites one page of a store."""
    with path.open("r+b") as file:
        file.seek(4096 * min(page, path.stat().st_size // 4096 - 1))
        file.write(content)


def undisturbed(blocks=(32, 64), warps=(1, 2, 4), faults=None):
    """What a run that nobody disturbs comes to: each configuration's time, or its fault, and the fastest."""
    configs = [Config({"BLOCK": block, "num_warps": count}) for block in blocks for count in warps]
    sound = [config for config in configs if config.key not in (faults or {})]
    told = {config.key: ["timed", seconds_of(config)] for config in sound}
    told |= {key: ["wrong" if fault == "wrong" else "failed", None] for key, fault in (faults or {}).items()}
    return {"choice": min(sound, key=seconds_of).key, "ties": [], "trials": told}
