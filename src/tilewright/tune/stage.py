"""The tune stage: for Targets that are not here, what fits and in which order; on a GPU, the winner too."""

from __future__ import annotations

import statistics
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.bench import stats
from tilewright.bench.stage import BenchOptions, shapes_of
from tilewright.errors import ChildFailed, TilewrightError, UsageError
from tilewright.hardware.probe import gpu_name, gpu_target
from tilewright.hardware.target import Target
from tilewright.launch.compile import Cache
from tilewright.launch.host import inputs_of
from tilewright.process import Limits, Worker
from tilewright.records import Case, Choice, Config, Event, Note, Progress, StageStarted, Trial, Tried
from tilewright.runtime.table import Table, triton_version
from tilewright.spec.load import Address
from tilewright.spec.operator import Operator, default_config
from tilewright.tune import feasible
from tilewright.tune.keep import keep
from tilewright.wording import count

FINALISTS = 5


@dataclass(frozen=True)
class TuneOptions:
    """``targets`` None is the GPU of this machine. ``shapes`` and ``cases`` as in the bench stage."""

    targets: Sequence[Target] | None = None
    shapes: Sequence[str] | None = None
    cases: Sequence[Mapping[str, Any]] | None = None
    dtype: str | None = None
    seed: int = 0
    workers: int = 2
    trial_seconds: float = 0.15
    duel_seconds: float = 2.0
    limit_seconds: float = 120.0
    memory_bytes: int = 100 * 2**30
    table: Table | None = None


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
    operator: Operator, address: Address, options: TuneOptions, cache: Cache | None = None
) -> Generator[Event, None, TuneReport]:
    """Surveys the space for each target; where a target's GPU is here, times what fits and chooses.

    Raises:
        NoGpu: no target was named, and there is no GPU.
        UsageError: the operator has no space and no shapes.
    """
    here = gpu_target()
    targets = list(options.targets or ([here] if here else []))
    if not targets:
        raise UsageError("no target named, and no GPU here", "tilewright tune OP --arch a100,h100 says what fits")
    shapes = shapes_of(
        operator, BenchOptions(shapes=options.shapes, cases=options.cases, dtype=options.dtype, seed=options.seed)
    )
    trials: dict[tuple[str, str], tuple[Trial, ...]] = {}
    choices: dict[str, Choice] = {}
    for label, case in shapes.items():
        inputs = inputs_of(operator, case, drawn=False).map(lambda t: t.detach())
        for target in targets:
            configs = feasible.configurations(operator, inputs, target)
            yield StageStarted("tune", operator.name, None, _heading(label, target, configs))
            found = yield from feasible.survey(operator, case, inputs, configs, target, cache, options.workers)
            if here is not None and target.name == here.name:
                found, choice = yield from _choose(operator, address, case, found, options)
                if choice is not None:
                    choices[label] = choice
                    if options.table is not None:
                        keep(operator, choice, target, options.table)
            trials[label, target.name] = tuple(found)
    return TuneReport(operator.name, trials, choices)


def _heading(label: str, target: Target, configs: Sequence[Config]) -> str:
    return f"{label} on {target.title}: {count(len(configs), 'configuration')}"


def _choose(
    operator: Operator, address: Address, case: Case, surveyed: list[Trial], options: TuneOptions
) -> Generator[Event, None, tuple[list[Trial], Choice | None]]:
    """Checks and times every configuration that fits, lets the fastest meet again, and picks one."""
    bench = _Bench(address, case, options)
    try:
        timed = []
        for done, trial in enumerate(surveyed):
            if trial.status == "compiled":
                yield Progress("tune", done, f"timing {trial.config}")
                trial = bench.measured(trial)
                yield Tried(trial)
            timed.append(trial)
        timed.sort(key=lambda t: (t.status != "timed", t.median_seconds or float("inf")))
        finalists = [trial for trial in timed if trial.status == "timed"][:FINALISTS]
        if not finalists:
            yield Note("no configuration ran right: nothing chosen")
            return timed, None
        yield Progress("tune", len(timed), "the fastest meet once more")
        return timed, bench.choice(operator, finalists, timed)
    finally:
        bench.close()


class _Bench:
    """The tune child, replaced when a configuration kills it."""

    def __init__(self, address: Address, case: Case, options: TuneOptions) -> None:
        self._address, self._case, self._options = address, case, options
        self._worker: Worker | None = None

    def measured(self, trial: Trial) -> Trial:
        try:
            result = self._ask("measure", config=trial.config, seconds=self._options.trial_seconds)
        except TilewrightError as error:
            return replace(trial, status="failed", reason=error.what)
        trial = replace(trial, device=gpu_name())
        if result.median is None:
            reason = f"{result.error_over_tolerance:.3g} times the tolerance"
            return replace(trial, status="wrong", reason=reason, error_over_tolerance=result.error_over_tolerance)
        return replace(
            trial,
            status="timed",
            median_seconds=result.median,
            low_seconds=result.low,
            high_seconds=result.high,
            error_over_tolerance=result.error_over_tolerance,
        )

    def choice(self, operator: Operator, finalists: list[Trial], timed: list[Trial]) -> Choice:
        default = default_config(operator)
        rounds = self._ask(
            "duel",
            configs=[*(t.config for t in finalists), default],
            seconds=self._options.duel_seconds,
            seed=self._options.seed,
        )
        columns = list(zip(*rounds, strict=True))
        medians = [statistics.median(column) for column in columns]
        best = min(range(len(finalists)), key=lambda i: medians[i])
        ties = []
        for i, trial in enumerate(finalists):
            logs = np.log(columns[i]) - np.log(columns[best])
            if i != best and stats.of_one_process(logs).interval()[0] <= 1.0:
                ties.append(dict(trial.config.values))
        counts = {
            status: sum(t.status == status for t in timed) for status in ("timed", "infeasible", "wrong", "failed")
        }
        certificate = {
            "space": len(timed),
            **counts,
            "finalists": len(finalists),
            "ties": ties,
            "searched": "exhaustively",
        }
        return Choice(
            operator.name,
            self._case,
            finalists[best].config,
            gpu_name() or "",
            triton_version(),
            "",
            medians[best],
            medians[-1],
            certificate,
        )

    def _ask(self, task: str, **arguments: Any) -> Any:
        if self._worker is None:
            self._worker = Worker(env={"TRITON_INTERPRET": None}, stdout_to_stderr=True)
        limits = Limits(self._options.limit_seconds, self._options.memory_bytes)
        try:
            self._worker.submit(
                f"tilewright.tune.measure:{task}", {"address": self._address, "case": self._case, **arguments}, limits
            )
            return self._worker.result()
        except ChildFailed:
            self._worker.kill()
            self._worker = None
            raise

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


def chosen_configs(report: TuneReport) -> dict[str, Config]:
    """The tuned configuration of each shape."""
    return {label: choice.config for label, choice in report.choices.items()}
