"""Programs that wait: deadlocks by their line, and what locks and flags order and what they do not."""

import guarded
import pytest
import rows
import torch
import waits
from execution import TARGET, execute, faults, tagged

from tilewright.debug.executor import order
from tilewright.debug.executor.program import compiled
from tilewright.launch.capture import capture


def kinds(launcher, *args):
    return sorted({(f.kind, tagged(f) or "") for f in faults(launcher, *args)})


@pytest.mark.parametrize(
    ("launcher", "wrong", "right", "stuck", "first"),
    [
        (guarded.lock_is_kept, (False,), (True,), 4, (1, 0, 0)),
        (guarded.spin_by_exchange, (False,), (True,), 2, (1, 0, 0)),
        (guarded.flag_nobody_sets, (False,), (True,), 1, (0, 0, 0)),
        (guarded.flag_nobody_sets, (False, True), (True, True), 1, (0, 0, 0)),
        (guarded.flag_nobody_sets, (False, False, True), (True, False, True), 1, (0, 0, 0)),
        (guarded.loop_without_a_step, (0,), (1,), 2, (0, 0, 0)),
    ],
)
def test_programs_that_none_can_free_are_a_deadlock_at_the_line_they_wait_on(launcher, wrong, right, stuck, first):
    (finding,) = faults(launcher, *wrong)
    assert (finding.kind, tagged(finding), finding.severity) == ("deadlock", "deadlock", "error")
    assert (finding.programs, finding.program) == (stuck, first)
    assert not faults(launcher, *right)


def test_a_loop_that_gives_up_is_no_deadlock():
    out, executor = execute(guarded.gives_up_after_some_tries)
    assert out.tolist() == [0, 20, 20]
    assert not executor.findings()


def test_a_search_waits_for_nobody_and_runs_all_programs_at_once():
    (out, expected), executor = execute(guarded.binary_search)
    assert out.tolist() == expected.tolist()
    assert not executor.findings()
    launches = []
    with capture(launches.append, TARGET, executes=False):
        guarded.binary_search()
        guarded.lock_is_kept(True)
    assert [compiled(launch, TARGET).waits for launch in launches] == [False, True]


def test_a_lock_orders_what_it_guards():
    (expected, total), executor = execute(guarded.sum_under_lock)
    torch.testing.assert_close(total, expected)
    assert not executor.findings()


@pytest.mark.parametrize(
    "how",
    [dict(lock=False), dict(own=True), dict(sem="relaxed"), dict(late=True)],
    ids=["no lock", "each its own lock", "released in no order", "released too early"],
)
def test_what_no_lock_guards_is_a_race(how):
    found = faults(lambda: guarded.sum_under_lock(**how))
    assert {f.kind for f in found} <= {"read-write-race", "write-write-race"}
    assert {tagged(f) for f in found} <= {"read", "write"}
    assert {f.tensor for f in found} == {"sum_ptr"}
    assert "write" in {tagged(f) for f in found}


def test_a_flag_hands_over_only_with_a_release():
    assert not faults(guarded.handed_over, "release")
    assert kinds(guarded.handed_over, "relaxed") == [("read-write-race", "data")]
    assert kinds(guarded.handed_over, "late") == [("read-write-race", "data")]
    assert not faults(guarded.handed_over, "release", "fenced")
    assert kinds(guarded.handed_over, "release", "relaxed") == [("read-write-race", "data")]
    assert kinds(guarded.handed_over, "plain") == [("read-write-race", "data"), ("read-write-race", "flag")]


def test_a_flag_polled_with_plain_loads_is_a_race():
    assert {kind for kind, _ in kinds(guarded.handed_over, "release", "plain")} == {"read-write-race"}


def test_a_ticket_orders_who_looks_at_it_and_what_came_before_it():
    assert not faults(guarded.ticketed, True)
    assert kinds(guarded.ticketed, False) == [("write-write-race", "write")]
    assert kinds(guarded.ticketed, False, False) == [("write-write-race", "write")]
    assert not faults(guarded.reduced_by_the_last, False)
    assert kinds(guarded.reduced_by_the_last, True) == [("read-write-race", "read")]


def test_an_atomic_whose_value_nobody_looks_at_orders_nothing():
    assert not faults(guarded.after_unseen, True)
    assert kinds(guarded.after_unseen, False) == [("read-write-race", "read")]


def test_without_its_barrier_a_grid_races():
    assert not faults(waits.grid_barrier)
    assert {f.kind for f in faults(waits.grid_barrier, False)} == {"read-write-race"}


@pytest.mark.parametrize("technique", waits.TECHNIQUES, ids=lambda technique: technique.__name__)
@pytest.mark.parametrize("way", ["backwards", "without exact clocks"])
def test_programs_that_wait_are_right_in_any_order(technique, way, monkeypatch):
    monkeypatch.setattr(order, "EXACT_PROGRAMS", 4096 if way == "backwards" else 0)
    torch.manual_seed(0)
    pairs, executor = execute(technique, backwards=way == "backwards")
    assert not [f for f in executor.findings() if f.severity != "note"]
    for got, expected in pairs:
        torch.testing.assert_close(got, expected.to(got.dtype), atol=1e-4, rtol=1e-4)


def test_hundreds_of_programs_under_locks_take_seconds():
    pairs, executor = execute(rows.layer_norm, 200, 64, 8)
    assert not executor.findings()
    for got, expected in pairs:
        torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-3)
