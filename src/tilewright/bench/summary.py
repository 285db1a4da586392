"""From what processes measured to comparisons: medians, ratios with their intervals, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.bench import limits, stats
from tilewright.bench.plan import AGAIN, CONTROL, OURS, OWN_SIDES, Plan
from tilewright.bench.rounds import by_side
from tilewright.bench.stats import Array, Estimate
from tilewright.bench.verdict import Subject, judge, noise_floor
from tilewright.records import Comparison, Measurement, Timing
from tilewright.wording import part

STRETCHES = 10
"""Of one process, for the course over time."""
SAMPLES_KEPT = 400
"""Of one side in a Comparison, for plots; Measurements hold all."""
_RELATIVE_PRECISION = 0.02  # of the difference itself: 3.00 times as fast need not be known to 0.2 %


@dataclass(frozen=True)
class Ratio:
    """One side over ours in all processes: the log-ratio of each, and what they say together."""

    side: str
    processes: tuple[float, ...]
    estimate: Estimate


def baselines(measurements: Sequence[Measurement]) -> list[str]:
    """The baselines that ran in every process."""
    common = set.intersection(*(set(m.sides) for m in measurements))
    return [side for side in measurements[0].sides if side in common and side not in OWN_SIDES]


def ratio(measurements: Sequence[Measurement], side: str, unseen: float) -> Ratio:
    """What all processes say of one side over ours; of a single one with ``unseen`` added (see stats)."""
    logs = [_log_ratios(measurement, side) for measurement in measurements]
    kept = [(one, m.swapped) for one, m in zip(logs, measurements, strict=True) if len(one)]
    centres = tuple(float(np.median(one)) for one, _ in kept)
    if len(measurements) == 1:
        return Ratio(side, centres, stats.of_one_process(logs[0], unseen))
    return Ratio(side, centres, stats.of_processes(centres, [swapped for _, swapped in kept]))


def is_precise(measurements: Sequence[Measurement], plan: Plan, tail: float) -> bool:
    """Whether every ratio of a shape is known as well as the plan wants it; ``tail`` is of each ratio's interval."""
    for side in [AGAIN, *baselines(measurements)]:
        estimate = ratio(measurements, side, plan.unseen).estimate
        if estimate.half_width(tail) > max(plan.precision, _RELATIVE_PRECISION * abs(estimate.centre)):
            return False
    return True


def compare(by_shape: Mapping[str, Sequence[Measurement]], plan: Plan, shares: Mapping[str, float]) -> list[Comparison]:
    """A comparison for each shape and baseline, judged together.

    Args:
        shares: of each shape, what part of the allowed error the look it ended at may spend.
    """
    drafts, subjects = [], []
    for shape, measurements in by_shape.items():
        own = ratio(measurements, AGAIN, 0.0)
        control = ratio(measurements, CONTROL, 0.0) if all(CONTROL in m.sides for m in measurements) else None
        saw = None if control is None else control.estimate.interval()[0] > 1
        for side in baselines(measurements):
            theirs = ratio(measurements, side, plan.unseen)
            subjects.append(Subject(theirs.estimate, noise_floor(own.estimate), saw, shares[shape]))
            drafts.append((measurements, theirs, own, control))
    judged = judge(subjects, plan.margin)
    timings = {shape: timings_of(measurements) for shape, measurements in by_shape.items()}
    judged = [
        limits.judged(judgement, timings[draft[0][0].shape], draft[1].side)
        for judgement, draft in zip(judged, drafts, strict=True)
    ]
    found = []
    for (measurements, theirs, own, control), judgement in zip(drafts, judged, strict=True):
        first = measurements[0]
        low, high = theirs.estimate.interval()
        found.append(
            Comparison(
                operator=first.operator,
                case=first.case,
                shape=first.shape,
                baseline=theirs.side,
                ratio=math.exp(theirs.estimate.centre),
                low=low,
                high=high,
                verdict=judgement.verdict,
                regime=first.regime,
                ours=timings[first.shape][OURS],
                theirs=timings[first.shape][theirs.side],
                noise_floor=noise_floor(own.estimate),
                config=first.config,
                why=judgement.why,
                plan=plan.name,
                margin=plan.margin,
                processes=tuple(math.exp(log) for log in theirs.processes),
                swapped=tuple(m.swapped for m in measurements),
                self_ratio=math.exp(own.estimate.centre),
                control_ratio=None if control is None else math.exp(control.estimate.centre),
                slowdown=first.slowdown,
                conditions=conditions(measurements) + limits.conditions(timings[first.shape]),
                error=theirs.estimate.error,
                freedom=theirs.estimate.freedom,
                revision=first.revision,
            )
        )
    return found


def conditions(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """What made the machine unfit while a shape was timed, each once, and how many rounds were set apart."""
    found = list(dict.fromkeys(text for m in measurements for text in m.conditions))
    rounds = sum(len(m.order) // (2 * len(m.sides)) for m in measurements)
    apart = sum(len(m.apart) for m in measurements)
    if apart:
        found.append(f"{part(apart, rounds, 'round')} set apart: the clock had dropped")
    return tuple(found)


def timings_of(measurements: Sequence[Measurement]) -> dict[str, Timing]:
    """The plain figures of every side, over all processes."""
    return {side: _timing(measurements, side) for side in measurements[0].sides}


def _timing(measurements: Sequence[Measurement], side: str) -> Timing:
    holding = [m for m in measurements if side in m.sides]
    kept = [_kept(m, _of_side(m, m.seconds, side)) for m in holding]
    seconds = np.concatenate([one.ravel() for one in kept])
    first, median, third = stats.quartiles(seconds)
    clocks = [_kept(m, _of_side(m, m.clock_mhz, side)).ravel() for m in holding if m.clock_mhz]
    medians = [float(np.median(one)) for one in kept if one.size]
    stretches = [
        [float(np.median(s)) for s in np.array_split(one, min(STRETCHES, len(one)))] for one in kept if one.size
    ]
    flops, moved = holding[0].flops, holding[0].moved
    step = max(1, math.ceil(len(seconds) / SAMPLES_KEPT))
    return Timing(
        side=side,
        count=len(seconds),
        median=median,
        first_quartile=first,
        third_quartile=third,
        clock_mhz=round(float(np.median(np.concatenate(clocks)))) if clocks else None,
        flops_per_second=flops / median if flops else None,
        bytes_per_second=moved / median if moved else None,
        samples=tuple(seconds[::step].tolist()),
        apart=2 * sum(len(m.apart) for m in holding),
        processes=tuple(medians),
        over_time=tuple(value for process in stretches for value in process),
        within=_spread_within(stretches),
        between=float(np.log(medians).std(ddof=1)) if len(medians) > 1 else None,
        of_ceiling=_of_ceiling(holding, median),
        launch_overhead=holding[0].launch_overhead,
        kernels=tuple(dict.fromkeys(name for m in holding for name in m.kernels.get(side, ()))),
        precisions=tuple(dict.fromkeys(name for m in holding for name in m.precisions.get(side, ()))),
    )


def _of_ceiling(measurements: Sequence[Measurement], median: float) -> float | None:
    bounds = [m.bound_seconds for m in measurements if m.bound_seconds is not None]
    return float(np.median(bounds)) / median if bounds else None


def _spread_within(stretches: Sequence[Sequence[float]]) -> float | None:
    variances = [np.log(process).var(ddof=1) for process in stretches if len(process) > 1]
    return math.sqrt(float(np.mean(variances))) if variances else None


def _log_ratios(measurement: Measurement, side: str) -> Array:
    theirs = _of_side(measurement, measurement.seconds, side)
    ours = _of_side(measurement, measurement.seconds, OURS)
    return _kept(measurement, stats.log_ratios(theirs, ours))


def _of_side(measurement: Measurement, values: Sequence[float], side: str) -> Array:
    """Rounds x 2."""
    table = by_side(measurement.order, values, len(measurement.sides))
    found: Array = table[:, measurement.sides.index(side)]
    return found


def _kept(measurement: Measurement, rounds: Array) -> Array:
    """Without the rounds set apart; with them where no other is left, for then they are what there is."""
    if not measurement.apart or len(measurement.apart) == len(rounds):
        return rounds
    found: Array = np.delete(rounds, list(measurement.apart), axis=0)
    return found
