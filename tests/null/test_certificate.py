"""What a certificate states: counts, a regret that holds as often as it says, and when a run has seen enough."""

import math
from dataclasses import replace

import numpy as np

from tilewright.records import Case, Config, Trial
from tilewright.tune.certificate import LEAST, SMALL, StopRule, certificate, estimated_regret
from tilewright.tune.points import Point, points_of
from tilewright.tune.regret import regret
from tilewright.tune.search.named import search_named


def trials(seed, sizes=(5, 5, 3, 4)):
    """A landscape over a grid, drawn at random: each parameter's own effect, which wanders from level to level, one of
    a pair, and some noise. Its Trials, all compiled, and the seconds they would take."""
    generator = np.random.default_rng(seed)
    grid = np.array(list(np.ndindex(*sizes)))
    times = sum(generator.normal(0, 0.3, size).cumsum()[grid[:, i]] for i, size in enumerate(sizes))
    times = times + generator.normal(0, 0.1, sizes[:2])[grid[:, 0], grid[:, 1]] + generator.normal(0, 0.02, len(grid))
    blank = Trial("op", Case("op", {}), Config({}), "h200", "compiled")
    found = [replace(blank, config=Config({f"p{i}": int(v) for i, v in enumerate(row)})) for row in grid]
    return found, np.exp(times) * 1e-4


def run(seed, until):
    """A search; what is known of all trials after each measurement."""
    found, seconds = trials(seed)
    search = search_named("portfolio", points_of(found), seed)
    measured = 0
    while not until(found, measured):
        index = search.next()
        found[index] = replace(found[index], status="timed", median_seconds=float(seconds[index]))
        search.told(index, float(seconds[index]))
        measured += 1
    best = min(trial.median_seconds for trial in found if trial.median_seconds)
    return found, measured, 1 - seconds.min() / best


def test_the_true_regret_is_within_the_stated_one():
    held = 0
    for seed in range(10):
        found, _, true = run(seed, lambda trials, measured: measured >= 24)
        stated = estimated_regret(found)
        assert stated < 0.9  # and it says something
        held += true <= stated + 1e-9
    assert held >= 9


def test_regret_where_nothing_or_everything_is_known():
    points = [Point(Config({"i": i})) for i in range(10)]
    assert regret(points, dict.fromkeys(range(10), 0.001)) == 0
    assert regret(points, {}) == 1
    assert regret(points, dict.fromkeys(range(9))) == 1
    same = [Point(Config({"i": i}), binary="one" if i < 8 else str(i)) for i in range(10)]
    assert regret(same, {0: 1e-3, 8: 2e-3, 9: 3e-3}) == 0


def test_points_far_below_what_is_left_leave_nothing_to_gain():
    points = [Point(Config({"i": i})) for i in range(40)]
    steep = {i: 1e-3 * math.exp(i / 4) for i in range(0, 40, 2)}
    assert regret(points, steep) < 0.08
    assert (
        regret(points, {i: s for i, s in steep.items() if i > 8}) > 0.1
    )  # it falls towards where nothing was measured


def test_a_run_ends_when_enough_is_known_and_says_why():
    rule = StopRule()
    why = []

    def until(trials, measured):
        why.append(rule(trials))
        return why[-1] is not None

    found, measured, true = run(1, until)
    assert LEAST <= measured < len(found)
    assert "within" in why[-1] or "none of the last" in why[-1]
    assert true <= 0.02


def test_a_small_space_is_exhausted():
    found, _ = trials(0, sizes=(5, 5, 3, 2))
    assert len(found) == SMALL
    rule = StopRule()
    assert rule([replace(trial, status="timed", median_seconds=1e-3) for trial in found[:-1]] + found[-1:]) is None


def test_counts_and_reasons():
    blank = Trial("op", Case("op", {}), Config({}), "h200", "timed", median_seconds=1e-3)
    found = [replace(blank, config=Config({"i": i}), binary="same" if i < 2 else "") for i in range(6)]
    found += [
        replace(
            blank, config=Config({"i": 10 + i}), status="infeasible", reason=f"needs {200 + i} KiB of shared memory"
        )
        for i in range(3)
    ]
    found += [replace(blank, config=Config({"i": 20}), status="wrong", reason="3.5 times the tolerance")]
    said = certificate(found, "all were measured")
    assert (said["space"], said["infeasible"], said["compiled"], said["distinct"]) == (10, 3, 7, 6)
    assert (said["measured"], said["timed"], said["wrong"], said["failed"]) == (7, 6, 1, 0)
    assert said["why_not"] == {"infeasible: needs N KiB of shared memory": 3, "wrong: N times the tolerance": 1}
    assert (said["regret"], said["stopped"]) == (0.0, "all were measured")
