"""A damaged store goes on with what can be read of it."""

import random
import sqlite3

import pytest

from tilewright.errors import StoreUnusable
from tilewright.records import Case, Config, Environment, Trial
from tilewright.store.db import Store

ENVIRONMENT = Environment(
    "c", None, None, None, None, None, "p", 1, "3", None, None, None, None, None, "t", None, "now"
)
TRIALS = [
    Trial("op", Case("op", {"n": 1}), Config({"BLOCK": n}), "h100", "timed", median_seconds=n) for n in range(120)
]
PAGE = 4096


@pytest.fixture
def filled(tmp_path):
    path = tmp_path / "store.db"
    with Store(path) as store:
        run = store.begin_run("tune op", ["op"], ENVIRONMENT)
        for trial in TRIALS:
            store.add(run, trial)
        store.finish_run(run, 0, "done")
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def broken(path, page, content=None):
    content = content or random.Random(page).randbytes(PAGE)
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(content)


def read(path):
    with Store(path) as store:
        found = list(store.records("Trial"))
        return found, store.note, store.begin_run("again", [], ENVIRONMENT)


def test_any_broken_page_costs_what_was_on_it_and_no_more(filled):
    sound = filled.read_bytes()
    lost = []
    for page in range(1, len(sound) // PAGE, 3):
        filled.write_bytes(sound)
        broken(filled, page, bytes(PAGE) if page % 2 else None)
        found, note, run = read(filled)
        assert {t.config.key for t in found} <= {t.config.key for t in TRIALS}
        assert all(t in TRIALS for t in found)
        lost.append(len(TRIALS) - len(found))
        assert run >= 1
        if lost[-1]:
            assert "was damaged" in note
    assert max(lost) < 30, "a page of Trials at most"
    assert sum(lost) > 0


def test_the_old_file_is_kept_aside_and_the_new_one_is_a_store(filled):
    broken(filled, 3)
    _, note, _ = read(filled)
    (aside,) = filled.parent.glob("store.db.damaged-*[0-9]")
    assert str(aside) in note
    assert read(filled)[1] is None
    assert not list(filled.parent.glob("*.salvaged-*"))


def test_a_store_without_its_first_page_is_mended_where_it_is_a_store_for_sure(filled):
    kept = filled.parent / ".tilewright" / "store.db"
    kept.parent.mkdir()
    kept.write_bytes(filled.read_bytes())
    broken(kept, 0)
    found, note, _ = read(kept)
    assert len(found) == len(TRIALS)
    assert "was damaged: 121 records" in note
    broken(filled, 0)
    with pytest.raises(StoreUnusable, match="file is not a database"):
        read(filled)


def test_a_record_that_is_no_json_any_more_is_left_out(filled):
    with sqlite3.connect(filled) as db:  # commits
        db.execute("UPDATE record SET body = substr(body, 1, 50) WHERE id = 17")
    db.close()
    found, note, _ = read(filled)
    assert len(found) == len(TRIALS) - 1
    assert "was damaged" in note
