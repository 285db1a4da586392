"""What this process may use of its machine: a container has less than the machine it runs on."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores at a time: those that this process may run on, as far as its container's share goes."""
    allowed = len(os.sched_getaffinity(0))
    words = _words(_CGROUP / "cpu.max") or [
        *_words(_CGROUP / "cpu/cpu.cfs_quota_us"),
        *_words(_CGROUP / "cpu/cpu.cfs_period_us"),
    ]
    if len(words) == 2 and words[0] not in ("max", "-1"):
        return max(min(allowed, math.floor(int(words[0]) / int(words[1]))), 1)
    return allowed


def memory_bytes() -> int:
    """Memory of the machine, or what the container may have of it."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    words = _words(_CGROUP / "memory.max") or _words(_CGROUP / "memory/memory.limit_in_bytes")
    return min(physical, int(words[0])) if words and words[0] != "max" else physical


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
