"""What a container leaves of a machine."""

import os

import pytest

from tilewright.hardware import host


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({}, 8, 2**36),
        ({"cpu.max": "max 100000", "memory.max": "max"}, 8, 2**36),
        ({"cpu.max": "250000 100000", "memory.max": str(2**33)}, 2, 2**33),
        ({"cpu.max": "50000 100000"}, 1, 2**36),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8, 2**36),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4, 2**36),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, 8, 2**36),
    ],
)
def test_limits_of_a_container_are_those_of_its_children(tmp_path, monkeypatch, files, cores, memory):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(host, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 2**24, "SC_PAGE_SIZE": 2**12}.get)
    assert (host.cores(), host.memory_bytes()) == (cores, memory)
