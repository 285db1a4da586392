"""A local Ray cluster with simulated GPUs: compilers are its tasks, GPUs its actors, and those that die cost what was running."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import scaled
from simulated_tasks import seconds_of

from tilewright.errors import UsageError
from tilewright.records import Tried
from tilewright.spec.load import address
from tilewright.tune import stage
from tilewright.tune.cluster import Cluster

ray = pytest.importorskip("ray")


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    from triton import knobs

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "here"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "there"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=1, num_gpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    made = Cluster("auto", describe="simulated_tasks:describe")
    yield made
    made.close()


def test_where_there_is_no_cluster_one_line_says_so_at_once():
    with pytest.raises(UsageError, match=r"no Ray cluster at 127.0.0.1:9: .*refused; start one: ray start --head"):
        Cluster("127.0.0.1:9")


class Simulated:
    """The cluster, with children that simulate a GPU."""

    def __init__(self, cluster, **more):
        self.device, self.target, self.compilers = cluster.device, cluster.target, cluster.compilers
        self._cluster, self._more, self.runners = cluster, more, []

    def runner(self, configs, measuring):
        self.runners.append(self._cluster.runner(configs, replace(measuring, tasks="simulated_tasks", more=self._more)))
        return self.runners[-1]


def test_a_run_over_a_cluster_ends_as_one_here_though_an_actor_dies(cluster, tmp_path):
    machine = Simulated(cluster, pause=0.2)
    assert (machine.device, machine.target.name, cluster.gpus) == ("a simulated H100", "h100", 2)
    options = stage.TuneOptions(machine=machine, cases=[{"n": 4096}], duel_seconds=0.1)
    killed = []
    events = stage.run(scaled.scaled, address(scaled.scaled), options)
    try:
        while True:
            event = next(events)
            if isinstance(event, Tried) and event.trial.status == "timed" and not killed:
                actor = machine.runners[0]._crew._actors[0]
                killed.append(ray.get(actor.pid.remote()))
                os.kill(killed[0], signal.SIGKILL)
    except StopIteration as end:
        report = end.value
    (choice,) = report.choices.values()
    (trials,) = report.trials.values()
    assert killed
    assert [t.status for t in trials] == ["timed"] * 6
    assert choice.config == min((t.config for t in trials), key=seconds_of)
    assert len(list((tmp_path / "here").glob("*/*.cubin"))) == 6, "compiled elsewhere, kept here"
    assert len(list((tmp_path / "there").glob("*/*.cubin"))) == 6, "brought to where it is measured"
