"""A sample of the study of searches on recorded trials, which runs for minutes in proof/: every change of the search is judged so."""

import pytest
import replay_study

from tilewright.tune.replay import replay

SEEDS = 4


@pytest.fixture(scope="module")
def truths():
    found = {truth.name: truth for truth in replay_study.truths()}
    return [truth for name, truth in found.items() if name.startswith(("matmul shape=4096", "attention shape"))]


def found(truth, name="portfolio", budget=30):
    return replay(truth, name, seeds=SEEDS, budget=budget).fraction_of_best


def test_scrambled_it_knows_values_and_resources_only(truths):
    for truth in truths:
        for point in replay_study.scrambled(truth).points:
            assert set(point.features) <= {"shared", "registers", "spills"}
            assert point.predicted_seconds is None
            assert all(name.startswith("p") for name in point.config.values)


def test_names_scrambled_it_comes_near_the_best_where_chance_does_not(truths):
    for truth in truths:
        ours, chance = found(replay_study.scrambled(truth)), found(truth, "random")
        assert sum(ours) / SEEDS >= 0.96
        assert min(ours) >= 0.85
        assert sum(ours) > sum(chance)


def test_with_the_model_half_the_evaluations_do(truths):
    for truth in truths:
        assert min(found(truth, budget=15)) >= 0.95


def test_a_spoiled_model_does_no_harm(truths):
    for truth in truths:
        assert min(found(replay_study.spoiled(truth))) >= 0.95
