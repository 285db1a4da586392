"""A sample of the study of searches on recorded trials, which runs for minutes in proof/: every change of the search is judged so."""

import pytest
import replay_study
import write_tuning

from tilewright.tune.replay import replay

SEEDS = 4


@pytest.fixture(scope="module")
def truths():
    found = {truth.name: truth for truth in replay_study.truths()}
    return [truth for name, truth in found.items() if name.startswith(("matmul shape=4096", "attention shape"))]


def found(truth, name="portfolio", budget=30, seeds=SEEDS):
    return replay(truth, name, seeds=seeds, budget=budget).fraction_of_best


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
        spoiled = [replay_study.spoiled(truth, seed) for seed in range(SEEDS)]
        assert spoiled[0].points != spoiled[1].points  # another noise for each seed
        assert sum(found(one, seeds=1)[0] for one in spoiled) / SEEDS >= 0.96


def test_the_page_says_what_the_results_say():
    assert write_tuning.tables(*write_tuning.read()) in write_tuning.PAGE.read_text()
