"""Plans on simulated machines, hundreds at a time: what the statistics of the bench stage are studied on.

Samples are drawn as arrays, everything after them is the stage's own: order of sides, rounds set apart, estimates, looks,
verdicts. tests/null/test_plans.py runs whole plans through the engine itself, one sample at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.bench import simulated, stats
from tilewright.bench.plan import Plan, is_swapped
from tilewright.bench.simulated import Noise
from tilewright.bench.stats import Estimate
from tilewright.bench.verdict import Judgement, Subject, judge, noise_floor

SIDES = 4
OURS, AGAIN, CONTROL, THEIRS = range(SIDES)
ROUNDS = 100
"""Of one process, eight samples each: what a call of half a millisecond gets in 2 s on an H200 (68 to 150 rounds of calls
of 500 to 740 µs in ``results/bench_h200_separate_memory.json``)."""


@dataclass(frozen=True)
class Machine:
    """Noise, and how long the call takes that is studied under it."""

    noise: Noise
    seconds: float = 100e-6


EACH = 0.0015
"""Of a side's own effect in a process, so 0.21 % of a ratio: between the calmest and the worst kernel of 20 µs or more
whose spread over ten processes was measured on an H200."""

MACHINES = (
    Machine(Noise("calm", white=0.003, process=0.0003)),
    Machine(Noise("white noise of 1 %", process=EACH)),
    Machine(Noise("drift of 5 %, order of allocation 0.3 %", process=EACH, drift=0.05, order=0.003)),
    Machine(Noise("spikes: 5 % of samples, 50 % each", process=EACH, spikes=0.05, spike=0.5)),
    Machine(Noise("clock drops of 20 %", process=EACH, drops=0.0005)),
    Machine(Noise("wandering by 2 %, autocorrelation 0.995", process=EACH, wander=0.02, memory=0.995)),
    Machine(Noise("processes differ by 0.3 %", process=0.003 / 2**0.5)),
    Machine(Noise("processes differ by 0.3 %, heavy tails (t3)", process=0.003 / 2**0.5, process_tail=3)),
    Machine(Noise("5 µs call, events in steps of 32 ns", white=0.005, process=EACH, quantum=32e-9), 5e-6),
)
TOO_NOISY = Machine(Noise("white noise of 4 %: more than a gate can do", white=0.04, process=EACH))


@dataclass(frozen=True)
class Ended:
    """How one plan ended for one shape."""

    processes: int
    ratio: Estimate
    judgement: Judgement


def round_logs(
    machine: Machine, plan: Plan, slowdown: float, rng: np.random.Generator, plans: int, processes: int
) -> np.ndarray:
    """Log-ratios over ours, NaN where a round is set apart: plans x processes x (again, control, theirs) x rounds.

    ``slowdown`` is what theirs really takes longer than ours.
    """
    noise, streams = machine.noise, plans * processes
    factors, clocks = simulated.factors(noise, rng, streams, ROUNDS * 2 * SIDES)
    memory = simulated.effects(noise, rng, streams, SIDES)
    memory[:, CONTROL] = memory[:, OURS]  # the control is ours, on the same memory
    own = np.log1p([0.0, 0.0, plan.resolution, slowdown]) + memory
    place = np.linspace(0, noise.order, SIDES)
    own += np.where(np.arange(streams)[:, None] % processes % 2 == 0, place, place[::-1])
    order = np.argsort(rng.random((streams, ROUNDS, SIDES)), axis=-1)
    order = np.concatenate([order, order[..., ::-1]], axis=-1)
    cost = np.take_along_axis(own[:, None, :], order.reshape(streams, 1, -1), axis=-1).reshape(order.shape)
    seconds = simulated.quantised(machine.seconds * np.exp(cost) * factors.reshape(order.shape), noise, rng)
    back = np.argsort(order, axis=-1, kind="stable")

    def by_side(taken: np.ndarray) -> np.ndarray:
        return np.take_along_axis(taken, back, axis=-1).reshape(streams, ROUNDS, SIDES, 2)

    seconds = by_side(seconds)
    logs = np.stack([stats.log_ratios(seconds[:, :, side], seconds[:, :, OURS]) for side in (AGAIN, CONTROL, THEIRS)])
    if noise.drops:
        logs[:, stats.lowered(by_side(clocks.reshape(order.shape)))] = np.nan
    return np.moveaxis(logs, 0, 1).reshape(plans, processes, 3, ROUNDS)


def estimates(plan: Plan, logs: np.ndarray, processes: int) -> tuple[Estimate, Estimate, Estimate]:
    """Of ours again, the control and theirs, after so many processes of one shape."""
    if plan.processes == 1:
        rounds = [side[~np.isnan(side)] for side in logs[0]]
        again, control, theirs = rounds
        return stats.of_one_process(again), stats.of_one_process(control), stats.of_one_process(theirs, plan.unseen)
    centres = np.nanmedian(logs[:processes], axis=-1)
    swapped = [is_swapped(process) for process in range(processes)]
    again, control, theirs = (stats.of_processes(centres[:, side], swapped) for side in range(3))
    return again, control, theirs


def ended(plan: Plan, shapes: Sequence[np.ndarray]) -> list[Ended]:
    """Carries a plan out over what its processes would measure, shape by shape, and judges them together."""
    subjects, processes = [], []
    for logs in shapes:
        for look, share in zip(plan.looks, plan.shares, strict=True):
            again, control, theirs = estimates(plan, logs, look)
            tail = stats.TAIL * share / len(shapes)
            if look == plan.processes or max(e.half_width(tail) for e in (again, theirs)) <= plan.precision:
                break
        subjects.append(Subject(theirs, noise_floor(again), control.interval()[0] > 1, share))
        processes.append(look)
    judged = judge(subjects, plan.margin)
    return [Ended(p, s.ratio, j) for p, s, j in zip(processes, subjects, judged, strict=True)]


def claims_at_any_look(plan: Plan, logs: np.ndarray) -> bool:
    """Whether someone who looks whenever a plan looks, and stops at what pleases, finds a difference."""
    for look, share in zip(plan.looks, plan.shares, strict=True):
        again, control, theirs = estimates(plan, logs, look)
        subject = Subject(theirs, noise_floor(again), control.interval()[0] > 1, share)
        if judge([subject], plan.margin)[0].verdict in ("FASTER", "SLOWER"):
            return True
    return False
