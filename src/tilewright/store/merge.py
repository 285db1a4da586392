"""Taking one store's runs over into another: nothing is lost, and nothing comes twice, however often it is done.

A run is known by its uid in any store. Of a run that both have (it went on after an earlier merge) come the records that
are missing, each as often as one of the two has it. A run is taken over in one transaction: a merge that is killed leaves
whole runs, and the same command goes on.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tilewright.errors import StoreUnusable
from tilewright.store.db import Store

_PAGE = 500
_RUN = "uid, started, command, operators, chip, revision"
_RECORD = "type, operator, case_id, key, body"


@dataclass(frozen=True)
class Merged:
    """What came of one store: runs and records that were new, and runs of it that were known before."""

    source: str
    runs: int
    known_runs: int
    records: int


def merge(into: Store, source: Store) -> Merged:
    """Adds to a store what another one has and it has not. Others may write to both meanwhile.

    Raises:
        StoreFromNewerVersion: a later tilewright wrote one of them.
        StoreUnusable: one of them is no store, or the source is not there.
    """
    if source.path is None or not source.path.is_file():
        raise StoreUnusable(f"no store at {source.path}", "name the file that --store or TILEWRIGHT_STORE wrote")
    runs = source._rows(f"SELECT id, {_RUN} FROM run ORDER BY started, id")
    new = records = 0
    for number, *described in runs:
        is_new, added = _take_run(into, source, number, tuple(described))
        new += is_new
        records += added
    _take_all(into, source, "known_case", "id, operator, body")
    _take_all(into, source, "cache", "key, value")
    return Merged(str(source.path), new, len(runs) - new, records)


def _take_run(into: Store, source: Store, number: int, described: tuple[Any, ...]) -> tuple[bool, int]:
    """One run with its records, faults and end; whether it was new, and how many records were."""
    # The end first: a run that has one has all its records, while one that goes on may get some as we read.
    end = source._rows("SELECT finished, exit_code, text FROM ending WHERE run = ?", (number,))
    uid = described[0]
    with into._writing() as db:
        added = db.execute(f"INSERT OR IGNORE INTO run ({_RUN}) VALUES (?, ?, ?, ?, ?, ?)", described).rowcount
        (own,) = db.execute("SELECT id FROM run WHERE uid = ?", (uid,)).fetchone()
        count = _take_records(db, source, number, own)
        faults = source._rows("SELECT name FROM fault WHERE run = ?", (number,))
        db.executemany("INSERT OR IGNORE INTO fault (run, name) VALUES (?, ?)", [(own, name) for (name,) in faults])
        db.executemany(
            "INSERT OR IGNORE INTO ending (run, finished, exit_code, text) VALUES (?, ?, ?, ?)",
            [(own, *columns) for columns in end],
        )
    return bool(added), count


def _take_records(db: sqlite3.Connection, source: Store, number: int, own: int) -> int:
    """The records of a run that are missing, in their order; how many."""
    query = f"SELECT id, {_RECORD} FROM record WHERE run = ? AND id > ? ORDER BY id LIMIT {_PAGE}"
    present: Counter[Any] = Counter(db.execute(f"SELECT {_RECORD} FROM record WHERE run = ?", (own,)))
    last = count = 0
    while rows := source._rows(query, (number, last)):
        for _, *columns in rows:
            record = tuple(columns)
            if present[record]:
                present[record] -= 1
                continue
            db.execute(f"INSERT INTO record (run, {_RECORD}) VALUES (?, ?, ?, ?, ?, ?)", (own, *record))
            count += 1
        last = rows[-1][0]
    return count


def _take_all(into: Store, source: Store, table: str, columns: str) -> None:
    """The rows of a table without runs; where both have a key, ours stays."""
    rows = source._rows(f"SELECT {columns} FROM {table}")
    marks = ", ".join("?" for _ in columns.split(","))
    with into._writing() as db:
        db.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", rows)
