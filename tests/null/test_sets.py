"""Smallest sets of configurations, the rule that picks among them, and what is written of both."""

import itertools
import json
import math
import random
import sys

import pytest

from tilewright.cli.main import main
from tilewright.errors import UsageError
from tilewright.records import Case, Choice, Config, Trial
from tilewright.store.db import Store
from tilewright.tune import export, rule, sets


def trial(arguments, config, microseconds, dtype="bf16", **changes):
    case = Case("mm", arguments, dtype)
    facts = {"device": "NVIDIA H200", "triton": "3.6.0", "source": "s", **changes}
    return Trial("mm", case, Config(config), "h200", "timed", median_seconds=microseconds * 1e-6, **facts)


def of_table(table, name="M"):
    """Trials of a table: for each size the microseconds of configurations 0, 1, 2 …; None was not measured."""
    return [
        trial({name: size}, {"BLOCK": number, "num_warps": 4}, taken)
        for size, row in table.items()
        for number, taken in enumerate(row)
        if taken is not None
    ]


def smallest(table, within=0.05):
    return sets.smallest_set(sets.measurements(of_table(table)), within)


def blocks(configs):
    return sorted(config.values["BLOCK"] for config in configs)


def test_one_that_is_near_everywhere_beats_the_winners_of_each_shape():
    found = smallest({1: [10, 10.4, 20], 64: [20, 10.3, 10], 4096: [30, 30.9, 30]})
    assert blocks(found.configs) == [1]
    assert found.is_smallest


def test_what_was_not_measured_at_a_shape_covers_nothing_there():
    assert blocks(smallest({1: [10, 10.4], 64: [None, 10.3], 4096: [30, 30.9]}).configs) == [1]
    assert blocks(smallest({1: [10, None], 64: [None, 10]}).configs) == [0, 1]


def test_what_was_abandoned_as_slow_does_not_count():
    trials = of_table({1: [10, 10.4], 64: [20, 10.3]})
    hurried = trial({"M": 64}, {"BLOCK": 0, "num_warps": 4}, 10.4, abandoned=True)
    kept = [t for t in trials if not (t.case.arguments["M"] == 64 and t.config.values["BLOCK"] == 0)]
    assert blocks(sets.smallest_set(sets.measurements([*kept, hurried])).configs) == [1]


def test_of_sets_as_small_the_fastest_is_taken():
    assert blocks(smallest({1: [10.3, 10, 20], 64: [10.3, 10, 20], 4096: [20, 20, 10]}).configs) == [1, 2]


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_smallest_there_is(seed):
    draw = random.Random(seed)
    table = {size: [draw.choice([10, 10.2, 12, 15]) for _ in range(7)] for size in range(1, 9)}
    found = sets.measurements(of_table(table))
    answer = sets.smallest_set(found)
    covers = lambda configs: all(min(found.slowdown(case, c) for c in configs) <= 1.05 for case in found.cases)
    assert covers(answer.configs)
    assert answer.is_smallest
    assert not any(covers(few) for few in itertools.combinations(found.configs, len(answer.configs) - 1))


def test_a_search_that_gives_up_says_between_what_the_answer_lies(monkeypatch):
    draw = random.Random(0)
    table = {size: [10 if draw.random() < 0.2 else 20 for _ in range(40)] for size in range(1, 40)}
    monkeypatch.setattr(sets, "_LARGEST_SEARCH", 20)
    found = smallest({**table, 99: [10] * 40})
    assert 1 <= found.at_least < len(found.configs)


def test_trials_that_do_not_belong_together_are_refused():
    one = trial({"M": 1}, {"BLOCK": 1}, 10)
    for other in (
        trial({"M": 1}, {"BLOCK": 1}, 9, device="NVIDIA H100"),
        trial({"M": 1}, {"BLOCK": 1}, 9, triton="3.9.0"),
    ):
        with pytest.raises(UsageError, match="trials of several"):
            sets.measurements([one, other])
    with pytest.raises(UsageError, match="no configuration was timed"):
        sets.measurements([])


# ------------------------------------------------------------------------------------------------ the rule


def known(trials, choices=(), within=0.05):
    return export.tuned(trials, choices, within)


SIZES = {1: [10, 20], 16: [10, 20], 128: [20, 10], 4096: [20, 10]}


def test_a_threshold_is_a_power_of_two_between_the_sizes():
    assert known(of_table(SIZES)).rule.words()[0] == "M <= 64"
    assert known(of_table({3: [10, 20], 5: [20, 10]})).rule.words()[0] == "M <= 4"
    assert known(of_table({5: [10, 20], 6: [20, 10]})).rule.words()[0] == "M <= 5"


def test_flags_and_dtypes_are_asked_for_where_sizes_do_not_tell_shapes_apart():
    flags = [
        trial({"M": 64, "causal": causal}, {"BLOCK": block}, 10 if causal == (block == 1) else 20)
        for causal in (False, True)
        for block in (0, 1)
    ]
    assert known(flags).rule.words()[0] in ("causal == True", "causal == False")
    dtypes = [
        trial({"M": 64}, {"BLOCK": block}, 10 if (dtype == "fp32") == (block == 1) else 20, dtype)
        for dtype in ("bf16", "fp32")
        for block in (0, 1)
    ]
    assert rule.choose(known(dtypes).rule, {"M": 64, "dtype": "fp32"}).values["BLOCK"] == 1


@pytest.mark.parametrize("seed", range(20))
def test_each_measured_shape_gets_a_configuration_within_the_share(seed):
    draw = random.Random(seed)
    cases = [
        {"M": 2 ** draw.randrange(13), "N": draw.choice([1000, 4096]), "causal": draw.random() < 0.5} for _ in range(12)
    ]
    trials = [trial(case, {"BLOCK": block}, draw.uniform(10, 14)) for case in cases for block in range(6)]
    tuned = known(trials)
    for case in tuned.found.cases:
        config = rule.choose(tuned.rule, rule.arguments_of(case))
        assert tuned.found.slowdown(case, config) <= 1.05
    assert sum(leaf.shapes for leaf in rule.leaves(tuned.rule)) == len(tuned.found.cases)


def test_shapes_that_nothing_tells_apart_get_what_loses_least():
    same = [trial({"M": 64}, {"BLOCK": block}, taken) for block, taken in enumerate([10, 12])]
    other = [
        Trial(
            "mm",
            Case("mm", {"M": 64}, "bf16", seed=1),
            t.config,
            "h200",
            "timed",
            median_seconds=s * 1e-6,
            device=t.device,
            triton=t.triton,
        )
        for t, s in zip(same, (15, 10))
    ]
    tuned = known(same + other)
    assert tuned.rule == rule.Leaf(Config({"BLOCK": 1}), 2, pytest.approx(1.2))


# ------------------------------------------------------------------------------------------------- exports


def test_the_tree_is_read_from_top_to_bottom():
    assert export.as_text(known(of_table(SIZES))).splitlines() == [
        "mm on NVIDIA H200, Triton 3.6.0: 2 configurations for 4 shapes, each within 0.0 % of its best measured; no fewer would do",
        "  M <= 64",
        "    BLOCK=0 num_warps=4  (2 shapes, at most 0.0 % lost)",
        "  M > 64",
        "    BLOCK=1 num_warps=4  (2 shapes, at most 0.0 % lost)",
    ]


def test_tables_are_files_by_board_with_the_best_of_each_size_as_the_choices_say():
    trials = [trial({"E": 8, "M": m}, {"BLOCK": b}, 10 + 0.3 * (b != m % 2)) for m in (1, 64, 2) for b in (0, 1)]
    choice = Choice(
        "mm", Case("mm", {"E": 8, "M": 64}, "bf16"), Config({"BLOCK": 1}), "NVIDIA H200", "3.6.0", "", 1.0, 1.0, {}
    )
    assert export.as_tables(known(trials, [choice])) == {
        "mm,E=8,device_name=NVIDIA_H200,dtype=bf16.json": {
            "triton_version": "3.6.0",
            "1": {"BLOCK": 1},
            "2": {"BLOCK": 0},
            "64": {"BLOCK": 1},
        }
    }


@pytest.fixture
def stored(tmp_path):
    """A store in which an operator was tuned, and tuned again after a change."""
    from test_store import ENVIRONMENT

    with Store(tmp_path / "store.db") as store:
        run = store.begin_run("tune", ["mm"], ENVIRONMENT)
        for old in of_table({1: [99, 1]}):
            store.add(run, Trial(**{**vars(old), "source": "as it was"}))
        for new in of_table(SIZES):
            store.add(run, new)
    return store.path


def command_line(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["tilewright", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_command_line_writes_all_forms_from_the_store(stored, tmp_path, monkeypatch, capsys):
    assert command_line(monkeypatch, "export", "mm", "--store", stored) == 0
    assert "M <= 64" in capsys.readouterr().out
    assert command_line(monkeypatch, "export", "mm", "--store", stored, "-o", tmp_path / "out") == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["mm,device_name=NVIDIA_H200,dtype=bf16.json", "mm_NVIDIA_H200.py", "mm_NVIDIA_H200.txt"]
    table = json.loads((tmp_path / "out" / names[0]).read_text())
    assert table["4096"] == {"BLOCK": 1, "num_warps": 4}
    assert table["1"] == {"BLOCK": 0, "num_warps": 4}
    assert command_line(monkeypatch, "export", "mm", "--store", stored, "-o", stored / "in_a_file" / "x.py") == 2
    assert command_line(monkeypatch, "export", "softmax", "--store", stored) == 2
    assert command_line(monkeypatch, "export", "mm", "--device", "NVIDIA B200", "--store", stored) == 2
    assert "no timed trial of mm on NVIDIA B200" in capsys.readouterr().err


def test_json_of_the_rule_reads_back(stored, tmp_path, monkeypatch):
    out = tmp_path / "rule.json"
    assert command_line(monkeypatch, "export", "mm", "--store", stored, "--json", out) == 0
    data = json.loads(out.read_text())["records"]
    assert [record["type"] for record in data] == ["ConfigSet", "Split"]
    assert math.isclose(data[1]["value"], 64)
