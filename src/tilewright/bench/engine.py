"""A plan carried out: process after process over all shapes, looks in between, until ratios are known well enough.

Where a measurement comes from is the caller's: a child with a GPU, one without, or a simulated machine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from tilewright.bench import summary
from tilewright.bench.plan import Plan
from tilewright.bench.stats import TAIL
from tilewright.errors import TilewrightError
from tilewright.records import Comparison, Event, Measured, Measurement, Note, Progress

Take = Callable[[int, str], tuple[Sequence[Event], Measurement]]
"""Measures a shape in the process of that number; with what there is to say of it."""


@dataclass
class Outcome:
    """What a plan gave: measurements and comparisons, and the shapes that failed with their errors."""

    measurements: dict[str, list[Measurement]] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    failed: dict[str, TilewrightError] = field(default_factory=dict)


def run(plan: Plan, shapes: Sequence[str], take: Take) -> Generator[Event, None, Outcome]:
    """Yields events while it measures; what fails at one shape, or crashes, costs that shape."""
    outcome = Outcome()
    shares: dict[str, float] = {}
    active = list(shapes)
    done = steps = 0
    for processes, share in zip(plan.looks, plan.shares, strict=True):
        for process in range(done, processes):
            for shape in list(active):
                yield Progress("bench", steps, _step_text(plan, shape, process))
                if not (yield from _step(outcome, take, process, shape)):
                    active.remove(shape)
                steps += 1
        done = processes
        known = {shape: outcome.measurements[shape] for shape in shapes if shape not in outcome.failed}
        tail = TAIL * share / max(sum(len(summary.baselines(taken)) for taken in known.values()), 1)
        for shape in list(active):
            if processes == plan.processes or summary.is_precise(known[shape], plan, tail):
                active.remove(shape)
                shares[shape] = share
    outcome.measurements = {s: m for s, m in outcome.measurements.items() if s not in outcome.failed}
    outcome.comparisons = summary.compare(outcome.measurements, plan, shares)
    return outcome


def _step_text(plan: Plan, shape: str, process: int) -> str:
    return shape if plan.processes == 1 else f"{shape}, process {process + 1} of at most {plan.processes}"


def _step(outcome: Outcome, take: Take, process: int, shape: str) -> Generator[Event, None, bool]:
    """One shape in one process; False where it failed."""
    try:
        events, measurement = take(process, shape)
    except TilewrightError as error:
        outcome.failed[shape] = error
        yield Note(f"{shape}: {error}")
        return False
    yield from events
    yield Measured(measurement)
    outcome.measurements.setdefault(shape, []).append(measurement)
    return True
