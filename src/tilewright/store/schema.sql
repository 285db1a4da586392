-- The store, version 1. Rows are added, never changed, but for `cache`, which holds nothing that cannot be made again.
-- Each statement may run on a store that has it already: two processes may create the file at once.

CREATE TABLE IF NOT EXISTS meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

INSERT OR IGNORE INTO meta (name, value) VALUES ('version', '1');

-- One command. `uid` names it in any store, so that two stores can be merged.
CREATE TABLE IF NOT EXISTS run (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    uid       TEXT NOT NULL UNIQUE,
    started   TEXT NOT NULL,      -- ISO 8601, UTC
    command   TEXT NOT NULL,
    operators TEXT NOT NULL,      -- a JSON list of names
    chip      TEXT NOT NULL,
    revision  TEXT                -- the commit that was checked out
);

-- How a run ended; a run that was killed has no row.
CREATE TABLE IF NOT EXISTS ending (
    run       INTEGER PRIMARY KEY REFERENCES run (id),
    finished  TEXT NOT NULL,
    exit_code INTEGER NOT NULL,
    text      TEXT NOT NULL
);

-- Any record, as `records.to_dict` writes it. `key` tells records of one type, operator and case apart:
-- a Trial's configuration, a Comparison's baseline, a Finding's kind.
CREATE TABLE IF NOT EXISTS record (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES run (id),
    type     TEXT NOT NULL,
    operator TEXT,
    case_id  TEXT,
    key      TEXT,
    body     TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS record_by_operator ON record (type, operator, case_id);
CREATE INDEX IF NOT EXISTS record_by_run ON record (run, type);

-- Each fault of a run once, in however many cases and records it came.
CREATE TABLE IF NOT EXISTS fault (
    run  INTEGER NOT NULL REFERENCES run (id),
    name TEXT NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;

-- Each case that any record named, so that `--case ID` finds it again.
CREATE TABLE IF NOT EXISTS known_case (
    id       TEXT NOT NULL,
    operator TEXT NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (id, operator, body)
) WITHOUT ROWID;

-- Results by the hash of all that they follow from.
CREATE TABLE IF NOT EXISTS cache (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
