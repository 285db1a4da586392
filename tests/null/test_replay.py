"""Recorded trials instead of a GPU: what their files may look like, what costs an evaluation, and the command."""

import json

import pytest

from tilewright.cli.main import app
from tilewright.errors import UsageError
from tilewright.records import Case, Config, Environment, Trial, to_dict
from tilewright.store.db import Store
from tilewright.tune.recorded import read
from tilewright.tune.replay import replay, truth_of

HEADING = dict(kernel="matmul", shape=[64, 64, 64], dtype="bfloat16", device="NVIDIA H200")
SHARED = "OutOfResources: out of resource: shared memory, Required: 278528, Hardware limit: 232448."


def entry(tile, warps, **fields):
    return dict(config=dict(BM=tile, num_warps=warps), **fields)


@pytest.fixture
def file(tmp_path):
    entries = [
        entry(
            tile,
            warps,
            median_ms=0.1 + abs(tile - 64) / 640 + warps / 100,
            p20_ms=0.1,
            p80_ms=0.3,
            registers=64,
            spills=0,
            shared=1024 * tile,
            compile_s=1.0,
        )
        for tile in (16, 32, 64, 128)
        for warps in (1, 2, 4, 8)
    ]
    entries += [
        entry(256, 1, failed=SHARED),
        entry(256, 2, infeasible=True),
        entry(256, 4, shared=300_000, error="no time"),
    ]
    entries += [
        entry(512, 1, failed="CUDA error: an illegal memory access"),
        entry(512, 2),
        entry(512, 4, median_ms=None),
    ]
    path = tmp_path / "truth.json"
    path.write_text(json.dumps({**HEADING, "trials": entries}))
    return path


def test_what_does_not_fit_is_no_point_and_what_failed_is_one(file):
    (recorded,) = read(file)
    truth = truth_of(recorded)
    assert truth.infeasible == 3
    assert sum(trial.status == "failed" for trial in truth.trials) == 3
    assert len(truth.points) == 16 + 3
    assert truth.best == pytest.approx(0.11e-3)


def test_a_search_sees_resources_and_no_times(file):
    truth = truth_of(*read(file))
    assert truth.points[0].features == dict(registers=64, spills=0, shared=16384, warps=1)
    assert truth.points[0].predicted_seconds is None


def test_failures_cost_evaluations(file):
    truth = truth_of(*read(file))
    result = replay(truth, "random", seeds=20, budget=19)
    assert result.fraction_of_best == (1.0,) * 20
    assert any(curve[0] == 0 for curve in result.curves)  # began with one that failed
    assert all(list(curve) == sorted(curve) for curve in result.curves)


def test_a_budget_beyond_the_space_ends_with_the_space(file):
    assert replay(truth_of(*read(file)), "portfolio", seeds=1, budget=50).fraction_of_best == (1.0,)


def timed(tile, seconds=None, **fields):
    status = "compiled" if seconds is None else "timed"
    return Trial(
        "op", Case("op", {"N": 8}, "bf16"), Config({"BM": tile}), "h200", status, median_seconds=seconds, **fields
    )


def test_results_of_the_command_line_and_stores_are_read_too(tmp_path):
    trials = [timed(16), timed(32), timed(64), timed(16, 2e-3), timed(32, 1e-3, predicted_seconds=5e-4)]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"schema": 1, "records": [to_dict(trial) for trial in trials]}))
    environment = Environment("none", *[None] * 5, "", 1, "3", *[None] * 5, "0", None, "")
    with Store(tmp_path / "store.db") as store:
        run = store.begin_run("tune", ["op"], environment)
        for trial in trials:
            store.add(run, trial)
    for source in (path, tmp_path / "store.db"):
        truth = truth_of(*read(source))
        assert [trial.median_seconds for trial in truth.trials] == [2e-3, 1e-3]  # what was only compiled is no point
        assert truth.points[1].predicted_seconds == 5e-4


def test_files_without_trials_are_refused(tmp_path):
    for text in ("[]", "{}", "no", '{"trials": [{"config": {"BM": 1}, "failed": "x"}]}', '{"trials": 1}'):
        path = tmp_path / "bad.json"
        path.write_text(text)
        with pytest.raises(UsageError, match="trial"):
            read(path)
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "missing.json")


def test_the_command_prints_one_fraction_a_seed(file, capsys):
    app(["tune", "--replay", str(file), "--seeds", "4", "--budget", "6", "--json", "-"], standalone_mode=False)
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert len(answer["fraction_of_best"]) == 4
    assert all(0 <= fraction <= 1 for fraction in answer["fraction_of_best"])
    assert answer["replays"][0]["infeasible"] == 3
    assert "worst seed" in err


def test_no_operator_and_no_file_is_refused():
    with pytest.raises(UsageError, match="no operator"):
        app(["tune"], standalone_mode=False)
