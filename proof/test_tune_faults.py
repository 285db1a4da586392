"""A tuning run that is killed, whose workers are killed, whose disk is full and whose store is damaged, many times over.

The compilers, the children and the store are real; the GPU is simulated. However often it is disturbed, a run must end
with the same Choice and the same Trials as one that was left alone, having measured again only what was running.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cpu" / "tune"))

from commands import Command, damage, kill, undisturbed
from results import keep

SPACE = {"blocks": [16, 32, 64, 128], "warps": [1, 2, 4, 8]}
KILLS = 60
FIGURES: dict = {"configurations": 16}


@pytest.fixture(scope="module", autouse=True)
def kept():
    yield
    keep("tune_faults", FIGURES)


def test_the_run_is_killed_at_random_times(tmp_path):
    """Run after run over the same store is killed until it has been killed often enough; whole tunings follow each other."""
    source, kills, runs, repeated = random.Random(0), 0, 0, 0
    while kills < KILLS:
        command = Command(tmp_path / str(runs), pause=0.1, **SPACE)
        command.store.parent.mkdir()
        killed = 0
        while kills < KILLS and killed < 8:
            process = command.start()
            command.wait_for(len(command.measured) + source.choice([0, 1, 2]), process)
            time.sleep(source.uniform(0, 0.3))
            ended = process.poll() is not None
            if not ended:
                kill(process)
                kills, killed = kills + 1, killed + 1
            else:
                process.communicate()
                break
        assert command.run() == undisturbed(**SPACE)
        again = len(command.measured) - len(set(command.measured))
        assert again <= killed
        repeated, runs = repeated + again, runs + 1
        shutil.rmtree(tmp_path / str(runs - 1))
    FIGURES["run_kills"] = {"kills": kills, "runs": runs, "measured_again": repeated}


def descendants(pid):
    """All processes below one, compilers and measuring children alike."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def test_workers_are_killed_at_random_times(tmp_path):
    source, kills, runs = random.Random(1), 0, 0
    while kills < KILLS:
        command = Command(tmp_path / str(runs), pause=0.1, seats=2, **SPACE)
        command.store.parent.mkdir()
        process = command.start()
        killed = 0
        while process.poll() is None and killed < 10:
            time.sleep(source.uniform(0.1, 0.8))
            if below := descendants(process.pid):
                try:
                    os.kill(source.choice(below), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed += 1
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        ended, expected = command.run(), undisturbed(**SPACE)
        assert ended == expected, command.said
        kills, runs = kills + killed, runs + 1
        shutil.rmtree(tmp_path / str(runs - 1))
    FIGURES["worker_kills"] = {"kills": kills, "runs": runs}


def test_every_kind_of_fault_at_once(tmp_path):
    kinds = ["segfault", "abort", "loop", "memory", "raise", "wrong", "kill"]
    keys = list(undisturbed(**SPACE)["trials"])
    faults = dict(zip(random.Random(2).sample(keys, len(kinds)), kinds, strict=True))
    command = Command(tmp_path, faults=faults, seats=2, **SPACE)
    assert command.run() == undisturbed(**SPACE, faults=faults)
    begun = len(command.measured)
    assert command.run() == undisturbed(**SPACE, faults=faults)
    assert len(command.measured) == begun, "nothing is measured again, faults neither"
    FIGURES["faults"] = sorted(kinds)


def test_pages_of_the_store_are_damaged(tmp_path):
    source, damaged = random.Random(3), 0
    for number in range(6):
        command = Command(tmp_path / str(number), pause=0.05, **SPACE)
        command.store.parent.mkdir()
        process = command.start()
        command.wait_for(source.randint(3, 15), process)
        kill(process)
        pages = max(command.store.stat().st_size // 4096, 2)
        damage(command.store, source.randrange(1, pages), source.choice([bytes(4096), source.randbytes(4096)]))
        damaged += 1
        assert command.run() == undisturbed(**SPACE)
    FIGURES["damaged_pages"] = damaged


def test_the_disk_is_full(tmp_path):
    """On a file system of its own where one may be mounted here; as SQLite sees it in any case."""
    command = Command(tmp_path, **SPACE)
    for after in (1, 5):
        process = command.start(full_after=after)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 2
        assert "database or disk is full" in err
    assert command.run() == undisturbed(**SPACE)
    FIGURES["full_disk"] = "as SQLite sees it"
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=180k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode != 0:
        return
    try:
        command = Command(tmp_path, **SPACE)
        command.store, command.log = small / "store.db", tmp_path / "measured on a small disk"
        command.options["log"] = str(command.log)
        process = command.start()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 2, err
        assert "disk is full" in err or "No space left" in err or "disk I/O error" in err
        subprocess.run(["mount", "-o", "remount,size=20m", str(small)], check=True)
        assert command.run() == undisturbed(**SPACE)
        FIGURES["full_disk"] = "a file system of 180 KiB, and as SQLite sees it"
    finally:
        subprocess.run(["umount", str(small)], check=True)
