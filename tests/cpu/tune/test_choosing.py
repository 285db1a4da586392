"""The whole stage with real compilers and a simulated GPU: what is known is not made again."""

import time
from dataclasses import replace

import pytest
import scaled
from simulated import Simulated
from simulated_tasks import seconds_of

import tilewright as tw
from tilewright.hardware.probe import environment
from tilewright.records import Case, Chosen, Note, Trial, Tried, drain
from tilewright.runtime.table import Table
from tilewright.spec.load import address
from tilewright.spec.operator import replace as changed
from tilewright.store.db import Store
from tilewright.tune import stage
from tilewright.tune.known import usable

CASE = [{"n": 4096}]


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Triton's cache, for this test alone."""
    from triton import knobs

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "triton"))


class Run:
    """Runs of one command over one store."""

    def __init__(self, tmp_path):
        self.store, self.log = Store(tmp_path / "store.db"), tmp_path / "measured"
        self.number = self.store.begin_run("tune scaled", ["scaled"], environment())
        self.machine = Simulated(more={"log": str(self.log)})
        self.table = Table(tmp_path / "choices.json")
        self.events = []

    def tune(self, operator=scaled.scaled, stop_after=None, **options):
        given = {"machine": self.machine, "table": self.table, "cases": CASE, "workers": 1, **options}
        events = stage.run(operator, address(scaled.scaled), stage.TuneOptions(**given), self.store)
        self.events = []

        def take(event):
            self.events.append(event)
            if isinstance(event, Tried) and not event.known:
                self.store.add(self.number, event.trial)
            if isinstance(event, Chosen) and not event.known:
                self.store.add(self.number, event.choice)
            if isinstance(event, Tried) and event.trial.status == "timed" and self.measured == stop_after:
                raise KeyboardInterrupt

        try:
            report = drain(events, take)
        finally:
            events.close()
        return report

    @property
    def measured(self):
        """How many measurements were begun, over all runs."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


def test_an_interrupted_run_goes_on_and_one_that_has_ended_is_looked_up(tmp_path, kernels):
    run = Run(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run.tune(stop_after=2)
    report = run.tune()
    assert run.measured == 6
    (choice,) = report.choices.values()
    (trials,) = report.trials.values()
    assert choice.config == min((t.config for t in trials), key=seconds_of)
    assert (choice.device, choice.certificate["space"], choice.certificate["timed"]) == (run.machine.device, 6, 6)
    assert choice.default_seconds == pytest.approx(seconds_of(tw.Config({"BLOCK": 64, "num_warps": 4})), rel=1e-3)
    assert all(t.resources[0].registers and t.binary and t.triton and t.ptxas for t in trials)
    assert len(run.table) == 1
    before, runners = run.measured, run.machine.made
    started = time.perf_counter()
    again = run.tune()
    assert time.perf_counter() - started < 1.0
    assert (run.measured, run.machine.made) == (before, runners)
    assert again.choices == report.choices
    assert [event.known for event in run.events if isinstance(event, Chosen)] == [True]
    assert [t.config for t in again.trials.popitem()[1]] == [t.config for t in trials]


def test_a_changed_space_uses_what_still_holds_and_a_changed_regime_does_not(tmp_path, kernels):
    run = Run(tmp_path)
    run.tune(changed(scaled.scaled, space=tw.Space(BLOCK=[32], num_warps=[1, 2, 4])))
    assert run.measured == 3
    report = run.tune(changed(scaled.scaled, space=tw.Space(BLOCK=[32, 64], num_warps=[1, 4])))
    assert run.measured == 5
    assert sum(t.known for t in run.events if isinstance(t, Tried)) == 2
    assert report.choices.popitem()[1].certificate["timed"] == 4
    run.tune(changed(scaled.scaled, space=tw.Space(BLOCK=[32], num_warps=[1, 2])), regime="warm")
    assert run.measured == 7


def test_what_was_abandoned_beside_a_configuration_that_is_gone_is_measured_again():
    def trial(block, seconds, **more):
        return Trial(
            "scaled", Case("scaled", {}), tw.Config({"BLOCK": block}), "h100", "timed", median_seconds=seconds, **more
        )

    known = {
        t.config.key: t
        for t in (trial(1, 1.0), trial(2, 1.5, abandoned=True), trial(3, 1.2), trial(4, 2.0, abandoned=True))
    }
    configs = [t.config for t in known.values()]
    assert usable(known, configs) == known
    assert [t.config.values["BLOCK"] for t in usable(known, configs[1:]).values()] == [3, 4]
    assert usable(known, configs[1:2]) == {}


def test_where_nothing_runs_right_nothing_is_chosen(tmp_path, kernels):
    run = Run(tmp_path)
    operator = changed(scaled.scaled, space=tw.Space(BLOCK=[32], num_warps=[1, 2]))
    keys = [config.key for config in operator.space]
    run.machine = replace(run.machine, more={"faults": dict.fromkeys(keys, "wrong")})
    report = run.tune(operator)
    assert (report.choices, report.exit_code) == ({}, 1)
    assert any("nothing chosen" in event.text for event in run.events if isinstance(event, Note))
