"""A damaged store: what can be read goes into a new file, the old one is moved aside, and nothing is thrown away."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from tilewright.records import from_dict
from tilewright.store import carve
from tilewright.store.rows import insert, now

_UID_DIGITS = 32
_RUN = "INSERT INTO run (id, uid, started, command, operators, chip, revision) VALUES (?, ?, ?, ?, ?, ?, ?)"
_CHECKED_BYTES = 1 << 28
"""A larger file is not looked through whenever it is opened."""
_MARK = b"tile"  # the application id, where the header of an SQLite file has it
_CORRUPT, _NO_DATABASE = 11, 26  # SQLite's own result codes


class Damaged(sqlite3.DatabaseError):
    """The file's pages are not in order, or a record cannot be read."""


def can_be_salvaged(error: sqlite3.Error, path: Path) -> bool:
    """Whether a file is broken, not locked, full or another program's, and is a store for sure."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == _NO_DATABASE:  # its first page is gone: only its place, or the mark of our own, say what it was
        with path.open("rb") as file:
            return file.read(72)[68:] == _MARK or path.parent.name == ".tilewright"
    return isinstance(error, Damaged) or code == _CORRUPT


def require_sound(db: sqlite3.Connection) -> None:
    """Looks through the file.

    Raises:
        Damaged: it is not sound.
    """
    (pages,), (size,) = db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone()
    if pages * size > _CHECKED_BYTES:
        return
    if db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise Damaged("database disk image is malformed")
    if db.execute("SELECT EXISTS (SELECT 1 FROM record WHERE NOT json_valid(body))").fetchone()[0]:
        raise Damaged("a record cannot be read")


def salvage(path: Path, create: Callable[[Path], sqlite3.Connection]) -> str:
    """Makes a new store at ``path`` of what can be read of the damaged one there; what became of it, in a line.

    Args:
        create: opens an empty store at a path.

    Raises:
        OSError: the folder cannot be written.
    """
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    draft = path.with_name(f"{path.name}.salvaged-{os.getpid()}")
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    new = create(draft)
    try:
        new.execute("BEGIN")
        kept = _copy_rows(aside, new)
        _copy_cache(aside, new)
        new.execute("COMMIT")
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        new.close()
    os.replace(draft, path)
    for suffix in ("-wal", "-shm"):
        Path(f"{draft}{suffix}").unlink(missing_ok=True)
    return f"{path} was damaged: {kept} records could be read and are kept; the old file is {aside}"


def _copy_rows(damaged: Path, new: sqlite3.Connection) -> int:
    """Runs, their ends and their records, which faults and cases follow from; how many records."""
    runs: dict[int, carve.Row] = {}
    endings: dict[int, carve.Row] = {}
    bodies: dict[int, tuple[int, str]] = {}
    for number, row in carve.rows(damaged):
        match row:
            case (None, str(uid), str(), str(), str(), str(), str() | None) if len(uid) == _UID_DIGITS:
                runs[number] = row[1:]
            case (None, str(), int(), str()):
                endings[number] = row[1:]
            case (None, int(run), str(), _, _, _, str(body)):
                bodies[number] = (run, body)
    for number in sorted({run for run, _ in bodies.values()} - runs.keys()):
        runs[number] = (uuid.uuid4().hex, now(), "(its run could not be read)", "[]", "", None)
    for number, values in sorted(runs.items()):
        new.execute(_RUN, (number, *values))
    for number, values in sorted(endings.items()):
        if number in runs:
            new.execute(
                "INSERT OR IGNORE INTO ending (run, finished, exit_code, text) VALUES (?, ?, ?, ?)", (number, *values)
            )
    kept = 0
    for _, (run, body) in sorted(bodies.items()):
        with contextlib.suppress(ValueError, KeyError, TypeError):  # its bytes are there, and make no record
            insert(new, run, from_dict(json.loads(body)))
            kept += 1
    return kept


def _copy_cache(damaged: Path, new: sqlite3.Connection) -> None:
    """Compilations, as far as they can be read at all: they can be made again."""
    with contextlib.closing(sqlite3.connect(damaged)) as old, contextlib.suppress(sqlite3.Error):
        for key, value in old.execute("SELECT key, value FROM cache"):
            new.execute("INSERT OR IGNORE INTO cache (key, value) VALUES (?, ?)", (key, value))
