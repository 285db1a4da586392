"""Runs mutants through the debug stage, several processes at a time, and goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.choose import write
from mutation.subjects import PROJECT
from tilewright.errors import TilewrightError
from tilewright.hardware.probe import environment
from tilewright.process import Limits, run_many

LIMITS = Limits(seconds=180, memory_bytes=8 * 2**30)
CHILD = {"OMP_NUM_THREADS": "1", "TRITON_INTERPRET": None}


@dataclass(frozen=True)
class Job:
    """An operator to be checked: what it is called in the results, its files, its name in them, whether causes matter."""

    name: str
    files: Mapping[str, str]
    operator: str
    explain: bool = True


def run(
    jobs: Sequence[Job], cache: Path, workers: int, tell: Callable[[str], None] = lambda line: None
) -> dict[str, Any]:
    """The answer of each job by its name; answers are kept in ``cache``, a line each, as they come.

    An answer is taken from there where job, tilewright's own source, torch and Triton are what they were.
    """
    known = _read(cache)
    keys = {job.name: _key(job) for job in jobs}
    answers = {job.name: known[keys[job.name]] for job in jobs if keys[job.name] in known}
    waiting = [job for job in jobs if job.name not in answers]
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tilewright_mutants_") as folder, cache.open("a") as kept:
        arguments = [
            {"file": str(write(j.files, Path(folder) / j.name)), "name": j.operator, "explain": j.explain}
            for j in waiting
        ]
        given = run_many("mutation.child:check", arguments, workers=workers, limits=LIMITS, env=CHILD, quiet=True)
        for done, (index, answer) in enumerate(given, 1):
            job = waiting[index]
            answers[job.name] = _failed(answer) if isinstance(answer, TilewrightError) else answer
            kept.write(json.dumps({"key": keys[job.name], "answer": answers[job.name]}) + "\n")
            kept.flush()
            tell(f"{done} of {len(waiting)}: {job.operator} {answers[job.name]['seconds']} s")
    return answers


def _failed(error: TilewrightError) -> dict[str, Any]:
    """An answer in place of one that did not come: what the child died of."""
    return {"findings": [], "died": error.what, "cases": 0, "launches": 0, "complete": False, "notes": [], "seconds": 0}


def _read(cache: Path) -> dict[str, Any]:
    lines = cache.read_text().splitlines() if cache.exists() else []
    found = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut short by an end in the middle of a line
        found[entry["key"]] = entry["answer"]
    return found


def _key(job: Job) -> str:
    made = environment()
    parts = [
        f"{job.operator} {job.explain}",
        json.dumps(dict(job.files), sort_keys=True),
        _own_source(),
        str(made.torch),
        str(made.triton),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _own_source() -> str:
    global _SOURCE
    if not _SOURCE:
        files: Iterable[Path] = sorted((PROJECT / "src" / "tilewright").rglob("*.py"))
        files = [*files, Path(__file__).parent / "child.py"]
        _SOURCE = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()
    return _SOURCE


_SOURCE = ""
