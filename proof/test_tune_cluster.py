"""A tuning run over a Ray cluster of several nodes, one of which dies: its jobs go elsewhere, and the end is the same."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from results import keep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cpu" / "tune"))

import scaled
from commands import undisturbed

import tilewright as tw
from tilewright.records import Tried
from tilewright.spec.load import address
from tilewright.spec.operator import replace as changed
from tilewright.tune import stage
from tilewright.tune.cluster import Cluster

ray = pytest.importorskip("ray")
SPACE = {"blocks": [16, 32, 64, 128], "warps": [1, 2, 4, 8]}


class Simulated:
    """The cluster, with children that simulate a GPU."""

    def __init__(self, cluster):
        self.device, self.target, self.compilers, self._cluster = (
            cluster.device,
            cluster.target,
            cluster.compilers,
            cluster,
        )

    def runner(self, configs, measuring):
        return self._cluster.runner(configs, replace(measuring, tasks="simulated_tasks", more={"pause": 0.5}))


def test_a_node_that_dies_costs_what_was_running_there(tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster as LocalNodes
    from triton import knobs

    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "here"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "there"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    nodes = LocalNodes(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 1})
    doomed = nodes.add_node(num_cpus=1, num_gpus=1)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
    cluster = Cluster(nodes.address, describe="simulated_tasks:describe")
    assert cluster.gpus == 2
    operator = changed(scaled.scaled, space=tw.Space(BLOCK=SPACE["blocks"], num_warps=SPACE["warps"]))
    options = stage.TuneOptions(machine=Simulated(cluster), cases=[{"n": 4096}], duel_seconds=0.1)
    events, timed = stage.run(operator, address(scaled.scaled), options), 0
    try:
        while True:
            event = next(events)
            timed += isinstance(event, Tried) and event.trial.status == "timed"
            if timed == 4 and doomed is not None:
                nodes.remove_node(doomed, allow_graceful=False)
                doomed = None
    except StopIteration as end:
        report = end.value
    finally:
        cluster.close()
        nodes.shutdown()
    (choice,), (trials,) = report.choices.values(), report.trials.values()
    told = {trial.config.key: [trial.status, trial.median_seconds] for trial in trials}
    assert doomed is None
    assert {"choice": choice.config.key, "ties": list(choice.certificate["ties"]), "trials": told} == undisturbed(
        **SPACE
    )
    keep("tune_cluster", {"nodes": 2, "killed": 1, "configurations": len(trials), "ray": ray.__version__})
