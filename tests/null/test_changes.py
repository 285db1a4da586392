"""Earlier measurements, what became of an operator since, and where a series changed."""

import dataclasses
import json
import math
import random

import pytest
import report_samples as samples

from tilewright.bench.changes import Earlier, since
from tilewright.bench.history import change_points, series
from tilewright.records import Case, Comparison, Timing, to_dict
from tilewright.report import markdown, plots
from tilewright.store.db import Store

CASE = Case("op", {"N": 8})
H100 = samples.H100


def comparison(ratio, *, baseline="eager", error=0.001, shape="a", **given):
    half = 2.145 * (error or 0.0)
    ours = Timing("ours", 80, 1e-5, 1e-5, 1e-5, over_time=(1e-5, 1.01e-5, 0.99e-5, 1e-5), processes=(1e-5, 1e-5))
    return Comparison(
        "op", dataclasses.replace(CASE, arguments={"N": shape}), shape, baseline, ratio, ratio * math.exp(-half),
        ratio * math.exp(half), "FASTER", "device time, cold L2", ours, ours, 0.001,
        **{"margin": 0.005, "error": error, "freedom": 14.0, **given},
    )  # fmt: skip


def became(now, before, environment=H100, then=H100):
    return since(now, environment, [Earlier(then, c) for c in before], "main")


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.23, "FASTER"), (1.17, "SLOWER"), (1.2, "SAME"), (1.207, "UNDECIDED")]
)
def test_a_change_is_a_quotient_of_ratios_to_one_yardstick(ratio, expected):
    (change,) = became([comparison(ratio)], [comparison(1.2)])
    assert change.verdict == expected
    assert change.ratio == pytest.approx(ratio / 1.2)
    assert change.low < ratio / 1.2 < change.high
    assert change.high / change.low == pytest.approx(math.exp(2 * 2.048 * 0.001 * math.sqrt(2)), rel=1e-4)


def test_the_yardstick_is_the_baseline_by_which_the_change_is_known_best():
    now = [comparison(1.2, error=0.01), comparison(3.0, baseline="cublas"), comparison(9.0, baseline="new today")]
    before = [comparison(1.2), comparison(3.03, baseline="cublas")]
    assert [(c.yardstick, c.verdict) for c in became(now, before)] == [("cublas", "SLOWER")]


@pytest.mark.parametrize(
    ("then", "now", "why"),
    [
        ({"chip": "NVIDIA A100"}, {}, "measured on NVIDIA A100 then, on NVIDIA H100"),
        ({"torch": "2.10"}, {}, "torch 2.10 then, 2.11.0 now"),
        ({"triton": "3.5"}, {"baseline": "torch.compile"}, "Triton 3.5 then"),
        ({}, {"regime": "host time"}, "not measured then"),
        ({}, {"shape": "b"}, "not measured then"),
    ],
)
def test_what_cannot_be_compared_is_undecided_and_says_why(then, now, why):
    before = comparison(1.0, baseline=now.get("baseline", "eager"))
    current = dataclasses.replace(
        comparison(1.0, shape=now.get("shape", "a")), **{k: v for k, v in now.items() if k != "shape"}
    )
    (change,) = became([current], [before], then=dataclasses.replace(H100, **then))
    assert (change.verdict, change.ratio) == ("UNDECIDED", None)
    assert why in change.why


def test_the_last_of_several_measurements_counts_and_shapes_are_judged_together():
    many = [comparison(0.992, shape=f"s{i}", error=0.0007) for i in range(20)]
    assert {c.verdict for c in became(many[:1], [comparison(1.0, shape="s0", error=0.0007)])} == {"SLOWER"}
    before = [comparison(r, shape=f"s{i}", error=0.0007) for i in range(20) for r in (2.0, 1.0 if i == 0 else 0.9955)]
    verdicts = [c.verdict for c in became(many, before)]
    assert verdicts[0] == "UNDECIDED"


def noisy(levels, seed, error=0.002):
    rng = random.Random(seed)
    return [level + rng.gauss(0, error) for level in levels], [error] * len(levels)


def test_change_points_are_where_the_level_changes():
    assert change_points(*noisy([0.0] * 12 + [-0.03] * 10 + [0.02] * 9, 1)) == {
        12: pytest.approx(math.exp(-0.03), abs=0.004), 22: pytest.approx(math.exp(0.05), abs=0.004),
    }  # fmt: skip
    assert list(change_points(*noisy([0.0, 0.0, 0.05], 2))) == [2]
    assert change_points([], []) == {}
    assert change_points([0.1], [0.001]) == {}


def test_noise_has_no_change_points_even_beyond_what_runs_say_of_themselves():
    found = 0
    for seed in range(200):
        logs, _ = noisy([0.0] * 30, seed, error=0.02)
        found += bool(change_points(logs, [0.005] * 30))
    assert found <= 6


def test_a_series_is_of_one_chip_and_one_baseline():
    later = dataclasses.replace(H100, when="2026-05-01T00:00:00+00:00")
    found = series(
        [Earlier(H100, comparison(1.0)), Earlier(samples.HERE, comparison(5.0)), Earlier(later, comparison(1.1))]
        + [Earlier(H100, comparison(2.0, baseline="cublas")), Earlier(H100, comparison(9.0, error=None))]
    )
    assert [(s.chip, s.baseline, len(s.points)) for s in found] == [
        (H100.chip, "eager", 2), (samples.HERE.cpu, "eager", 1), (H100.chip, "cublas", 1),
    ]  # fmt: skip
    assert found[0].points[1].change == pytest.approx(1.1)


def test_a_file_and_a_store_are_read_back(tmp_path):
    earlier = pytest.importorskip("tilewright.bench.earlier")
    with Store(tmp_path / "s.db") as store:
        for ratio in (1.0, 1.1):
            run = store.begin_run("bench op.py", ["op"], H100)
            store.add(run, comparison(ratio))
        assert [(e.environment, e.comparison.ratio) for e in earlier.from_store(store, "op")] == [
            (H100, 1.0),
            (H100, 1.1),
        ]
        assert earlier.from_store(store, "another") == []
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"environment": to_dict(H100), "records": [to_dict(comparison(1.3))]}))
    assert [e.comparison.ratio for e in earlier.from_file(path, "op")] == [1.3]


def test_markdown_leads_with_the_worst_and_shows_a_users_text_as_it_is():
    changes = became(
        [comparison(1.1), comparison(1.2, shape="<b|c>")], [comparison(1.2), comparison(1.2, shape="<b|c>")]
    )
    text = markdown.bench("bench op.py", H100, [comparison(1.1)], changes)
    assert text.index("**1 SLOWER, 1 SAME** since main") < text.index("| a | 10.0 |")
    assert "❌ SLOWER" in text
    assert "&lt;b\\|c>" in text
    assert "<details>" in text
    assert "<details>" not in markdown.bench("bench op.py", H100, [comparison(1.1)])


def test_plots_of_changes_and_of_times_over_time():
    changes = became([comparison(1.1), comparison(1.2, shape="new")], [comparison(1.2)])
    drawn = plots.change_intervals(changes)
    assert "0.917 SLOWER" in drawn
    assert "new" not in drawn
    assert plots.change_intervals([changes[1]]) == ""
    assert plots.course([comparison(1.0).ours]).count("<circle") == 4
    assert plots.course([]) == ""
