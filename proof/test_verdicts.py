"""What is promised of verdicts, held against machines whose noise is known. Minutes; ``verdict_study.py`` has the rows."""

import pytest
import verdict_study
from plans import TOO_NOISY
from results import keep


@pytest.fixture(scope="module")
def figures():
    found = verdict_study.timed(verdict_study.PLANS)
    keep("verdicts", found)
    return found


def gate(figures, slowdown, *, noisy=False):
    rows = [row for row in figures["ours"] if row["plan"] == "gate" and row["slowdown"] == slowdown]
    return [row for row in rows if noisy or row["machine"] != TOO_NOISY.noise.name]


def test_intervals_hold_the_truth_as_often_as_they_say(figures):
    for slowdown in verdict_study.SLOWDOWNS["gate"]:
        assert all(0.93 <= row["coverage"] <= 0.97 for row in gate(figures, slowdown, noisy=True))


def test_what_is_the_same_is_never_called_faster_or_slower(figures):
    same = [row for row in figures["ours"] if row["slowdown"] == 0]
    assert {row["plan"] for row in same} == {"gate", "quick"}
    assert all(row["faster"] + row["slower"] <= 0.01 for row in same)
    assert all(row["runs_with_a_false_verdict"] <= 0.01 for row in figures["runs"])


def test_a_gate_finds_slowdowns_of_one_and_two_percent(figures):
    assert all(row["faster"] >= 0.95 for row in gate(figures, 0.01))
    assert all(row["faster"] >= 0.99 for row in gate(figures, 0.02))
    assert all(row["undecided"] <= 0.05 for slowdown in (0.0, 0.01, 0.02) for row in gate(figures, slowdown))


def test_whoever_stops_when_a_look_pleases_errs_no_more_often_than_allowed(figures):
    margin = verdict_study.GATE.margin  # the hardest truth: just not beyond what may be claimed
    assert all(row["claims_when_peeking"] <= 0.035 for row in gate(figures, margin, noisy=True))
