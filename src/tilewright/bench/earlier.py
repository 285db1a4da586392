"""Earlier measurements: in a file of records, in a store, or of a commit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.bench import revisions
from tilewright.bench.changes import Earlier
from tilewright.bench.recorded import read
from tilewright.errors import ChildFailed, UsageError
from tilewright.records import Environment
from tilewright.spec.operator import Operator, source_file
from tilewright.store.db import Store

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class Reference:
    """What a user compares with. ``commit`` is set where it is one, and ``found`` may then be empty: to be measured."""

    label: str
    found: tuple[Earlier, ...]
    commit: str | None = None


def locate(name: str, operator: Operator, store: Any, environment: Environment) -> Reference:
    """The measurements that a name stands for: a file, a store, or a commit that ``store`` has measurements of.

    Raises:
        UsageError: it is none of them, or holds nothing of this operator.
    """
    path = Path(name)
    if path.is_file():
        found = from_store(Store(path), operator.name) if _is_store(path) else from_file(path, operator.name)
        if not found:
            raise UsageError(f"{name} holds no comparison of {operator.name}")
        return Reference(path.name, tuple(found))
    commit = revisions.find(source_file(operator), name)
    if commit is None:
        raise UsageError(
            f"--against {name}: no such file, and no commit of the repository that {operator.name} is in",
            "give a file that bench --json wrote, a store, or a commit",
        )
    known = [
        earlier
        for earlier in from_store(store, operator.name)
        if earlier.comparison.revision == commit and earlier.environment.chip == environment.chip
    ]
    return Reference(name if name == commit else f"{name} ({commit})", tuple(known), commit)


def from_file(path: Path, operator: str) -> list[Earlier]:
    """What ``bench --json`` wrote."""
    environment, comparisons = read(path)
    return [Earlier(environment, comparison) for comparison in comparisons if comparison.operator == operator]


def from_store(store: Any, operator: str) -> list[Earlier]:
    """All comparisons of an operator in a store, oldest first, each with its run's environment."""
    found = []
    for run in reversed(store.runs()):
        if run.comparisons:
            environment = next(iter(store.records("Environment", run=run.id)))
            found += [Earlier(environment, c) for c in store.records("Comparison", operator, run.id)]
    return found


def measure(operator: Operator, origin: str, commit: str, options: Sequence[str]) -> list[Earlier]:
    """Measures the operator as it was at a commit, with this tilewright and the same ``options`` of ``bench``.

    It runs in a process of its own that imports the user's files of that commit alone.

    Raises:
        UsageError: the file was not there then, or belongs to tilewright itself.
        ChildFailed: nothing was measured.
    """
    file = source_file(operator)
    own = Path(__file__).parent.parent
    if file is None or own in file.parents:
        raise UsageError(
            f"{operator.name} is tilewright's own: at another commit it comes with another tilewright",
            "run bench --json there, and give that file",
        )
    with revisions.files_at(file, commit) as (then, now), tempfile.TemporaryDirectory() as folder:
        target = _moved(origin, now, then)
        out = Path(folder) / "then.json"
        command = [sys.executable, "-m", "tilewright", "bench", target, "--no-store", "--json", str(out), *options]
        paths = [str(own.parent), *(_moved(p, now, then) for p in sys.path if p)]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        cwd = Path(_moved(str(Path.cwd()), now, then))
        ended = subprocess.run(
            command, cwd=cwd if cwd.is_dir() else then, env=variables, capture_output=True, text=True, check=False
        )
        if not out.is_file() or not (found := from_file(out, operator.name)):
            said = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise ChildFailed(f"{operator.name} could not be measured at {commit}: {said}", reason="crashed")
    return [replace(e, comparison=replace(e.comparison, revision=commit)) for e in found]


def _moved(path: str, now: Path, then: Path) -> str:
    """A path below the repository's root, as it is below the other root; any other as it is."""
    head, colon, name = path.partition(":")
    resolved = Path(head).resolve()
    if not head.endswith(".py") and not resolved.exists():
        return path  # a dotted name
    return f"{then / resolved.relative_to(now)}{colon}{name}" if resolved.is_relative_to(now) else path


def _is_store(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE
