"""The store keeps what it is given, finds it again, and survives other writers, kills and bad files."""

import dataclasses
import inspect
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tilewright.errors import StoreFromNewerVersion, StoreUnusable
from tilewright.records import Case, CaseResult, Comparison, Config, DebugReport, Environment, Finding, Timing, Trial
from tilewright.store.db import DEFAULT_PATH, NullStore, Store, default_path

ENVIRONMENT = Environment(
    chip="NVIDIA H100", arch="sm_90", driver="550.1", clock_mhz=1980, max_clock_mhz=1980, power_limit_watts=700.0,
    cpu="x86", cpu_count=8, python="3.12", torch="2.11", triton="3.6.0", ptxas="12.8", cuda="12.8", numpy="2.3",
    tilewright="0.1", commit="abc123", when="2026-01-01T00:00:00+00:00",
)  # fmt: skip
SMALL = Case("softmax", {"M": 1, "N": 127}, "bf16")
LARGE = Case("softmax", {"M": 4096, "N": 4096, "causal": True}, "fp32")
OTHER = Case("matmul", {"M": 16, "N": 16, "K": 16})


def trial(case=SMALL, **values):
    return Trial(case.operator, case, Config(values or {"BLOCK": 64}), "h100", "compiled", predicted_seconds=1e-5)


def comparison(case=LARGE, baseline="torch"):
    side = Timing("ours", 3, 1e-5, 0.9e-5, 1.1e-5, samples=(1e-5, 0.9e-5, 1.1e-5))
    return Comparison(
        case.operator, case, "large", baseline, 1.5, 1.4, float("inf"), "FASTER", "cold L2", side, side, 0.01
    )


def finding(case=SMALL, line=41, kind="out-of-bounds-read"):
    return Finding(kind, "reads k[127]", tensor="k_ptr", file="attention.py", line=line, program=(1, 0, 0), case=case)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "store.db"


@pytest.fixture
def store(path):
    with Store(path) as opened:
        yield opened


def test_the_default_path_and_the_variable_that_overrides_it(monkeypatch, tmp_path):
    monkeypatch.delenv("TILEWRIGHT_STORE", raising=False)
    assert default_path() == DEFAULT_PATH == Path(".tilewright/store.db")
    monkeypatch.setenv("TILEWRIGHT_STORE", str(tmp_path / "mine.db"))
    assert Store().path == tmp_path / "mine.db"
    assert Store(tmp_path / "other.db").path == tmp_path / "other.db"


def test_reading_where_there_is_no_store_finds_nothing_and_makes_none(store, path):
    assert store.runs(5) == []
    assert list(store.records("Trial")) == []
    assert store.find_case(None, "a") == []
    assert store.get("key") is None
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "record",
    [
        SMALL,
        finding(),
        trial(),
        comparison(),
        ENVIRONMENT,
        DebugReport("softmax", "interpreter", (CaseResult(SMALL, (finding(),)),)),
    ],
)
def test_a_record_comes_back_as_it_was(store, path, record):
    run = store.begin_run("debug softmax.py", ["softmax"], ENVIRONMENT)
    store.add(run, record)
    store.close()
    assert list(Store(path).records(type(record).__name__))[-1] == record


def test_the_environment_is_a_record_of_its_run(store):
    run = store.begin_run("bench x", ["x"], ENVIRONMENT)
    store.begin_run("bench x", ["x"], dataclasses.replace(ENVIRONMENT, chip="NVIDIA A100"))
    assert list(store.records("Environment", run=run)) == [ENVIRONMENT]


def test_records_are_found_by_operator_run_case_and_key(store):
    first = store.begin_run("tune", ["softmax"], ENVIRONMENT)
    second = store.begin_run("tune", ["softmax", "matmul"], ENVIRONMENT)
    wide, narrow, other = trial(BLOCK=128), trial(LARGE, BLOCK=64), trial(OTHER, BLOCK=64)
    store.add(first, wide)
    store.add(second, narrow)
    store.add(second, other)
    assert list(store.records("Trial")) == [wide, narrow, other]
    assert list(store.records("Trial", "softmax")) == [wide, narrow]
    assert list(store.records("Trial", run=second)) == [narrow, other]
    assert list(store.records("Trial", "softmax", second)) == [narrow]
    assert list(store.records("Trial", case_id=SMALL.id)) == [wide]
    assert list(store.records("Trial", key=f"h100 {wide.config.key}")) == [wide]
    assert list(store.records("Comparison")) == []


def test_more_records_than_a_page_come_in_order_while_others_are_added(store):
    run = store.begin_run("tune", ["softmax"], ENVIRONMENT)
    for number in range(1201):
        store.add(run, trial(BLOCK=number))
    walk = store.records("Trial")
    first = next(walk)
    store.add(run, trial(BLOCK=1201))
    blocks = [t.config.values["BLOCK"] for t in (first, *walk)]
    assert blocks == list(range(1202))


def test_a_run_in_a_line(store):
    run = store.begin_run("run softmax.py", ["softmax", "matmul"], ENVIRONMENT)
    report = DebugReport(
        "softmax", "interpreter",
        (CaseResult(SMALL, (finding(), finding(line=44))), CaseResult(LARGE, (finding(LARGE),))),
    )  # fmt: skip
    for result in report.results:
        store.add(run, result)
    store.add(run, report)
    store.add(run, trial())
    store.add(run, dataclasses.replace(trial(), status="timed", median_seconds=2e-5))  # the same configuration, timed
    store.add(run, trial(BLOCK=128))
    store.add(run, comparison())
    store.finish_run(run, 1, "2 errors")
    (summary,) = store.runs(10)
    assert (summary.command, summary.operators) == ("run softmax.py", ("softmax", "matmul"))
    assert (summary.exit_code, summary.text, summary.commit, summary.chip) == (1, "2 errors", "abc123", "NVIDIA H100")
    assert (summary.findings, summary.trials, summary.comparisons) == (2, 2, 1)
    assert 0 <= summary.seconds < 60
    assert summary.started.endswith("+00:00")


def test_runs_come_newest_first_and_a_run_without_an_end_says_so(store):
    numbers = [store.begin_run(f"run {i}", [], ENVIRONMENT) for i in range(4)]
    store.finish_run(numbers[2], 0, "done")
    store.finish_run(numbers[2], 1, "a second end changes nothing")
    newest, before = store.runs(2)
    assert (newest.id, newest.exit_code, newest.seconds, newest.text) == (numbers[3], None, None, "")
    assert (before.id, before.exit_code, before.text) == (numbers[2], 0, "done")
    assert len(store.runs()) == 4


def test_a_record_needs_a_run(store):
    store.begin_run("run", [], ENVIRONMENT)
    with pytest.raises(ValueError, match="no such run"):
        store.add(99, trial())
    with pytest.raises(ValueError, match="no such run"):
        store.finish_run(99, 0, "")
    assert list(store.records("Trial")) == []
    store.add(1, trial())  # the failed transaction left nothing behind


def test_a_case_is_found_by_the_start_of_its_id_wherever_it_was_seen(store):
    run = store.begin_run("debug", ["softmax"], ENVIRONMENT)
    store.add(
        run, DebugReport("softmax", "interpreter", (CaseResult(LARGE, (finding(SMALL),)),), smallest={"x": SMALL})
    )
    store.add(run, trial(OTHER))
    store.add(run, trial(OTHER, BLOCK=1))
    assert store.find_case("softmax", SMALL.id) == [SMALL]
    assert store.find_case(None, SMALL.id[:5].upper()) == [SMALL]
    assert store.find_case("matmul", OTHER.id[:4]) == [OTHER]
    assert store.find_case("softmax", OTHER.id) == []
    everything = [case for digit in "0123456789abcdef" for case in store.find_case(None, digit)]
    assert sorted(case.id for case in everything) == sorted(case.id for case in (SMALL, LARGE, OTHER))


@pytest.mark.parametrize("prefix", ["", "  ", "xyz", "%", "*", "' OR 1=1"])
def test_what_is_no_id_names_no_case(store, prefix):
    run = store.begin_run("debug", [], ENVIRONMENT)
    store.add(run, SMALL)
    assert store.find_case(None, prefix) == []


def test_the_cache_keeps_mappings_by_key(store, path):
    assert store.get("full:1") is None
    store.put("full:1", {"resources": {"shared": 49152, "registers": None, "compile_seconds": 1.5}})
    store.put("full:2", {"error": "does not compile"})
    store.put("full:2", {"error": "does not compile: line 3"})
    store.close()
    again = Store(path)
    assert again.get("full:1") == {"resources": {"shared": 49152, "registers": None, "compile_seconds": 1.5}}
    assert again.get("full:2") == {"error": "does not compile: line 3"}


def test_threads_share_a_store(store):
    run = store.begin_run("tune", ["softmax"], ENVIRONMENT)
    threads = [
        threading.Thread(target=lambda n=n: [store.add(run, trial(T=n, I=i)) for i in range(50)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.records("Trial"))) == 200


# ----------------------------------------------------------------------------------------- other processes

WRITER = """
    import sys
    sys.path[:] = {path!r}
    sys.path.insert(0, {here!r})
    from test_store import ENVIRONMENT, trial
    from tilewright.store.db import Store
    store = Store({store!r})
    run = store.begin_run("writer", ["softmax"], ENVIRONMENT)
    for number in range({count}):
        store.add(run, trial(W={name!r}, I=number))
        print(number, flush=True)
"""


def writer(path, name, count):
    here = str(Path(__file__).parent)
    code = textwrap.dedent(WRITER.format(path=sys.path, here=here, store=str(path), name=name, count=count))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_two_processes_that_create_and_write_at_once(path):
    children = [writer(path, name, 150) for name in ("a", "b")]
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    seen = [(t.config.values["W"], t.config.values["I"]) for t in Store(path).records("Trial")]
    assert sorted(seen) == [(name, i) for name in ("a", "b") for i in range(150)]
    assert [run.trials for run in Store(path).runs()] == [150, 150]


def test_a_killed_writer_loses_nothing_that_was_committed(path):
    child = writer(path, "a", 10**6)
    told = -1
    for line in child.stdout:
        told = int(line)
        if told >= 200:
            break
    os.kill(child.pid, signal.SIGKILL)
    told = max([told, *(int(line) for line in child.stdout.read().splitlines() if line.strip())])
    child.wait(timeout=10)
    with Store(path) as store:
        numbers = [t.config.values["I"] for t in store.records("Trial")]
        assert numbers == list(range(len(numbers)))
        assert told + 1 <= len(numbers) <= told + 2  # the last one may be kept and not yet told
        (run,) = store.runs()
        assert run.exit_code is None
        store.add(run.id, trial(W="after", I=0))
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_writing_waits_for_another_writer(path, store):
    run = store.begin_run("tune", [], ENVIRONMENT)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    release.start()
    started = time.monotonic()
    store.add(run, trial())
    assert time.monotonic() - started > 0.2
    release.join()
    assert len(list(store.records("Trial"))) == 1


def test_a_store_that_stays_locked_is_told(path, store, monkeypatch):
    run = store.begin_run("tune", [], ENVIRONMENT)
    store.close()
    monkeypatch.setattr("tilewright.store.db.BUSY_SECONDS", 0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnusable, match="locked"):
        store.add(run, trial())
    other.execute("ROLLBACK")
    store.add(run, trial())


# ----------------------------------------------------------------------------------------------- bad files


def assert_remedies(error):
    assert "--store PATH" in error.remedy
    assert "--no-store" in error.remedy
    assert "\n" not in str(error)


def test_a_store_of_a_newer_version_is_refused_and_left_alone(path, store):
    store.begin_run("run", [], ENVIRONMENT)
    store.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = '99' WHERE name = 'version'")
    for use in (lambda: store.runs(1), lambda: store.begin_run("run", [], ENVIRONMENT), lambda: store.get("k")):
        with pytest.raises(StoreFromNewerVersion, match="version 99; this tilewright reads up to 1") as caught:
            use()
        assert "upgrade tilewright" in caught.value.remedy
        assert_remedies(caught.value)
    assert sqlite3.connect(path).execute("SELECT count(*) FROM run").fetchone() == (1,)


def test_a_record_of_a_newer_schema_is_refused(path, store):
    run = store.begin_run("run", [], ENVIRONMENT)
    store.add(run, trial())
    with sqlite3.connect(path) as db:
        (body,) = db.execute("SELECT body FROM record WHERE type = 'Trial'").fetchone()
        db.execute("UPDATE record SET body = ? WHERE type = 'Trial'", (json.dumps({**json.loads(body), "schema": 99}),))
    with pytest.raises(StoreFromNewerVersion, match="record schema 99"):
        list(store.records("Trial"))


def test_a_file_that_is_no_database(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("this is not a database, and it is long enough to be looked at as one" * 20)
    for use in (lambda s: s.runs(1), lambda s: s.begin_run("run", [], ENVIRONMENT)):
        with pytest.raises(StoreUnusable, match="not a database") as caught:
            use(Store(text))
        assert_remedies(caught.value)
    assert text.read_text().startswith("this is not a database")


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(StoreUnusable, match="another program") as caught:
        Store(path).begin_run("run", [], ENVIRONMENT)
    assert_remedies(caught.value)
    assert sqlite3.connect(path).execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="cannot use") as caught:
        Store(tmp_path / "file" / "store.db").begin_run("run", [], ENVIRONMENT)
    assert_remedies(caught.value)


def test_a_path_that_is_a_folder(tmp_path):
    with pytest.raises(StoreUnusable, match="unable to open") as caught:
        Store(tmp_path).begin_run("run", [], ENVIRONMENT)
    assert_remedies(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(StoreUnusable) as caught:
        Store(tmp_path / "locked" / "store.db").begin_run("run", [], ENVIRONMENT)
    assert_remedies(caught.value)


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "store.db").touch()
    assert Store(tmp_path / "store.db").begin_run("run", [], ENVIRONMENT) == 1


# ------------------------------------------------------------------------------------------------ NullStore


def test_the_null_store_has_the_same_methods_and_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = NullStore()
    run = store.begin_run("run", ["softmax"], ENVIRONMENT)
    store.add(run, trial())
    store.put("key", {"a": 1})
    store.finish_run(run, 0, "done")
    assert (store.runs(3), list(store.records("Trial")), store.find_case(None, "a"), store.get("key")) == (
        [],
        [],
        [],
        None,
    )
    assert list(tmp_path.iterdir()) == []
    for name, method in inspect.getmembers(Store, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(getattr(NullStore, name)) == inspect.signature(method)


def test_the_store_imports_neither_torch_nor_triton():
    code = "import sys, tilewright.store.db; print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
