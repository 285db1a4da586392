"""A small sample of the study of verdicts: what ``proof/test_verdicts.py`` asks of three thousand plans in each row."""

import json

import plans
import pytest
import verdict_study
import write_benchmarking

from tilewright.bench.plan import GATE


@pytest.mark.parametrize("machine", [plans.MACHINES[1], plans.MACHINES[4]], ids=lambda m: m.noise.name)
def test_a_gate_finds_one_percent_and_makes_nothing_up(machine):
    same = verdict_study.our_row(GATE, machine, 0.0, 40)
    slower = verdict_study.our_row(GATE, machine, 0.01, 40)
    assert same["faster"] == same["slower"] == 0
    assert same["same"] >= 0.9
    assert slower["faster"] >= 0.9
    assert min(same["coverage"], slower["coverage"]) >= 0.8


def test_rules_of_others_mistake_a_drift_for_a_difference():
    rows = {row["rule"]: row for row in verdict_study.rival_rows(plans.MACHINES[2], 0.0, 20)}
    assert rows["do_bench medians"]["faster"] == rows["Mann-Whitney on launches"]["faster"] == 1
    assert rows["nvbench"]["faster"] == 0


def test_the_page_says_what_the_results_say():
    data = json.loads(write_benchmarking.RESULTS.read_text())
    assert write_benchmarking.tables(data) in write_benchmarking.PAGE.read_text()
