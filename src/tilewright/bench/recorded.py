"""Results measured elsewhere, with the environment they were measured in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import StoreUnusable
from tilewright.records import Comparison, Environment, from_dict
from tilewright.spec.operator import Operator, source_file

FOLDER = Path("benchmarks/results")


@dataclass(frozen=True)
class Recorded:
    """Comparisons of one operator from one file."""

    label: str
    environment: Environment
    comparisons: tuple[Comparison, ...]


def find(operator: Operator) -> list[Recorded]:
    """Recorded comparisons of an operator in ``benchmarks/results`` beside or above its source, newest last.

    Raises:
        StoreUnusable: a file there is no results file.
    """
    folder = _folder(source_file(operator))
    found = []
    for path in sorted(folder.glob("*.json")) if folder else ():
        environment, comparisons = read(path)
        own = tuple(c for c in comparisons if c.operator == operator.name)
        if own:
            found.append(Recorded(path.name, environment, own))
    return sorted(found, key=lambda r: r.environment.when)


def read(path: Path) -> tuple[Environment, tuple[Comparison, ...]]:
    """A results file, as ``--json`` writes it: its environment and its comparisons."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        environment = from_dict(data["environment"])
        records = [from_dict(record) for record in data["records"] if record["type"] == "Comparison"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreUnusable(
            f"{path} is no results file: {error}", "write one with tilewright bench --json PATH"
        ) from None
    return environment, tuple(records)


def _folder(source: Path | None) -> Path | None:
    for parent in (*(source.parents if source else ()), Path.cwd()):
        if (parent / FOLDER).is_dir():
            return parent / FOLDER
    return None
