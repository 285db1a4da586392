"""Child processes: whatever a task does to its process reaches the caller as an error, and nothing is left running."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import process_tasks
import pytest

from tilewright import process
from tilewright.errors import ChildFailed, KernelCompileError, UsageError
from tilewright.process import Limits, Worker, run, run_many

TASKS = "process_tasks:"


def is_running(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def becomes(condition, seconds=5.0):
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def kill_and_wait(pid):
    """Kills a child of ours; it is left for its owner to reap."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def worker():
    with Worker(quiet=True) as one:
        yield one


# -------------------------------------------------------------------------------------------------- answers


def test_a_task_answers():
    assert run(TASKS + "add", {"a": 2, "b": 3}) == 5
    assert run(TASKS + "nothing", {}) is None


def test_events_come_in_order_and_before_the_answer():
    seen = []
    assert run(TASKS + "count_up", {"to": 100}, on_event=seen.append) == "done"
    assert seen == list(range(100))


def test_a_worker_serves_task_after_task_in_one_process(worker):
    answers = []
    for _ in range(2):
        worker.submit(TASKS + "process_id", {})
        answers.append(worker.result())
    assert answers == [worker.pid, worker.pid]
    assert worker.pid != os.getpid()


def test_a_closed_worker_has_ended():
    worker = Worker()
    worker.close()
    assert not is_running(worker.pid)


def test_variables_are_set_and_removed_before_python_starts(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_TEST_OLD", "old")
    names = {"names": ["TILEWRIGHT_TEST_OLD", "TILEWRIGHT_TEST_NEW"]}
    assert run(TASKS + "environment", names) == ["old", None]
    changes = {"TILEWRIGHT_TEST_OLD": None, "TILEWRIGHT_TEST_NEW": "new"}
    assert run(TASKS + "environment", names, env=changes) == [None, "new"]


@pytest.mark.parametrize(
    ("options", "out", "err"),
    [({}, "said", "said"), ({"stdout_to_stderr": True}, "", "saidsaid"), ({"quiet": True}, "", "")],
)
def test_what_a_child_prints_goes_where_it_should(capfd, options, out, err):
    run(TASKS + "speak", {"text": "said"}, **options)
    printed = capfd.readouterr()
    assert (printed.out.replace("\n", ""), printed.err.replace("\n", "")) == (out, err)


# ------------------------------------------------------------------------------------------------- failures


def test_our_own_errors_pass_through_with_their_remedy():
    with pytest.raises(KernelCompileError) as caught:
        run(TASKS + "refuse", {"what": "it does not compile"})
    assert (caught.value.what, caught.value.remedy, caught.value.exit_code) == ("it does not compile", "mend it", 1)
    with pytest.raises(ChildFailed) as failed:
        run(TASKS + "fail", {"reason": "memory"})
    assert (failed.value.what, failed.value.remedy, failed.value.reason) == ("no more", "try again", "memory")


def test_an_exception_is_named_with_its_place_and_carries_its_traceback(worker):
    worker.submit(TASKS + "divide", {"by": 0})
    line = Path(process_tasks.__file__).read_text().splitlines().index("    return 1 / by") + 1
    with pytest.raises(ChildFailed) as caught:
        worker.result()
    assert str(caught.value) == f"ZeroDivisionError: division by zero (process_tasks.py:{line})"
    assert caught.value.reason == "crashed"
    assert "return 1 / by" in caught.value.__notes__[0]
    worker.submit(TASKS + "divide", {"by": 2})
    assert worker.result() == 0.5, "an exception does not cost the process"


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL])
def test_a_death_by_signal_is_named(number, worker):
    worker.submit(TASKS + "die", {"number": number})
    with pytest.raises(ChildFailed, match=f"^the process died of {number.name}$") as caught:
        worker.result()
    assert caught.value.reason == "crashed"


@pytest.mark.parametrize("code", [0, 3])
def test_a_task_that_leaves_is_a_failure_with_its_exit_code(code, worker):
    worker.submit(TASKS + "leave", {"code": code})
    with pytest.raises(ChildFailed, match=f"^the process ended with exit code {code}$"):
        worker.result()


def test_an_unknown_task_is_a_failure(worker):
    worker.submit(TASKS + "no_such_task", {})
    with pytest.raises(ChildFailed, match="AttributeError"):
        worker.result()


def test_an_answer_that_cannot_be_sent_is_said_and_costs_no_process(worker):
    worker.submit(TASKS + "unsendable", {})
    with pytest.raises(ChildFailed, match="its answer cannot be sent to another process: TypeError"):
        worker.result()
    worker.submit(TASKS + "add", {"a": 1, "b": 1})
    assert worker.result() == 2


def test_a_death_is_seen_though_a_forked_copy_holds_the_pipe_open(worker, tmp_path):
    worker.submit(TASKS + "fork_and_die", {"file": str(tmp_path / "pid")}, Limits(seconds=20))
    with pytest.raises(ChildFailed, match="^the process died of SIGKILL$"):
        worker.result()
    assert becomes(lambda: not is_running((tmp_path / "pid").read_text()))


def test_a_task_given_to_a_dead_worker_fails(worker):
    kill_and_wait(worker.pid)
    with pytest.raises(ChildFailed, match="SIGKILL"):
        worker.submit(TASKS + "add", {"a": 1, "b": 1})


def test_errors_keep_what_they_carry_when_they_are_pickled():
    error = ChildFailed("what", "remedy", "timeout")
    error.add_note("a note")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.what, copy.remedy, copy.reason, copy.__notes__) == (
        ChildFailed, "what", "remedy", "timeout", ["a note"],
    )  # fmt: skip
    assert str(copy) == "what; remedy"


# --------------------------------------------------------------------------------------------------- limits


def test_a_task_that_takes_too_long_is_killed(worker):
    started = time.monotonic()
    worker.submit(TASKS + "sleep", {"seconds": 60}, Limits(seconds=0.3))
    with pytest.raises(ChildFailed, match=r"^no answer within 0\.3 s$") as caught:
        worker.result()
    assert caught.value.reason == "timeout"
    assert 0.3 <= time.monotonic() - started < 5
    assert not is_running(worker.pid)


def test_each_task_has_its_own_clock(worker):
    for _ in range(3):
        worker.submit(TASKS + "sleep", {"seconds": 0.4}, Limits(seconds=1.0))
        assert worker.result() == "awake"


def test_the_clock_stands_while_the_user_has_the_terminal(worker):
    worker.submit(TASKS + "nothing", {})
    worker.result()  # it has started
    seen = []
    worker.submit(TASKS + "pause", {"seconds": 0.8}, Limits(seconds=0.4))
    assert worker.result(seen.append) == "back"
    assert seen == [], "pausing is between the two processes"


def test_a_task_that_takes_too_much_memory_is_killed(worker):
    worker.submit(TASKS + "swallow", {"mebibytes": 400}, Limits(memory_bytes=200 * 2**20))
    with pytest.raises(ChildFailed, match=r"^used 0\.\d GiB of memory, limit 0\.2 GiB$") as caught:
        worker.result()
    assert caught.value.reason == "memory"
    assert not is_running(worker.pid)


def test_memory_of_the_programs_a_task_starts_counts_too(worker, tmp_path):
    worker.submit(TASKS + "with_a_child", {"file": str(tmp_path / "pids")})
    assert becomes((tmp_path / "pids").exists)
    started = int((tmp_path / "pids").read_text().split()[1])
    assert becomes(lambda: process._resident_bytes(started) > 0)  # all processes are looked at now and then only
    assert process._resident_bytes(worker.pid) > process._resident_bytes(started)


# ------------------------------------------------------------------------------------------------ many jobs


def test_many_jobs_all_answer_with_their_index():
    jobs = [{"a": number, "b": 10 * number} for number in range(12)]
    assert dict(run_many(TASKS + "add", jobs, workers=2)) == {number: 11 * number for number in range(12)}


def test_answers_come_in_the_order_they_end():
    jobs = [{"name": "slow", "seconds": 1.5}, {"name": "quick"}, {"name": "quick"}]
    assert [index for index, _ in run_many(TASKS + "maybe_die", jobs, workers=2)] == [1, 2, 0]


def test_a_crash_costs_one_job_and_its_worker_is_replaced():
    jobs = [{"name": name, "dies": name in "bd"} for name in "abcdef"]
    answers = dict(run_many(TASKS + "maybe_die", jobs, workers=1, quiet=True))
    assert [answers[i][0] for i in (0, 2, 4, 5)] == list("acef")
    for index in (1, 3):
        assert isinstance(answers[index], ChildFailed)
        assert answers[index].what == "the process died of SIGABRT"
    processes = [answers[i][1] for i in (0, 2, 4, 5)]
    assert len(set(processes)) == 3, "one process until each crash, and the same one where there was none"
    assert processes[2] == processes[3]


def test_errors_of_ours_are_answers_and_cost_no_worker():
    answers = dict(run_many(TASKS + "refuse", [{"what": "one"}, {"what": "two"}], workers=1))
    assert [type(answers[i]) for i in (0, 1)] == [KernelCompileError, KernelCompileError]
    assert [answers[i].what for i in (0, 1)] == ["one", "two"]


def test_limits_hold_for_each_of_many_jobs():
    jobs = [{"seconds": 60}, {"seconds": 0}]
    answers = dict(run_many(TASKS + "sleep", jobs, workers=2, limits=Limits(seconds=1.5)))
    assert answers[1] == "awake"
    assert answers[0].reason == "timeout"


def test_an_idle_worker_that_died_is_replaced():
    jobs = [{"name": "first"}, {"name": "second"}]
    answers = run_many(TASKS + "maybe_die", iter(jobs), workers=1)
    index, (name, pid) = next(answers)
    assert (index, name) == (0, "first")
    kill_and_wait(pid)
    assert next(answers)[1][0] == "second"


def test_no_jobs_and_no_workers_end():
    assert list(run_many(TASKS + "add", [], workers=2)) == []
    assert list(run_many(TASKS + "add", [{"a": 1, "b": 2}], workers=0)) == [(0, 3)]


def test_whoever_stops_listening_leaves_no_process_behind():
    before = set(children_of(os.getpid()))
    answers = run_many(TASKS + "maybe_die", [{"name": "a"}, {"name": "b", "seconds": 60}], workers=2)
    _, (_, pid) = next(answers)
    answers.close()
    assert becomes(lambda: not is_running(pid))
    assert set(children_of(os.getpid())) <= before


def children_of(parent):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_running(entry.name):
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == parent:
                found.append(int(entry.name))
    return found


# -------------------------------------------------------------------------------------------- nothing left


def test_a_kill_takes_the_programs_that_the_task_started(worker, tmp_path):
    worker.submit(TASKS + "with_a_child", {"file": str(tmp_path / "pids")})
    assert becomes((tmp_path / "pids").exists)
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert all(map(is_running, pids))
    worker.kill()
    assert becomes(lambda: not any(map(is_running, pids)))
    worker.kill()  # a second time does nothing


def test_a_crash_takes_the_programs_that_the_task_started(worker, tmp_path):
    worker.submit(TASKS + "with_a_child", {"file": str(tmp_path / "pids"), "then": "die"})
    with pytest.raises(ChildFailed):
        worker.result()
    pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
    assert becomes(lambda: not any(map(is_running, pids)))


PARENT = """
import sys
from tilewright.process import Limits, run, run_many
if sys.argv[2] == "one":
    run("process_tasks:with_a_child", {"file": sys.argv[1] + "/0"})
else:
    jobs = [{"file": f"{sys.argv[1]}/{number}"} for number in range(2)]
    list(run_many("process_tasks:with_a_child", jobs, workers=2))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
@pytest.mark.parametrize("how", ["one", "many"])
def test_no_process_outlives_its_parent(number, how, tmp_path):
    env = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), how], env=env, stderr=subprocess.DEVNULL)
    files = [tmp_path / "0"] if how == "one" else [tmp_path / "0", tmp_path / "1"]
    try:
        assert becomes(lambda: all(file.exists() for file in files), 20)
        pids = [int(word) for file in files for word in file.read_text().split()]
        assert all(map(is_running, pids))
        parent.send_signal(number)
        assert parent.wait(timeout=10) == -number
        assert becomes(lambda: not any(map(is_running, pids)))
    finally:
        parent.kill()


def test_ctrl_c_while_waiting_kills_the_child_and_is_raised_on():
    worker = Worker(quiet=True)

    def interrupt(event):
        raise KeyboardInterrupt

    worker.submit(TASKS + "sleep", {"seconds": 60})
    with pytest.raises(KeyboardInterrupt):
        worker.result(interrupt)
    assert not is_running(worker.pid)


# ---------------------------------------------------------------------------------------------- recursion


def test_a_child_may_use_a_child_but_no_deeper():
    assert run(TASKS + "again", {"levels": 1}) == 1
    with pytest.raises(UsageError, match="a child process started the pipeline again") as caught:
        run(TASKS + "again", {"levels": 5})
    assert '__name__ == "__main__"' in caught.value.remedy
