"""Searches: each point once, what fails is avoided, nothing depends on names, and the default beats chance."""

import json
import math

import pytest

from tilewright.errors import UsageError
from tilewright.records import Config
from tilewright.tune.points import Point
from tilewright.tune.search.encoding import encoded
from tilewright.tune.search.named import SEARCHES, search_named

TILES, WARPS, STAGES = (16, 32, 64, 128, 256), (2, 4, 8), (1, 2, 3, 4)


def space(**fields):
    configs = [dict(M=m, N=n, warps=w, stages=s) for m in TILES for n in TILES for w in WARPS for s in STAGES]
    return [Point(Config(values), **fields) for values in configs]


def seconds(point):
    """A valley away from the corners, with walls where tiles are too large for their warps."""
    m, n, warps, stages = point.config.values.values()
    if m * n / warps > 8192:
        return None
    away = math.log2(m / 128) ** 2 + math.log2(n / 64) ** 2 + math.log2(warps / 4) ** 2 + 0.3 * (stages - 3) ** 2
    return 1e-4 * (1 + 0.2 * away)


def measured(search, points, budget, time=seconds):
    order = []
    while len(order) < budget and (index := search.next()) is not None:
        order.append(index)
        search.told(index, time(points[index]))
    return order


def best(points, order, time=seconds):
    return min(time(points[index]) or math.inf for index in order)


@pytest.mark.parametrize("name", SEARCHES)
def test_every_point_is_named_once(name):
    points = space()[::7]
    order = measured(search_named(name, points, 1), points, 1000)
    assert sorted(order) == list(range(len(points)))


@pytest.mark.parametrize("name", SEARCHES)
def test_one_seed_is_one_order(name):
    points = space()
    first, again = (measured(search_named(name, points, 5), points, 20) for _ in range(2))
    assert first == again


def test_the_default_finds_the_valley_where_chance_does_not():
    points = space()
    least = min(seconds(point) or math.inf for point in points)
    found = {
        name: [best(points, measured(search_named(name, points, seed), points, 30)) for seed in range(5)]
        for name in ("portfolio", "random")
    }
    assert max(found["portfolio"]) <= least / 0.98
    assert sum(found["random"]) > 1.1 * sum(found["portfolio"])


def test_names_say_nothing():
    points = space()
    renamed = [Point(Config({f"p{i}": value for i, value in enumerate(p.config.values.values())})) for p in points]
    order = measured(search_named("portfolio", points, 3), points, 20)
    assert measured(search_named("portfolio", renamed, 3), renamed, 20) == order


def test_points_asked_for_while_others_are_measured_are_others():
    points = space()
    search = search_named("portfolio", points, 2)
    measured(search, points, 12)
    at_once = [search.next() for _ in range(8)]
    assert len(set(at_once)) == 8
    for index in at_once:
        search.told(index, seconds(points[index]))
    assert search.next() not in at_once


def test_what_was_told_before_is_not_asked_for():
    points = space()[:40]
    search = search_named("portfolio", points, 0)
    for index in range(30):
        search.told(index, 1e-3)
    assert sorted(measured(search, points, 100)) == list(range(30, 40))


def test_where_everything_fails_all_is_tried():
    points = space()[:25]
    assert len(measured(search_named("portfolio", points, 0), points, 100, time=lambda point: None)) == 25


def test_equal_binaries_are_one_measurement():
    points = [Point(Config({"stages": i}), binary="same" if i < 10 else "") for i in range(15)]
    order = measured(search_named("portfolio", points, 0), points, 100, time=lambda point: 1e-3)
    assert sum(index < 10 for index in order) == 1
    assert len(order) == 6


def test_a_wrong_prediction_does_not_keep_the_best_away():
    points = [Point(p.config, predicted_seconds=1e-8 / (seconds(p) or 1e-3)) for p in space()]  # the wrong way round
    least = min(seconds(point) or math.inf for point in points)
    assert best(points, measured(search_named("portfolio", points, 0), points, 30)) <= least / 0.95


def test_the_best_prediction_comes_first():
    points = [Point(Config({"i": i}), predicted_seconds=1e-3 * (1 + (i - 7) ** 2)) for i in range(20)]
    assert search_named("prior", points).next() == 7
    assert search_named("portfolio", points, 0).next() == 7


def test_words_none_and_booleans_are_values_too():
    values = [
        dict(layout=layout, swizzle=swizzle, split=split)
        for layout in ("row", "column", "tiled")
        for swizzle in (True, False)
        for split in (None, 2, 4)
    ]
    points = [Point(Config(v)) for v in values]
    assert encoded(points).rows.min() >= 0
    assert len(measured(search_named("portfolio", points, 0), points, 100, time=lambda p: 1e-3)) == len(points)
    json.dumps([p.config.key for p in points])


def test_neighbours_are_one_step_away():
    points = space()
    space_ = encoded(points)
    index = next(i for i, p in enumerate(points) if tuple(p.config.values.values()) == (64, 16, 4, 2))
    near = {tuple(points[i].config.values.values()) for i in space_.neighbours(index)}
    assert near == {
        (32, 16, 4, 2),
        (128, 16, 4, 2),
        (64, 32, 4, 2),
        (64, 16, 2, 2),
        (64, 16, 8, 2),
        (64, 16, 4, 1),
        (64, 16, 4, 3),
    }


def test_an_unknown_search_is_refused():
    with pytest.raises(UsageError, match="portfolio"):
        search_named("best", [])
