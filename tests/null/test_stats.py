"""Ratios, intervals and verdicts, on made-up samples: nothing here needs a GPU."""

import math
import random

import pytest

from tilewright.bench import stats
from tilewright.bench.verdict import noise_floor, verdict
from tilewright.records import Sample


def samples(count, seed, scale=1.0, noise=0.01, drift=0.0):
    source = random.Random(seed)
    return [scale * 1e-4 * math.exp(source.gauss(0, noise)) * (1 + drift * i / count) for i in range(count)]


def test_timing_gives_median_quartiles_and_rates():
    taken = [Sample("ours", s, 1500 + i, "r") for i, s in enumerate([4.0, 1.0, 2.0, 3.0, 5.0])]
    timing = stats.timing("ours", taken, flops=6.0, moved=9.0)
    assert (timing.median, timing.first_quartile, timing.third_quartile, timing.count) == (3.0, 2.0, 4.0, 5)
    assert (timing.flops_per_second, timing.bytes_per_second, timing.clock_mhz) == (2.0, 3.0, 1502)


def test_the_interval_holds_the_true_ratio_about_95_times_in_100():
    covered = 0
    for seed in range(400):
        _, low, high = stats.ratio(samples(100, 2 * seed, scale=1.1), samples(100, 2 * seed + 1))
        covered += low <= 1.1 <= high
    assert 0.92 <= covered / 400 <= 0.99


def test_a_drift_that_both_sides_share_does_not_move_the_ratio():
    centre, low, high = stats.ratio(samples(200, 1, drift=0.3), samples(200, 2, drift=0.3))
    assert abs(centre - 1) < 0.005
    assert low < 1 < high


def test_too_few_samples_give_no_interval():
    centre, low, high = stats.ratio([2.0, 2.0], [1.0, 1.0])
    assert (centre, low, high) == (2.0, 0.0, math.inf)


@pytest.mark.parametrize(
    ("low", "high", "noise", "expected"),
    [
        (1.05, 1.08, 0.01, "FASTER"),
        (0.90, 0.95, 0.01, "SLOWER"),
        (0.99, 1.01, 0.005, "SAME"),
        (1.01, 1.05, 0.005, "UNDECIDED"),  # reaches into the margin
        (1.03, 1.04, 0.05, "UNDECIDED"),  # below what this machine can tell today
        (0.99, 1.01, 0.03, "UNDECIDED"),  # the noise hides whatever there may be
        (0.0, math.inf, 0.0, "UNDECIDED"),
    ],
)
def test_verdicts_ask_for_the_whole_interval(low, high, noise, expected):
    assert verdict(low, high, noise) == expected


def test_noise_floor_is_the_farthest_the_self_comparison_strays():
    assert noise_floor(0.98, 1.01) == pytest.approx(0.02)
    assert noise_floor(1.0, 1.03) == pytest.approx(0.03)
