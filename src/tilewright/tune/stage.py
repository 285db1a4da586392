"""The tune stage: for Targets that are not here, what fits and in which order; on a GPU, the winner too."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.bench.stage import BenchOptions, shapes_of
from tilewright.errors import NoGpu, UsageError
from tilewright.hardware.target import Target
from tilewright.launch.host import inputs_of
from tilewright.records import Choice, Config, Event, StageStarted, Trial
from tilewright.runtime.table import Table
from tilewright.spec.load import Address
from tilewright.spec.operator import Operator
from tilewright.tune import candidates, feasible
from tilewright.tune.bundle import Bundle
from tilewright.tune.certificate import SMALL, StopRule
from tilewright.tune.choosing import How, Wanted, choose
from tilewright.tune.keep import keep
from tilewright.tune.machine import Machine, here
from tilewright.tune.points import Point
from tilewright.tune.preparing import prepare
from tilewright.tune.search.in_order import InOrder
from tilewright.tune.search.interface import Search
from tilewright.tune.search.named import search_named
from tilewright.tune.search.portfolio import Portfolio
from tilewright.wording import count


@dataclass(frozen=True)
class TuneOptions:
    """``targets`` None is the GPU of this machine. ``shapes``, ``cases`` and ``regime`` as in the bench stage.

    ``workers`` are compilations at a time, None for as many as there are cores. ``trial_seconds`` are spent on timing a
    configuration, ``duel_seconds`` on the last meeting of the fastest; a Trial has ended after ``limit_seconds``.
    ``machine`` None is this one. With ``prepare`` all that needs no GPU is put into a bundle of that path, and nothing is
    measured; ``bundle`` is one that was made elsewhere.
    """

    targets: Sequence[Target] | None = None
    shapes: Sequence[str] | None = None
    cases: Sequence[Mapping[str, Any]] | None = None
    dtype: str | None = None
    seed: int = 0
    workers: int | None = None
    regime: str = "cold"
    trial_seconds: float = 0.05
    duel_seconds: float = 2.0
    limit_seconds: float = 20.0
    memory_bytes: int = 100 * 2**30
    table: Table | None = None
    machine: Machine | None = None
    prepare: Path | None = None
    bundle: Path | None = None


@dataclass(frozen=True)
class TuneReport:
    """Trials by shape and target, best first, and the Choices made (on a GPU only)."""

    operator: str
    trials: Mapping[tuple[str, str], tuple[Trial, ...]]
    choices: Mapping[str, Choice] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        if any(t.status == "wrong" for trials in self.trials.values() for t in trials):
            return 1
        return 0 if all(feasible.fits(trials) for trials in self.trials.values()) else 1


def run(
    operator: Operator, address: Address, options: TuneOptions, store: Any = None
) -> Generator[Event, None, TuneReport]:
    """Surveys the space for each target; where a target's GPU is here, times what fits and chooses.

    Args:
        store: of earlier runs, whose Trials, Choices and compilations are not made again.

    Raises:
        NoGpu: there is a bundle to measure, and no GPU.
        UsageError: the operator has no shapes; no target was named, and there is no GPU; a bundle does not hold here.
    """
    machine = options.machine or here()
    if options.bundle is not None and machine is None:
        raise NoGpu("a bundle is measured on a GPU, and there is none here", "take it to a machine that has one")
    targets = list(options.targets or ([machine.target] if machine else []))
    if not targets:
        raise UsageError("no target named, and no GPU here", "tilewright tune OP --arch a100,h100 says what fits")
    shapes = shapes_of(
        operator, BenchOptions(shapes=options.shapes, cases=options.cases, dtype=options.dtype, seed=options.seed)
    )
    bundle = Bundle(options.bundle, operator) if options.bundle is not None else None
    if options.prepare is not None:
        prepared_trials = yield from prepare(operator, shapes, targets, options.prepare, store, options.workers)
        return TuneReport(operator.name, prepared_trials)
    trials: dict[tuple[str, str], tuple[Trial, ...]] = {}
    choices: dict[str, Choice] = {}
    for label, case in shapes.items():
        inputs = inputs_of(operator, case, drawn=False).map(lambda t: t.detach())
        for target in targets:
            configs = candidates.configurations(operator, inputs, target)
            yield StageStarted("tune", operator.name, None, _heading(label, target, configs))
            if machine is None or target.name != machine.target.name:
                workers = options.workers or os.cpu_count() or 1
                found = yield from feasible.survey(operator, case, inputs, configs, target, store, workers)
            else:
                wanted = Wanted(operator, address, case, inputs, configs)
                prepared = bundle.prepared(case, target) if bundle is not None else None
                found, choice = yield from choose(wanted, machine, _how(options), store, prepared)
                if choice is not None:
                    choices[label] = choice
                    if options.table is not None:
                        keep(operator, choice, target, options.table)
            trials[label, target.name] = tuple(found)
    return TuneReport(operator.name, trials, choices)


def _how(options: TuneOptions) -> How:
    def search_of(points: Sequence[Point]) -> Search:
        name = InOrder.name if len(points) <= SMALL else Portfolio.name
        return search_named(name, points, options.seed)

    return How(
        search=f"{Portfolio.name}, or all of {SMALL}",
        search_of=search_of,
        stop=StopRule(),
        regime=options.regime,
        workers=options.workers,
        duel_seconds=options.duel_seconds,
        seed=options.seed,
        measuring={
            "seconds": options.trial_seconds,
            "limit_seconds": options.limit_seconds,
            "memory_bytes": options.memory_bytes,
        },
    )


def _heading(label: str, target: Target, configs: Sequence[Config]) -> str:
    return f"{label} on {target.title}: {count(len(configs), 'configuration')}"


def chosen_configs(report: TuneReport) -> dict[str, Config]:
    """The tuned configuration of each shape."""
    return {label: choice.config for label, choice in report.choices.items()}
