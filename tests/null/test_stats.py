"""Estimates, intervals and verdicts: nothing here needs a GPU, or knows of one."""

import math

import numpy as np
import pytest

from tilewright.bench import student
from tilewright.bench.stats import Estimate, log_ratios, lowered, of_one_process, of_processes
from tilewright.bench.verdict import Subject, judge, noise_floor

CALM = noise_floor(Estimate(0.0, 0.0005, 14))


@pytest.mark.parametrize(
    ("tail", "freedom", "expected"),
    [(0.025, 1, 12.7062), (0.025, 4, 2.77645), (0.005, 9, 3.24984), (0.025, 30, 2.04227), (0.025, 1e9, 1.95996)],
)
def test_quantiles_of_students_t_are_those_of_the_tables(tail, freedom, expected):
    assert student.quantile(tail, freedom) == pytest.approx(expected, rel=2e-5)
    assert student.upper_tail(expected, freedom) == pytest.approx(tail, rel=2e-4)


def test_the_interval_over_few_processes_holds_the_truth_95_times_in_100():
    rng = np.random.default_rng(0)
    for processes in (3, 6):
        order = [p % 2 == 1 for p in range(processes)]
        centres = 0.1 + 0.01 * rng.standard_normal((4000, processes)) + 0.05 * np.where(order, 1, -1)
        found = [of_processes(row, order).interval() for row in centres]
        assert np.mean([low <= math.exp(0.1) <= high for low, high in found]) == pytest.approx(0.95, abs=0.011)


def test_the_interval_of_one_process_counts_stretches_and_what_it_cannot_see():
    rng = np.random.default_rng(1)
    found = [of_one_process(0.01 * rng.standard_normal(40)) for _ in range(2000)]
    assert 0.93 <= np.mean([low <= 1 <= high for low, high in (e.interval() for e in found)]) <= 0.98
    with_unseen = of_one_process(0.01 * rng.standard_normal(40), unseen=0.05)
    assert with_unseen.error > 0.05
    assert with_unseen.freedom > 1000


@pytest.mark.parametrize("logs", [[], [0.1], [0.1, 0.2]])
def test_too_few_samples_give_no_interval(logs):
    assert of_one_process(np.array(logs)).interval()[1] == math.inf
    assert of_processes(logs[:1], [False] * len(logs[:1])).interval()[1] == math.inf


def test_a_round_cancels_what_drifts_steadily():
    slots = np.exp(0.01 * np.arange(8)).reshape(2, 4)  # ABBA, twice
    ours, theirs = slots[:, [0, 3]], 1.5 * slots[:, [1, 2]]
    assert log_ratios(theirs, ours) == pytest.approx([math.log(1.5)] * 2)


def test_rounds_under_a_clock_drop_are_found_but_not_a_side_that_always_runs_lower():
    clocks = np.full((20, 2, 2), 1980.0)
    clocks[:, 1] = 1700.0  # draws more power
    clocks[7, 0, 1] = 1800.0
    assert np.flatnonzero(lowered(clocks)).tolist() == [7]


@pytest.mark.parametrize(
    ("ratio", "floor", "expected", "why"),
    [
        (Estimate(0.03, 0.001, 14), CALM, "FASTER", ""),
        (Estimate(-0.03, 0.001, 14), CALM, "SLOWER", ""),
        (Estimate(0.001, 0.001, 14), CALM, "SAME", ""),
        (Estimate(0.006, 0.001, 14), CALM, "UNDECIDED", "reaches over the margin"),
        (Estimate(0.001, 0.01, 14), CALM, "UNDECIDED", "wider than the margins"),
        (Estimate(0.001, 0.001, 14), noise_floor(Estimate(0.0, 0.01, 14)), "UNDECIDED", "strays up to 2.2 %"),
        (Estimate(0.02, 0.001, 14), noise_floor(Estimate(0.02, 0.001, 14)), "UNDECIDED", "strays up to 2.2 %"),
        (Estimate(0.03, 0.0, 0), CALM, "UNDECIDED", "too few samples"),
    ],
)
def test_a_verdict_asks_for_the_whole_interval_beyond_margin_and_noise(ratio, floor, expected, why):
    judged = judge([Subject(ratio, floor)], margin=0.005)[0]
    assert judged.verdict == expected
    assert why in judged.why
    assert bool(judged.why) == (expected == "UNDECIDED")


def test_what_holds_alone_may_not_hold_among_many_shapes():
    doubtful, clear = Estimate(0.0085, 0.0015, 14), Estimate(0.2, 0.001, 14)
    assert judge([Subject(doubtful, CALM)], 0.005)[0].verdict == "FASTER"
    among = judge([Subject(doubtful, CALM)] * 20 + [Subject(clear, CALM)], 0.005)
    assert among[0].verdict == "UNDECIDED"
    assert "not sure enough among 21 comparisons" in among[0].why
    assert among[-1].verdict == "FASTER"
    assert judge([Subject(doubtful, CALM, share=0.1)], 0.005)[0].verdict == "UNDECIDED"


def test_a_plan_that_does_not_see_its_control_calls_nothing_the_same():
    judged = judge([Subject(Estimate(0.0, 0.001, 14), CALM, saw_control=False)], margin=0.005)[0]
    assert judged.verdict == "UNDECIDED"
    assert "known slowdown" in judged.why


def test_noise_floor_is_the_farthest_the_self_comparison_strays():
    assert noise_floor(Estimate(-0.01, 0.0, 5)) == pytest.approx(math.expm1(0.01))
    assert noise_floor(Estimate(0.0, 0.01, 1e9)) == pytest.approx(math.expm1(0.0196), rel=1e-3)
