"""The whole command is killed, its disk is full, its store is damaged: what was running is lost, and nothing else.

A sample; proof/test_tune_faults.py does the same many times over.
"""

import random

from commands import Command, damage, kill, undisturbed


def test_a_run_meets_a_full_disk_and_is_killed_and_its_store_damaged_and_ends_as_if_it_were_not(tmp_path):
    command = Command(tmp_path, pause=0.05)
    process = command.start(full_after=2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.strip().splitlines()[-1].startswith(f"cannot use {command.store}: database or disk is full")
    full = len(command.measured)
    assert full in (2, 3)
    process = command.start()
    command.wait_for(full + 2, process)
    kill(process)
    damage(command.store, 3, random.Random(2).randbytes(4096))
    assert command.run() == undisturbed()
    assert len(command.measured) <= 6 + 4, "what was running when it ended or was killed, and one on the page"
