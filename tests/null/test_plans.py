"""Whole plans on simulated machines: warm-up, rounds, processes, looks, comparisons."""

import math
from dataclasses import replace
from random import Random

import pytest

from tilewright.bench import engine, stats, summary
from tilewright.bench.plan import AGAIN, CONTROL, GATE, OURS, QUICK, is_swapped, palindrome
from tilewright.bench.rounds import by_side, is_still, take
from tilewright.bench.simulated import Noise, SimulatedCall, SimulatedTimer
from tilewright.errors import ChildFailed
from tilewright.records import Case, Measured, Measurement, Note, Timing, drain, from_dict, to_dict

CASE = Case("op", {"N": 8})
SECONDS = 1e-3


def machine(noise, slower=0.0, shapes_failing=()):
    """What measures shapes on a simulated machine; the baseline takes longer by ``slower``."""

    def measure(process, shape):
        if shape in shapes_failing:
            raise ChildFailed("the process died of SIGSEGV", reason="crashed")
        rng = Random(f"{process} {shape}")
        timer = SimulatedTimer(noise, seed=rng.randrange(2**32), samples=1000)
        own = {side: SECONDS * math.exp(rng.gauss(0, noise.process)) for side in (OURS, AGAIN, "eager")}
        ours = SimulatedCall(own[OURS])
        calls = {
            OURS: ours,
            AGAIN: SimulatedCall(own[AGAIN]),
            CONTROL: timer.slowed(ours, 0.01, SECONDS).call,
            "eager": SimulatedCall(own["eager"] * (1 + slower)),
        }
        rounds = take(calls, timer, seconds=40 * 8 * SECONDS, seed=process)
        clocks = [r.clock_mhz for r in rounds.readings]
        apart = stats.lowered(by_side(rounds.order, clocks, 4)).nonzero()[0]
        return [], Measurement(
            "op", CASE, shape, timer.regime, process, is_swapped(process), rounds.sides, tuple(rounds.order),
            tuple(r.seconds for r in rounds.readings), tuple(clocks), tuple(apart.tolist()), slowdown=0.01,
        )  # fmt: skip

    return measure


def ran(plan, noise, shapes=("a",), **given):
    events = []
    outcome = drain(engine.run(plan, shapes, machine(noise, **given)), events.append)
    return outcome, events


def test_a_gate_finds_one_percent_and_keeps_every_sample():
    outcome, events = ran(GATE, Noise(process=0.0015), slower=0.01)
    (found,) = outcome.comparisons
    assert found.verdict == "FASTER"
    assert found.low < 1.01 < found.high
    assert 1.007 < found.control_ratio < 1.013
    assert len(found.processes) == len(found.swapped) == len(outcome.measurements["a"]) in GATE.looks
    assert found.ours.count == sum(2 * 41 for _ in found.processes)
    assert len(found.ours.over_time) == 10 * len(found.processes)
    measured = [event.measurement for event in events if isinstance(event, Measured)]
    assert measured == outcome.measurements["a"]
    assert from_dict(to_dict(measured[0])) == measured[0]


def test_the_same_call_is_the_same_and_a_calm_machine_needs_fewer_processes():
    outcome, _ = ran(GATE, Noise(white=0.002, process=0.0002))
    assert [c.verdict for c in outcome.comparisons] == ["SAME"]
    assert len(outcome.measurements["a"]) == GATE.looks[0]


def test_effects_that_a_process_keeps_are_seen_over_processes_alone():
    noise = Noise(white=0.002, process=0.02)
    outcome, _ = ran(GATE, noise)
    (found,) = outcome.comparisons
    assert len(found.processes) == GATE.processes
    assert found.verdict == "UNDECIDED"
    assert "strays" in found.why
    assert found.ours.between > 5 * found.ours.within


def test_a_quick_plan_is_one_process_and_allows_for_others():
    outcome, _ = ran(QUICK, Noise(white=0.003, process=0.001), slower=0.03)
    (found,) = outcome.comparisons
    assert found.verdict == "FASTER"
    assert len(found.processes) == 1
    assert found.high / found.low > math.exp(2 * 1.9 * QUICK.unseen)


def test_rounds_under_a_clock_drop_are_set_apart_and_said():
    outcome, _ = ran(GATE, Noise(white=0.003, drops=0.002, drop=0.2))
    (found,) = outcome.comparisons
    assert found.verdict == "SAME"
    assert any("set apart: the clock had dropped" in text for text in found.conditions)
    assert found.ours.apart > 0
    taken = outcome.measurements["a"]
    assert found.ours.count + found.ours.apart == sum(len(m.order) // 4 for m in taken)


def test_launch_latency_inside_times_is_told_of_the_side_that_has_it():
    class Leaking(SimulatedTimer):
        def time(self, call, *around):
            return replace(super().time(call), leaked=call is waits)

    waits, calm = SimulatedCall(SECONDS), SimulatedCall(2 * SECONDS)
    rounds = take({"a": waits, "b": calm}, Leaking(Noise(), seed=1), seconds=0.1)
    assert rounds.leaking() == ["a"]


def test_a_shape_that_crashes_costs_itself():
    outcome, events = ran(QUICK, Noise(white=0.003), shapes=("a", "b", "c"), shapes_failing=("b",))
    assert [c.shape for c in outcome.comparisons] == ["a", "c"]
    assert list(outcome.failed) == ["b"]
    assert any(isinstance(e, Note) and "SIGSEGV" in e.text for e in events)


def test_a_warm_up_ends_when_times_stand_still():
    class Settling(SimulatedTimer):
        """Twice as slow at first, and settled after some fifty calls."""

        def time(self, call, *around):
            return super().time(SimulatedCall(call.seconds * (1 + math.exp(-self._taken / 10))))

    timer = Settling(Noise(white=0.005), seed=3)
    rounds = take({"a": SimulatedCall(SECONDS), "b": SimulatedCall(SECONDS)}, timer, seconds=1.0)
    assert rounds.stationary
    assert timer._taken - len(rounds.order) > 40
    assert rounds.readings[0].seconds < 1.05 * SECONDS
    assert not is_still([2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1.0, 0.9])
    assert is_still([0.0] * 12)


def test_times_that_never_stand_still_are_said_to_move():
    class Slowing(SimulatedTimer):
        def time(self, call, *around):
            return super().time(SimulatedCall(call.seconds * 1.02**self._taken))

    rounds = take({"a": SimulatedCall(SECONDS)}, Slowing(Noise(white=0.0), seed=0), seconds=0.1)
    assert not rounds.stationary


def test_orders_are_drawn_anew_and_read_backwards():
    source = Random(0)
    orders = {tuple(palindrome(range(3), source)) for _ in range(100)}
    assert len(orders) == 6
    assert all(order == order[::-1] and sorted(order) == [0, 0, 1, 1, 2, 2] for order in orders)
    table = by_side([1, 0, 0, 1, 0, 1, 1, 0], [10, 20, 21, 11, 30, 40, 41, 31], 2)
    assert table.tolist() == [[[20, 21], [10, 11]], [[30, 31], [40, 41]]]


def test_records_of_earlier_versions_are_still_read():
    timing = to_dict(Timing("ours", 1, 1.0, 1.0, 1.0))
    del timing["processes"], timing["within"]
    assert from_dict(timing).processes == ()


def test_a_simulated_timer_times_only_what_it_can():
    with pytest.raises(TypeError, match="SimulatedCall"):
        SimulatedTimer(Noise(), seed=0).time(lambda: None)


def test_plain_figures_are_of_all_samples_but_those_set_apart():
    samples = (2.0, 4.0, 6.0, 4.0, 3.0, 5.0, 5.0, 3.0, 90.0, 90.0, 90.0, 90.0)
    clocks = (1980.0,) * 8 + (990.0,) * 4
    one = Measurement(
        "op", CASE, "a", "simulated time", 0, False, (OURS, "eager"), (0, 1, 1, 0) * 3, samples, clocks, apart=(2,),
        flops=8.0, moved=16.0, conditions=("other processes on the GPU",),
    )  # fmt: skip
    timing = summary.timings_of([one, one])[OURS]
    assert (timing.count, timing.apart, timing.clock_mhz) == (8, 4, 1980)
    assert (timing.first_quartile, timing.median, timing.third_quartile) == (2.75, 3.0, 3.25)
    assert (timing.flops_per_second, timing.bytes_per_second) == (8 / 3, 16 / 3)
    assert timing.processes == (3.0, 3.0)
    assert timing.between == 0.0
    assert summary.conditions([one, one]) == (
        "other processes on the GPU", "2 of 6 rounds set apart: the clock had dropped",
    )  # fmt: skip
