"""The run itself, with a simulated GPU in real children: whatever a configuration does, it costs itself."""

import itertools
import os
import signal

import pytest
from simulated import CONFIGS, Compiled, runner
from simulated_tasks import seconds_of

from tilewright.errors import LauncherFailed
from tilewright.records import Tried
from tilewright.tune.finals import decide, finalists
from tilewright.tune.loop import Loop
from tilewright.tune.search.in_order import InOrder

BLANK = {"device": "a simulated H100", "regime": "cold"}


def ran(ahead, measuring, on_event=lambda event: None, stop=lambda trials: None, search_of=InOrder, **more):
    events = []
    try:
        loop = Loop(ahead, measuring, search_of, blank=BLANK, stop=stop, lookahead=2, **more).run()
        while True:
            events.append(next(loop))
            on_event(events[-1])
    except StopIteration as end:
        return end.value, [event.trial for event in events if isinstance(event, Tried)]
    finally:
        measuring.close()


def test_faults_are_recorded_with_their_reason_and_the_run_ends_as_if_they_were_not_in_the_space():
    kinds = ["segfault", "abort", "loop", "memory", "raise", "wrong"]
    faults = {config.key: kind for config, kind in zip(CONFIGS[::4], kinds, strict=True)}
    lost = CONFIGS[1].key
    ended, tried = ran(Compiled(lost=[lost]), runner(faults=faults, limit_seconds=1.5, memory_bytes=2**28))
    by_key = {trial.config.key: trial for trial in ended.trials}
    found = {kind: by_key[key] for key, kind in faults.items()}
    assert {kind: trial.status for kind, trial in found.items()} == dict.fromkeys(kinds, "failed") | {"wrong": "wrong"}
    assert found["segfault"].reason == "the process died of SIGSEGV"
    assert found["abort"].reason == "the process died of SIGABRT"
    assert found["loop"].reason == "no answer within 1.5 s"
    assert "GiB of memory, limit 0.2 GiB" in found["memory"].reason
    assert found["raise"].reason == "out of the GPU's memory: simulated"
    assert found["wrong"].reason == "1e+03 times the tolerance"
    assert by_key[lost].reason == "compiling it: the process died of SIGABRT"
    sound = [config for config in CONFIGS if config.key not in {*faults, lost}]
    assert {t.config.key for t in ended.trials if t.status == "timed"} == {config.key for config in sound}
    assert ended.trials[finalists(ended.trials)[0]].config == min(sound, key=seconds_of)
    assert sorted(t.config.key for t in tried) == sorted(config.key for config in CONFIGS)
    assert all(t.device == BLANK["device"] for t in tried if t.status in ("timed", "wrong"))


def test_a_configuration_that_compilers_failed_on_while_the_space_was_looked_at_is_no_point():
    ahead = Compiled(lost=[CONFIGS[0].key])
    ahead.want(0)

    def survey():
        yield from ()
        ahead.ended()
        ahead.want(0)  # it is named once more behind that

    ahead.survey = survey
    ended, tried = ran(ahead, runner(seats=1))
    assert [t.status for t in ended.trials] == ["failed"] + ["timed"] * (len(CONFIGS) - 1)
    assert len(tried) == len(CONFIGS)


def test_a_worker_that_is_killed_from_outside_costs_nothing():
    measuring, killed, turns = runner(pause=0.02), [], itertools.count()

    def kill(event):
        if isinstance(event, Tried) and len(killed) < 3 and next(turns) % 3 == 0:
            killed.append(measuring._crew._seats[0].worker.pid)
            os.kill(killed[-1], signal.SIGKILL)

    ended, _ = ran(Compiled(), measuring, kill)
    assert len(killed) == 3
    assert [t.status for t in ended.trials] == ["timed"] * len(CONFIGS)


def test_what_is_clearly_slower_is_abandoned_and_can_be_no_finalist():
    ended, _ = ran(Compiled(), runner(seats=1))
    abandoned = [t for t in ended.trials if t.abandoned]
    assert abandoned
    best = min(map(seconds_of, CONFIGS))
    assert all(t.median_seconds > 1.3 * best for t in abandoned)
    assert not any(ended.trials[i].abandoned for i in finalists(ended.trials))


def test_equal_binaries_are_one_measurement(tmp_path):
    log = tmp_path / "measured"
    twins = {CONFIGS[i].key: "twins" for i in (3, 5, 7)}
    ended, _ = ran(Compiled(binaries=twins), runner(seats=1, log=str(log)))
    assert len(log.read_text().splitlines()) == len(CONFIGS) - 2
    of_twins = {t.median_seconds for t in ended.trials if t.config.key in twins}
    assert len(of_twins) == 1
    assert [t.status for t in ended.trials] == ["timed"] * len(CONFIGS)


class Stubborn(InOrder):
    """Asks for the same three over and over, told or not."""

    def next(self):
        self.asked = getattr(self, "asked", -1) + 1
        return self.asked % 3


def test_it_stops_when_told_and_takes_nothing_twice(tmp_path):
    log = tmp_path / "measured"
    ended, tried = ran(Compiled(), runner(log=str(log)), search_of=Stubborn, first=9)
    assert sorted(log.read_text().splitlines()) == sorted(CONFIGS[i].key for i in (0, 1, 2, 9))
    assert ended.why == "nothing is left that is worth measuring"
    enough = lambda trials: "enough" if sum(t.status == "timed" for t in trials) >= 5 else None
    ended, tried = ran(Compiled(), runner(), stop=enough)
    assert ended.why == "enough"
    assert 5 <= ended.measured <= 8  # what two seats had been given before it was asked whether to stop
    assert len(tried) == len(CONFIGS)


def test_what_no_configuration_is_to_blame_for_ends_the_run():
    with pytest.raises(LauncherFailed, match="the reference does not run"):
        ran(Compiled(), runner(unready=True))


def test_ties_are_declared_and_broken_by_name():
    def column(seconds):
        return [seconds * (1 + 0.002 * ((7 * i) % 5 - 2)) for i in range(30)]

    keys = ["c", "b", "a", "d"]
    made = decide([column(1.0), column(1.001), column(1.2), None], column(1.0005), keys)
    assert (made.winner, made.ties) == (1, (0,))
    assert made.seconds[3] is None
    assert 0.002 <= made.noise < 0.01
    alone = decide([column(1.0), column(1.05)], column(1.0), ["b", "a"])
    assert (alone.winner, alone.ties) == (0, ())
    with pytest.raises(ValueError, match="no finalist"):
        decide([None], None, ["a"])
