"""Stores merge without loss and without doubles, whoever writes meanwhile."""

import sqlite3
import subprocess
import sys
from collections import Counter

import pytest
from test_store import ENVIRONMENT, LARGE, SMALL, comparison, finding, trial

from tilewright.cli.main import main
from tilewright.errors import StoreFromNewerVersion, StoreUnusable
from tilewright.store.db import Store
from tilewright.store.merge import merge


def filled(path, command, *records, ends=True):
    store = Store(path)
    run = store.begin_run(command, ["softmax"], ENVIRONMENT)
    for record in records:
        store.add(run, record)
    if ends:
        store.finish_run(run, 1, "two findings")
    return store, run


def contents(path):
    """All that a store holds, without its own numbering."""
    with sqlite3.connect(path) as db:
        tables = {
            "run": "SELECT uid, started, command, operators, chip, revision FROM run",
            "ending": "SELECT uid, finished, exit_code, text FROM ending JOIN run ON run.id = run",
            "record": "SELECT uid, type, operator, case_id, key, body FROM record JOIN run ON run.id = run",
            "fault": "SELECT uid, name FROM fault JOIN run ON run.id = run",
            "known_case": "SELECT * FROM known_case",
            "cache": "SELECT * FROM cache",
        }
        return {name: Counter(db.execute(query)) for name, query in tables.items()}


@pytest.fixture
def two(tmp_path):
    one, _ = filled(tmp_path / "a.db", "tune a", trial(), trial(), trial(BLOCK=128), finding())
    other, _ = filled(tmp_path / "b.db", "bench b", comparison(), trial(LARGE), ends=False)
    one.put("full:1", {"shared": 1})
    other.put("full:2", {"shared": 2})
    return one, other


def test_the_merged_store_has_all_of_both_and_a_second_merge_changes_nothing(two):
    one, other = two
    before = [contents(store.path) for store in two]
    merged = merge(one, other)
    assert (merged.runs, merged.known_runs, merged.records) == (1, 0, 3)
    both = contents(one.path)
    assert both == {name: before[0][name] | before[1][name] for name in before[0]}
    again = merge(one, other)
    assert (again.runs, again.known_runs, again.records) == (0, 1, 0)
    assert contents(one.path) == both
    assert contents(other.path) == before[1]


def test_either_way_round_gives_the_same(two, tmp_path):
    for name, order in (("ab", two), ("ba", two[::-1])):
        for source in order:
            merge(Store(tmp_path / name), source)
    assert contents(tmp_path / "ab") == contents(tmp_path / "ba")


def test_of_a_run_that_went_on_only_the_rest_comes(two):
    one, other = two
    merge(one, other)
    run = other.runs()[0].id
    other.add(run, trial(LARGE))  # the same once more, which is a record of its own
    other.add(run, trial(SMALL, BLOCK=1))
    other.finish_run(run, 0, "done")
    merged = merge(one, other)
    assert (merged.runs, merged.records) == (0, 2)
    assert merge(one, other).records == 0
    assert [run.text for run in one.runs()] == ["done", "two findings"]


def test_what_came_is_found_as_if_it_had_been_here(two):
    one, other = two
    merge(one, other)
    assert [r.command for r in one.runs()] == ["bench b", "tune a"]
    assert list(one.records("Trial", case_id=LARGE.id)) == [trial(LARGE)]
    assert one.find_case("softmax", LARGE.id) == [LARGE]
    assert one.get("full:2") == {"shared": 2}


def test_runs_stay_in_the_order_of_time_whatever_came_first(two, tmp_path):
    late = Store(tmp_path / "late.db")
    for source in two[::-1]:
        merge(late, source)
    assert [run.command for run in late.runs()] == ["bench b", "tune a"]


def test_a_store_merged_with_itself_stays_as_it_is(two):
    one, _ = two
    before = contents(one.path)
    assert merge(one, Store(one.path)).records == 0
    assert contents(one.path) == before


def test_a_newer_store_and_one_that_is_not_there_are_refused_and_nothing_is_made(two, tmp_path):
    one, other = two
    other.close()
    with sqlite3.connect(other.path) as db:
        db.execute("UPDATE meta SET value = '99' WHERE name = 'version'")
    with pytest.raises(StoreFromNewerVersion, match="version 99"):
        merge(one, Store(other.path))
    with pytest.raises(StoreUnusable, match="no store at"):
        merge(one, Store(tmp_path / "nowhere.db"))
    assert not (tmp_path / "nowhere.db").exists()


def command_line(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["tilewright", "store", "merge", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_command_line_merges_into_the_first_or_a_new_one(two, tmp_path, monkeypatch, capsys):
    one, other = (store.path for store in two)
    before = contents(one)
    assert command_line(monkeypatch, one, other, "-o", tmp_path / "c.db") == 0
    assert "1 run and 3 records of" in capsys.readouterr().out
    assert contents(one) == before
    assert command_line(monkeypatch, one, other) == 0
    assert contents(one) == contents(tmp_path / "c.db")
    assert command_line(monkeypatch, one) == 2
    assert "merge needs two stores" in capsys.readouterr().err
    assert command_line(monkeypatch, tmp_path / "typo.db", other) == 2
    assert not (tmp_path / "typo.db").exists()


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from test_store import ENVIRONMENT, trial
from tilewright.store.db import Store
store = Store(sys.argv[1])
run = store.begin_run("tune", ["softmax"], ENVIRONMENT)
print("begun", flush=True)
for number in range(60):
    store.add(run, trial(BLOCK=number))
store.finish_run(run, 0, "done")
"""


def test_others_may_write_to_both_while_they_are_merged(two):
    one, other = two
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(s.path), *sys.path], stdout=subprocess.PIPE) for s in two
    ]
    for writer in writers:
        writer.stdout.readline()
    while any(writer.poll() is None for writer in writers):
        merge(one, other)
    merge(one, other)
    for writer in writers:
        writer.stdout.close()
        assert writer.wait() == 0
    expected, found = contents(other.path), contents(one.path)
    assert all(expected[name] <= found[name] for name in expected)
    assert len(list(one.records("Trial"))) == 3 + 1 + 120
