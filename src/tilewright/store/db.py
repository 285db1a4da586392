"""The store: an append-only SQLite file in WAL mode, written by several processes at once.

Each ``add`` is committed before it returns. With ``synchronous=NORMAL`` a commit goes to the write-ahead
log without waiting for the disk: a killed process loses nothing, a power cut at most the last commits, and
neither leaves a broken file.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from tilewright import records
from tilewright.errors import StoreFromNewerVersion, StoreUnusable
from tilewright.records import Case, Environment
from tilewright.runtime.lock import alone
from tilewright.store import salvage
from tilewright.store.rows import RunSummary, insert, now, summary

VERSION = 1
DEFAULT_PATH = Path(".tilewright/store.db")
BUSY_SECONDS = 30.0
"""How long a writer waits for another one before it gives up."""

_APPLICATION_ID = 0x74696C65  # "tile" in the file's header: tells a store from another program's database
_PAGE = 500  # rows read at a time
_REMEDY = "choose another file with --store PATH, or go without with --no-store"
_HEX = frozenset("0123456789abcdef")


def default_path() -> Path:
    """``TILEWRIGHT_STORE``, or ``.tilewright/store.db`` below the working directory."""
    return Path(os.environ.get("TILEWRIGHT_STORE") or DEFAULT_PATH)


class NullStore:
    """A store that keeps nothing: what ``--no-store`` asks for."""

    path: Path | None = None
    note: str | None = None

    def begin_run(self, command: str, operators: Sequence[str], environment: Environment) -> int:
        return 0

    def add(self, run: int, record: Any) -> None:
        pass

    def finish_run(self, run: int, exit_code: int, text: str) -> None:
        pass

    def runs(self, limit: int | None = None) -> list[RunSummary]:
        return []

    def records(
        self,
        type_name: str,
        operator: str | None = None,
        run: int | None = None,
        *,
        case_id: str | None = None,
        key: str | None = None,
    ) -> Iterator[Any]:
        return iter(())

    def find_case(self, operator: str | None, id_prefix: str) -> list[Case]:
        return []

    def get(self, key: str) -> Mapping[str, Any] | None:
        return None

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> NullStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Store:
    """Records and results at ``path`` (None: :func:`default_path`).

    Nothing is touched before the first use; reading where there is no file finds nothing and makes none.
    Threads may share a store. A process that was forked must make its own.

    Raises, from any method:
        StoreFromNewerVersion: a later tilewright wrote the file.
        StoreUnusable: the folder cannot be written, the file is no store, or it stayed locked.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()
        self.note: str | None = None  # what had to be done to open it

    # ------------------------------------------------------------------------------------------- writing

    def begin_run(self, command: str, operators: Sequence[str], environment: Environment) -> int:
        """Starts a run and returns its number. The environment is kept as a record of it."""
        row = (uuid.uuid4().hex, now(), command, json.dumps(list(operators)), environment.chip, environment.commit)
        with self._writing() as db:
            added = db.execute(
                "INSERT INTO run (uid, started, command, operators, chip, revision) VALUES (?, ?, ?, ?, ?, ?)", row
            )
            run = int(added.lastrowid or 0)
            insert(db, run, environment)
        return run

    def add(self, run: int, record: Any) -> None:
        """Keeps a record, and notes the faults and cases in it.

        Raises:
            ValueError: there is no such run.
        """
        with self._writing() as db:
            insert(db, run, record)

    def finish_run(self, run: int, exit_code: int, text: str) -> None:
        """Notes how a run ended; the first end stays.

        Raises:
            ValueError: there is no such run.
        """
        with self._writing() as db:
            db.execute(
                "INSERT INTO ending (run, finished, exit_code, text) VALUES (?, ?, ?, ?) ON CONFLICT (run) DO NOTHING",
                (run, now(), exit_code, text),
            )

    # ------------------------------------------------------------------------------------------- reading

    def runs(self, limit: int | None = None) -> list[RunSummary]:
        """The latest runs, newest first; all of them if ``limit`` is None."""
        query = """
            SELECT run.*, ending.finished, ending.exit_code, ending.text,
                   (SELECT count(*) FROM fault WHERE fault.run = run.id),
                   (SELECT count(DISTINCT case_id || key) FROM record WHERE record.run = run.id AND type = 'Trial'),
                   (SELECT count(*) FROM record WHERE record.run = run.id AND type = 'Comparison')
            FROM run LEFT JOIN ending ON ending.run = run.id ORDER BY run.started DESC, run.id DESC LIMIT ?
        """
        return [summary(row) for row in self._rows(query, (-1 if limit is None else limit,))]

    def records(
        self,
        type_name: str,
        operator: str | None = None,
        run: int | None = None,
        *,
        case_id: str | None = None,
        key: str | None = None,
    ) -> Iterator[Any]:
        """Records of a type, such as ``"Trial"``, in the order they came here; an argument that is None matches all."""
        wanted = {"type": type_name, "operator": operator, "run": run, "case_id": case_id, "key": key}
        given = {name: value for name, value in wanted.items() if value is not None}
        condition = " AND ".join(f"{name} = ?" for name in given)
        query = f"SELECT id, body FROM record WHERE {condition} AND id > ? ORDER BY id LIMIT {_PAGE}"
        last = 0
        # By pages, so that whoever walks slowly holds no read transaction, which would keep the log from shrinking.
        while rows := self._rows(query, (*given.values(), last)):
            for _, body in rows:
                yield self._restored(body)
            last = rows[-1][0]

    def find_case(self, operator: str | None, id_prefix: str) -> list[Case]:
        """The cases whose id starts with ``id_prefix``, each once, over all records; of any operator if None."""
        prefix = id_prefix.strip().lower()
        if not prefix or not _HEX.issuperset(prefix):
            return []
        # "g" follows the last hex digit: a range, which the index can answer.
        query = (
            "SELECT body FROM known_case WHERE id >= ? AND id < ? AND (? IS NULL OR operator = ?) ORDER BY id, operator"
        )
        return [self._restored(body) for (body,) in self._rows(query, (prefix, prefix + "g", operator, operator))]

    # --------------------------------------------------------------------------------------------- cache

    def get(self, key: str) -> Mapping[str, Any] | None:
        """What was put under a content hash, or None."""
        rows = self._rows("SELECT value FROM cache WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else None

    def put(self, key: str, value: Mapping[str, Any]) -> None:
        """Keeps a JSON-ready mapping under a content hash, in place of what was there."""
        text = json.dumps(dict(value), sort_keys=True)
        with self._writing() as db:
            db.execute(
                "INSERT INTO cache (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, text),
            )

    # ------------------------------------------------------------------------------------ the connection

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction: committed at the end, undone by any exception, Ctrl-C included."""
        with self._lock, self._explained():
            db = self._opened()
            # IMMEDIATE waits for the other writer here, where waiting is possible, not at the first INSERT.
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except sqlite3.IntegrityError as error:
                raise ValueError(f"no such run in {self.path}: {error}") from None
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _rows(self, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._explained():
            if self._connection is None and not self.path.exists():
                return []
            return self._opened().execute(query, arguments).fetchall()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._connection = self._connect(self.path)
            except sqlite3.DatabaseError as error:
                if not salvage.can_be_salvaged(error, self.path):
                    raise
                self._connection = self._salvaged()
        return self._connection

    def _salvaged(self) -> sqlite3.Connection:
        with alone(self.path.parent):
            try:
                return self._connect(self.path)  # another process has done it meanwhile
            except sqlite3.DatabaseError:
                self.note = salvage.salvage(self.path, self._connect)
                return self._connect(self.path)

    def _connect(self, path: Path) -> sqlite3.Connection:
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        db.text_factory = lambda text: text.decode(errors="replace")
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Makes sure that the file is a store of this version, creating what is missing."""
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION_ID:
            raise StoreUnusable(f"{self.path} is a database of another program", _REMEDY)
        if tables:
            (version,) = db.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
            if int(version) > VERSION:
                words = f"{self.path} is a store of version {version}; this tilewright reads up to {VERSION}"
                raise StoreFromNewerVersion(words, f"upgrade tilewright, or {_REMEDY}")
            salvage.require_sound(db)
        _use_write_ahead_log(db)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        if not tables:
            schema = resources.files("tilewright.store").joinpath("schema.sql").read_text(encoding="utf-8")
            db.executescript(f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION_ID}; {schema} COMMIT;")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What SQLite and the file system say, as an error with a remedy."""
        try:
            yield
        except OSError as error:
            raise StoreUnusable(f"cannot use {self.path}: {error.strerror or error}", _REMEDY) from None
        except sqlite3.DatabaseError as error:
            raise StoreUnusable(f"cannot use {self.path}: {error}", _REMEDY) from None

    def _restored(self, body: str) -> Any:
        try:
            return records.from_dict(json.loads(body))
        except json.JSONDecodeError as error:
            raise StoreUnusable(f"{self.path} holds a record that cannot be read: {error}", _REMEDY) from None
        except ValueError as error:  # a type or a schema this version does not know
            raise StoreFromNewerVersion(f"{self.path}: {error}", f"upgrade tilewright, or {_REMEDY}") from None


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Switches to WAL. Two processes that switch a new file at once do not wait for each other: we do."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            # Where the file system has no shared memory the answer is another mode, and all works, only slower.
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
