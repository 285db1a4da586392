"""Children side by side: what a job does to its child costs that job."""

import signal

import pytest

from tilewright.errors import ChildFailed
from tilewright.process import Limits
from tilewright.tune.crew import Crew, Job


def job(name, task, seconds=20.0, **arguments):
    return Job(name, f"crew_tasks:{task}", arguments, Limits(seconds))


@pytest.fixture
def crew():
    made = []

    def make(seats=2, **options):
        made.append(Crew([{}] * seats, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def all_of(crew, jobs):
    found, waiting = {}, list(jobs)
    while waiting or crew.free < crew.capacity:
        while waiting and crew.free:
            crew.submit(waiting.pop(0))
        found |= {one.name: answer for one, answer in crew.ended()}
    return found


def test_a_job_that_aborts_hangs_or_raises_costs_itself_and_the_others_go_on(crew):
    bad = [job("abort", "dies", of=signal.SIGABRT), job("hang", "hangs", seconds=0.5), job("raise", "refuses")]
    found = all_of(crew(), [*bad, *(job(n, "square", number=n) for n in range(6))])
    assert [found[n] for n in range(6)] == [0, 1, 4, 9, 16, 25]
    assert found["abort"].signal == signal.SIGABRT
    assert (found["hang"].reason, "no answer within 0.5 s" in found["hang"].what) == ("timeout", True)
    assert "ValueError: no" in found["raise"].what


def test_a_job_whose_child_is_killed_from_outside_is_begun_anew_but_not_for_ever(crew, tmp_path):
    found = all_of(
        crew(1), [job("once", "dies_once", path=str(tmp_path / "a")), job("always", "dies", of=signal.SIGKILL)]
    )
    assert found["once"] == "went on"
    assert isinstance(found["always"], ChildFailed)


def test_each_child_is_prepared_before_its_first_job_and_one_that_cannot_be_is_nobodys_fault(crew, tmp_path):
    path = tmp_path / "prepared"
    first = job(None, "prepared", path=str(path), fails=1)  # a child that is killed while it prepares is replaced
    found = all_of(
        crew(1, first=first),
        [job("a", "square", number=2), job("b", "dies", of=signal.SIGSEGV), job("c", "square", number=3)],
    )
    assert (found["a"], found["c"]) == (4, 9)
    assert len(path.read_text().split()) == 3
    never = crew(1, first=job(None, "dies", of=signal.SIGKILL))
    never.submit(job("a", "square", number=2))
    with pytest.raises(ChildFailed, match="SIGKILL"):
        never.ended()


def test_a_seat_that_cannot_be_prepared_is_given_up_and_its_job_goes_to_another():
    crew = Crew([{}, {"GIVEN": "1"}, {}], first=job(None, "needs", variable="GIVEN"))
    try:
        crew.warm_up()
        found = all_of(crew, [job(n, "square", number=n) for n in range(5)])
    finally:
        crew.close()
    assert found == {n: n * n for n in range(5)}
    assert (crew.capacity, [error.what for error in crew.refused]) == (1, ["GIVEN is not set"] * 2)


def test_a_child_that_died_while_idle_is_replaced(crew):
    import os

    one = crew(1)
    assert all_of(one, [job("a", "square", number=2)]) == {"a": 4}
    os.kill(one._seats[0].worker.pid, signal.SIGKILL)
    one._seats[0].worker._process.wait()
    assert all_of(one, [job("b", "square", number=3)]) == {"b": 9}
