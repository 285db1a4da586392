"""What a child does with a configuration, on a CPU's clock: checked first, timed on inputs written anew, or given up."""

import math

import plain
import pytest

from tilewright.bench.timer import HostTimer
from tilewright.errors import LauncherFailed
from tilewright.launch import kept
from tilewright.records import Case, Config
from tilewright.spec.load import address
from tilewright.tune import measure
from tilewright.tune.gpu_runner import outcome_of


@pytest.fixture
def prepared(monkeypatch):
    from triton import knobs

    monkeypatch.setattr(kept, "use", lambda folder, triton_key: None)
    monkeypatch.setattr(knobs.compilation, "listener", None)

    def prepare(operator):
        made = []
        monkeypatch.setattr(measure._Child, "bench", None)
        given = dict(
            address=address(operator), case=Case(operator.name, {"n": 64}), regime="host", folder="", triton_key=""
        )
        measure.prepare(None, **given, device="cpu", timer=lambda regime: HostTimer())
        real = measure._Child.make
        monkeypatch.setattr(measure._Child, "make", lambda: made.append(1) or real())
        return made

    return prepare


def measured(kind, best=None):
    return measure.measure(None, config=Config({"KIND": kind}), seconds=0.01, best=best)


def test_a_right_configuration_is_timed_and_one_much_slower_than_the_best_is_given_up(prepared):
    prepared(plain.plain)
    right = measured("right")
    assert right.error_over_tolerance <= 1
    assert 0.0005 < right.low <= right.median <= right.high
    slow = measured("slow", best=right.median)
    assert (slow.abandoned, slow.low) == (True, None)
    assert slow.median >= 0.02
    assert not measured("slow").abandoned
    assert outcome_of(3, slow).told == slow.median
    assert "clearly slower" in outcome_of(3, slow).error


def test_wrong_values_are_not_timed_and_what_comes_behind_them_starts_on_inputs_made_anew(prepared):
    made = prepared(plain.plain)
    wrong, nan = measured("wrong"), measured("nan")
    assert wrong.median is None
    assert wrong.error_over_tolerance > 1
    assert nan.median is None
    assert not nan.error_over_tolerance <= 1
    assert outcome_of(0, nan).status == "wrong"
    assert measured("right").median
    assert len(made) == 2


def test_a_right_configuration_is_not_blamed_for_what_another_overwrote(prepared):
    made = prepared(plain.plain)
    assert measured("vandal").median
    assert not made
    assert measured("right").error_over_tolerance <= 1
    assert len(made) == 1


def test_what_it_raises_leaves_the_child_at_work(prepared):
    prepared(plain.plain)
    with pytest.raises(LauncherFailed, match="ValueError: no such tile"):
        measured("raises")
    with pytest.raises(LauncherFailed, match=r"out of the GPU's memory: CUDA out of memory\. Tried"):
        measured("memory")
    assert measured("right").median


def test_an_operator_in_place_meets_its_inputs_as_they_were_each_time(prepared):
    prepared(plain.in_place)
    for _ in range(2):
        found = measure.measure(None, config=Config({"STEPS": 1}), seconds=0.01)
        assert found.median is not None
    assert measure.measure(None, config=Config({"STEPS": 2}), seconds=0.01).median is None
    assert measure.measure(None, config=Config({"STEPS": 1}), seconds=0.01).median is not None


def test_a_duel_times_in_turns_and_leaves_out_what_fails_or_is_wrong(prepared):
    prepared(plain.plain)
    configs = [Config({"KIND": kind}) for kind in ("right", "raises", "wrong", "slow", "right")]
    columns = measure.duel(None, configs=configs, seconds=0.05, seed=0)
    assert sorted(columns) == [0, 3, 4]
    assert len({len(column) for column in columns.values()}) == 1
    assert min(columns[3]) > max(min(columns[0]), 0.02)
    assert all(math.isfinite(seconds) for column in columns.values() for seconds in column)
