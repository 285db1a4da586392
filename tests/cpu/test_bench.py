"""The bench stage on CPU callables, through real child processes."""

from dataclasses import replace

import host_callables
import pytest

import tilewright as tw
from tilewright.bench import resume, stage
from tilewright.bench.plan import AGAIN, CONTROL, OURS
from tilewright.errors import UsageError
from tilewright.hardware.probe import environment
from tilewright.process import Limits
from tilewright.records import Measured, Note, drain
from tilewright.spec.load import address
from tilewright.spec.operator import replace as changed
from tilewright.store.db import Store


@pytest.fixture(scope="module")
def benched():
    events = []
    report = tw.bench(host_callables.own_softmax, device="cpu", seconds=0.05, compile=False, on_event=events.append)
    return report, events


def test_callables_are_timed_against_all_that_compute_the_same(benched):
    report, events = benched
    assert {(c.shape, c.baseline) for c in report.comparisons} == {
        (shape, side) for shape in ("small", "last") for side in ("double", "slept", "eager")
    }
    slept = next(c for c in report.comparisons if c.baseline == "slept")
    assert slept.ratio > 5
    assert slept.regime.startswith("host time")
    notes = " ".join(e.text for e in events if isinstance(e, Note))
    assert "baseline not a softmax computes something else" in notes
    assert "baseline not for us does not apply: AttributeError" in notes


def test_a_shape_that_is_wrong_or_crashes_costs_itself(benched):
    report, _ = benched
    assert report.wrong == ("wrong",)
    assert "times the tolerance" in report.failed["wrong"]
    assert "exit code 3" in report.failed["crash"]
    assert report.exit_code == 1


def test_measurements_hold_every_sample_of_every_side(benched):
    _, events = benched
    taken = [event.measurement for event in events if isinstance(event, Measured)]
    assert [m.shape for m in taken] == ["small", "last"]
    for m in taken:
        assert m.sides == (OURS, AGAIN, CONTROL, "double", "slept", "eager")
        assert len(m.order) == len(m.seconds) == 12 * (len(m.seconds) // 12)
        assert m.slowdown == 0.02


def test_an_interrupted_run_is_gone_on_with_where_all_is_as_it_was(benched, tmp_path):
    taken = [event.measurement for event in benched[1] if isinstance(event, Measured)]
    operator, here = host_callables.own_softmax, environment()
    options = stage.BenchOptions(device="cpu", seconds=0.05, compile=False, shapes=("small", "last"))

    def measured(store, **changed):
        kept = resume.interrupted(store, operator.name, here)
        events = []
        drain(stage.run(operator, address(operator), replace(options, kept=kept, **changed)), events.append)
        return [event.measurement for event in events if isinstance(event, Measured)]

    with Store(tmp_path / "store.db") as store:
        run = store.begin_run("bench host_callables.py", [operator.name], here)
        store.add(run, taken[0])
        assert resume.interrupted(store, operator.name, replace(here, triton="0")) == {}
        again = measured(store)
        assert again[0] == taken[0]
        assert again[1].shape == "last"
        assert again[1].seconds != taken[1].seconds
        assert measured(store, seed=1, shapes=("small",))[0].seconds != taken[0].seconds
        store.finish_run(run, 0, "done")
        assert resume.interrupted(store, operator.name, here) == {}


def test_what_was_measured_of_other_code_is_not_gone_on_with():
    operator = host_callables.own_softmax
    known = resume.source(operator)
    assert resume.source(changed(operator, reference=lambda x: x)) != known
    assert resume.source(changed(operator, baselines={**operator.baselines, "double": lambda x: x})) != known
    assert resume.source(changed(operator, shapes={})) == known


def test_trouble_is_one_line_each_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_FIRST_CALL_SECONDS", "0.5")
    events, patience = [], [120.0]
    monkeypatch.setattr(stage, "Limits", lambda seconds, memory: Limits(patience[0], memory))

    def heard(event):
        events.append(event)
        if isinstance(event, Measured):
            patience[0] = 5.0  # the child has started: what takes longer from here on hangs
        elif isinstance(event, Note) and event.text.startswith("hangs"):
            patience[0] = 120.0

    report = tw.bench(host_callables.in_trouble, device="cpu", seconds=0.05, compile=False, on_event=heard)
    assert {c.shape for c in report.comparisons} == {"fine", "fine too"}
    assert {c.baseline for c in report.comparisons} == {"there", "eager"}
    assert "no answer within 5 s" in report.failed["hangs"]
    assert report.failed["outgrows"].startswith("out of the GPU's memory")
    notes = " ".join(e.text for e in events if isinstance(e, Note))
    assert "baseline not there does not apply: ModuleNotFoundError: No module named 'no_such_package'" in notes
    assert "baseline hungry does not apply: OutOfMemoryError" in notes
    assert "baseline busy does not apply: TimeoutError: the first call took longer than 0.5 s" in notes
    assert "baseline flaky is not right while timed" in notes
    assert all("\n" not in e.text for e in events if isinstance(e, Note))


def test_baselines_may_be_chosen_and_regimes_are_of_a_gpu():
    report = tw.bench(
        host_callables.own_softmax, device="cpu", shapes=["small"], seconds=0.02, baselines=["eager"], compile=False
    )
    assert [c.baseline for c in report.comparisons] == ["eager"]
    with pytest.raises(UsageError, match="a regime is of a GPU"):
        tw.bench(host_callables.own_softmax, device="cpu", regime="warm")
