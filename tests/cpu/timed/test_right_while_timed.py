"""Calls that do not do their work while they are timed are caught and named; odd ones that do are left alone."""

import time

import cheats
import honest
import pytest
import torch

from tilewright.bench import watch, worker
from tilewright.errors import LauncherFailed
from tilewright.records import Case, Note
from tilewright.spec import golden
from tilewright.spec.load import address


@pytest.fixture(autouse=True)
def everything_put_back():
    kept = [
        (time, "perf_counter"), (torch.cuda.Event, "elapsed_time"), (torch.cuda, "synchronize"), (golden, "compare"),
        (watch.Watch, "_poison"),
    ]  # fmt: skip
    values = [(owner, name, getattr(owner, name)) for owner, name in kept]
    threads = torch.get_num_threads()
    cheats.memory.clear()
    yield
    torch.set_num_threads(threads)
    for owner, name, value in values:
        setattr(owner, name, value)


def measured(operator, seconds=0.05, seed=0):
    case = Case(operator.name, {}, seed=seed)
    events = []
    job = worker.Job(address(operator), case, case, "a", "cpu", seconds, 0, False, 0.02, compile=False)
    return worker.measure_shape(events.append, job=job), events


@pytest.mark.parametrize("name", cheats.CHEATS)
def test_a_cheat_is_caught_and_named(name):
    with pytest.raises(LauncherFailed) as caught:
        measured(getattr(cheats, name))
    assert cheats.CHEATS[name] in str(caught.value)


@pytest.mark.parametrize("name", honest.HONEST)
def test_an_honest_oddity_is_not_accused(name):
    honest.memory.clear()
    taken, events = measured(getattr(honest, name))
    assert not [e for e in events if isinstance(e, Note)]
    assert "eager" in taken.sides
