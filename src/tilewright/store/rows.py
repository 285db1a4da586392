"""How records become rows of the store, and rows become summaries."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tilewright import records
from tilewright.records import Advice, Case, Comparison, Finding, Trial, fault_key


@dataclass(frozen=True)
class RunSummary:
    """One run in a line. ``exit_code`` and ``seconds`` are None, ``text`` empty, where it did not end by itself.

    ``findings`` counts faults, ``trials`` configurations of a case on a target: each once, however often kept.
    """

    id: int
    started: str
    command: str
    operators: tuple[str, ...]
    exit_code: int | None
    text: str
    seconds: float | None
    commit: str | None
    chip: str
    findings: int
    trials: int
    comparisons: int


def insert(db: sqlite3.Connection, run: int, record: Any) -> None:
    """Adds a record to a run, with the faults and cases in it, inside the caller's transaction."""
    operator, case = _operator_of(record), _case_of(record)
    row = (run, type(record).__name__, operator, case.id if case else None, _key_of(record), _json(record))
    db.execute("INSERT INTO record (run, type, operator, case_id, key, body) VALUES (?, ?, ?, ?, ?, ?)", row)
    for part in _parts(record):
        if isinstance(part, Case):
            db.execute(
                "INSERT OR IGNORE INTO known_case (id, operator, body) VALUES (?, ?, ?)",
                (part.id, part.operator, _json(part)),
            )
        elif isinstance(part, Finding):
            name = json.dumps([part.case.operator if part.case else operator, *fault_key(part)])
            db.execute("INSERT OR IGNORE INTO fault (run, name) VALUES (?, ?)", (run, name))


def _parts(value: Any) -> Iterator[Any]:
    """A record and all records inside it."""
    if dataclasses.is_dataclass(value):
        yield value
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _parts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _parts(item)


def _case_of(record: Any) -> Case | None:
    if isinstance(record, Case):
        return record
    case = getattr(record, "case", None)
    return case if isinstance(case, Case) else None


def _operator_of(record: Any) -> str | None:
    """The operator a record names itself, else its case's."""
    own, case = getattr(record, "operator", None), _case_of(record)
    return own if isinstance(own, str) else (case.operator if case else None)


def _key_of(record: Any) -> str | None:
    if isinstance(record, Finding):
        return record.kind
    if isinstance(record, Comparison):
        return record.baseline
    if isinstance(record, Advice):
        return f"{record.target} {record.kind}"
    if isinstance(record, Trial):
        return f"{record.target} {record.config.key}"
    config = getattr(record, "config", None)
    return config.key if isinstance(config, records.Config) else None


def _json(record: Any) -> str:
    return json.dumps(records.to_dict(record), separators=(",", ":"))


def now() -> str:
    """This moment, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def summary(row: tuple[Any, ...]) -> RunSummary:
    """A row of the run table, then its ending's three columns, then three counts."""
    number, _, started, command, operators, chip, revision, finished, exit_code, text, *counts = row
    seconds = None
    if finished is not None:
        seconds = max((datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds(), 0.0)
    names = tuple(json.loads(operators))
    return RunSummary(number, started, command, names, exit_code, text or "", seconds, revision, chip, *counts)
