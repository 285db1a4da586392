"""Tuning on a GPU: what a configuration does to it costs that configuration, and what was compiled is what is launched."""

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tuned_badly

import tilewright as tw
from tilewright.bench.stage import REGIMES
from tilewright.hardware.probe import environment, gpu_target
from tilewright.records import Chosen, Note, Tried, drain
from tilewright.spec.load import address
from tilewright.spec.operator import replace
from tilewright.store.db import Store
from tilewright.tune import stage

CASE = [{"n": 1 << 24}]


def tuned(operator, store=None, **options):
    events = []
    run = store.begin_run("tune", [operator.name], environment()) if store is not None else 0

    def take(event):
        events.append(event)
        if store is not None and isinstance(event, Tried) and not event.known:
            store.add(run, event.trial)
        if store is not None and isinstance(event, Chosen) and not event.known:
            store.add(run, event.choice)

    given = {"cases": CASE, "duel_seconds": 0.2, "limit_seconds": 10.0, **options}
    report = drain(stage.run(operator, address(operator), stage.TuneOptions(**given), store), take)
    return report, events


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache of Triton's: everything is compiled for the run."""
    from triton import knobs

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "triton"))


def test_bad_configurations_are_recorded_and_the_run_goes_on(cache, tmp_path):
    with Store(tmp_path / "store.db") as store:
        report, events = tuned(tuned_badly.badly, store)
        (trials,) = report.trials.values()
        told = {}
        for trial in trials:
            told.setdefault(trial.config.values["FAULT"], set()).add((trial.status, trial.reason.split(":")[0]))
        assert {status for status, _ in told["none"]} == {"timed"}
        assert {status for status, _ in told["wrong"]} == {"wrong"}
        assert told["endless"] == {("failed", "no answer within 10 s")}
        assert told["memory"] == {("failed", "out of the GPU's memory")}
        assert {status for status, _ in told["illegal"]} == {"failed"}
        assert all("illegal" in t.reason for t in trials if t.config.values["FAULT"] == "illegal")
        assert all("no such tile" in t.reason for t in trials if t.config.values["FAULT"] == "raises")
        (choice,) = report.choices.values()
        assert choice.config.values["FAULT"] == "none"
        assert choice.median_seconds > 0
        assert not [e.text for e in events if isinstance(e, Note) and "compiled again" in e.text]
        started = time.perf_counter()
        again, _ = tuned(tuned_badly.badly, store)
        assert time.perf_counter() - started < 1.0
        assert again.choices.popitem()[1].config == choice.config


def test_an_operator_in_place_meets_its_inputs_as_they_were(cache):
    report, _ = tuned(tuned_badly.in_place)
    (trials,) = report.trials.values()
    assert {t.config.values["STEPS"]: t.status for t in trials} == {1: "timed", 2: "wrong"}


@pytest.mark.parametrize("regime", REGIMES)
def test_each_regime_times(cache, regime):
    operator = replace(tuned_badly.badly, space=tw.Space(FAULT=["none"], BLOCK=[512, 1024, 4096], num_warps=[4, 8]))
    report, _ = tuned(operator, regime=regime)
    assert {t.status for trials in report.trials.values() for t in trials} == {"timed"}


def test_a_bundle_made_for_this_gpu_is_measured_without_compiling(cache, tmp_path, monkeypatch):
    from triton import knobs

    tuned(tuned_badly.in_place, targets=[gpu_target()], prepare=tmp_path / "bundle")
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "another"))
    report, events = tuned(tuned_badly.in_place, bundle=tmp_path / "bundle")
    assert len(report.choices) == 1
    assert not [e.text for e in events if isinstance(e, Note) and "compiled again" in e.text]
