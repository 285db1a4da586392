"""The bench stage: a plan carried out in child processes, so that a shape that hangs or crashes costs itself.

All shapes share the start-up of a process: one child measures them one after another, and is replaced when one of them
kills it.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.bench import engine, recorded, resume, revisions
from tilewright.bench.plan import PLANS, QUICK, Plan, is_swapped
from tilewright.bench.worker import Job, in_process
from tilewright.errors import ChildFailed, LauncherFailed, NoGpu, UsageError
from tilewright.hardware.probe import gpu_name
from tilewright.process import Limits, Worker
from tilewright.records import Case, Compared, Comparison, Config, Event, Measurement, Note, StageStarted
from tilewright.spec import dtypes
from tilewright.spec.load import Address
from tilewright.spec.operator import Operator, source_file
from tilewright.wording import count

REGIMES = ("cold", "warm", "graph", "host")
"""What may be timed on a GPU: with a cold or a warm L2, a CUDA graph's replay, what the host waits for."""
DEFAULT_SHAPE = "default"
"""The label of the sizes that ``inputs`` itself chooses."""


@dataclass(frozen=True)
class BenchOptions:
    """What to time, and by which plan; ``seconds`` per shape, None as planned; ``shapes`` None are those declared.

    ``kept`` are measurements of an interrupted run, by fingerprint, which need not be made again.
    """

    device: str = "cuda"
    shapes: Sequence[str] | None = None
    cases: Sequence[Mapping[str, Any]] | None = None
    dtype: str | None = None
    plan: str = QUICK.name
    seconds: float | None = None
    seed: int = 0
    compile: bool = True
    regime: str | None = None
    baselines: Sequence[str] | None = None
    config: Config | None = None
    configs: Mapping[str, Config] | None = None
    limit_seconds: float = 300.0
    memory_bytes: int = 100 * 2**30
    kept: Mapping[str, Measurement] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchReport:
    """All comparisons of an operator; ``failed`` says of shapes that could not be timed why."""

    operator: str
    comparisons: tuple[Comparison, ...]
    failed: Mapping[str, str]
    wrong: tuple[str, ...]

    @property
    def failure_code(self) -> int:
        """The exit code that shapes which failed or are wrong ask for."""
        if self.wrong:
            return 1
        return 4 if self.failed or not self.comparisons else 0

    @property
    def exit_code(self) -> int:
        undecided = any(c.verdict == "UNDECIDED" for c in self.comparisons)
        return self.failure_code or (4 if undecided else 0)


def run(operator: Operator, address: Address, options: BenchOptions) -> Generator[Event, None, BenchReport]:
    """Times an operator against its baselines; yields events, returns the report.

    Raises:
        NoGpu: ``device="cuda"`` on a machine that has none.
        UsageError: the operator declares no shapes and none were given.
    """
    if options.device == "cuda" and gpu_name() is None:
        raise NoGpu("no GPU here", _without_gpu(operator))
    _check_regime(options)
    shapes = shapes_of(operator, options)
    plan = plan_of(options)
    most = "at most " if len(plan.looks) > 1 else ""
    words = f"{plan.name}: {most}{count(plan.processes, 'process', 'processes')}, {plan.seconds:g} s a shape"
    yield StageStarted("bench", operator.name, None if plan.processes > 1 else len(shapes), words)
    children = _Children(operator, address, shapes, plan, options)
    try:
        outcome = yield from engine.run(plan, list(shapes), children.take)
    finally:
        children.close()
    for comparison in outcome.comparisons:
        yield Compared(comparison)
    wrong = tuple(label for label, error in outcome.failed.items() if isinstance(error, LauncherFailed))
    failed = {label: str(error) for label, error in outcome.failed.items()}
    return BenchReport(operator.name, tuple(outcome.comparisons), failed, wrong)


def _check_regime(options: BenchOptions) -> None:
    if options.regime is None:
        return
    if options.device != "cuda":
        raise UsageError("a regime is of a GPU", "on a CPU times are the host's, of warm caches: leave --regime out")
    if options.regime not in REGIMES:
        raise UsageError(f"there is no regime {options.regime!r}", f"regimes are {', '.join(REGIMES)}")


def plan_of(options: BenchOptions) -> Plan:
    """The plan asked for, with the time asked for.

    Raises:
        UsageError: there is no plan of that name.
    """
    if options.plan not in PLANS:
        raise UsageError(f"there is no plan {options.plan!r}", f"plans are {', '.join(PLANS)}")
    plan = PLANS[options.plan]
    return plan if options.seconds is None else replace(plan, seconds=options.seconds)


class _Children:
    """The child of the process at hand; a new number, or the death of the old one, gets a new child."""

    def __init__(
        self, operator: Operator, address: Address, shapes: Mapping[str, Case], plan: Plan, options: BenchOptions
    ) -> None:
        self._operator, self._address, self._shapes = operator, address, shapes
        self._plan, self._options = plan, options
        self._worker: Worker | None = None
        self._process = -1
        self._noted: set[str] = set()
        self._source = resume.source(operator)
        self._revision = revisions.of(source_file(operator))

    def take(self, process: int, shape: str) -> tuple[list[Event], Measurement]:
        """Raises what the child raised, and ChildFailed where it died or passed its limits."""
        job = self._job(process, shape)
        fingerprint = resume.fingerprint(job, self._source)
        if fingerprint in self._options.kept:
            return [], self._options.kept[fingerprint]
        if process != self._process:
            self.close()
            self._process = process
        if self._worker is None:
            self._worker = Worker(env={"TRITON_INTERPRET": None}, stdout_to_stderr=True)
        events: list[Event] = []
        limits = Limits(self._options.limit_seconds, self._options.memory_bytes)
        try:
            self._worker.submit("tilewright.bench.worker:measure_shape", {"job": job}, limits)
            found: Measurement = self._worker.result(events.append)
        except ChildFailed:
            self._worker.kill()
            self._worker = None
            raise
        return self._news(events), replace(found, fingerprint=fingerprint)

    def _job(self, process: int, shape: str) -> Job:
        options, case = self._options, self._shapes[shape]
        return Job(
            address=self._address,
            case=in_process(case, process),
            recorded=case,
            shape=shape,
            device=options.device,
            seconds=self._plan.seconds_a_process,
            process=process,
            swapped=is_swapped(process),
            slowdown=self._plan.resolution,
            config=options.config or (options.configs or {}).get(shape),
            compile=options.compile,
            regime=options.regime or REGIMES[0],
            baselines=None if options.baselines is None else tuple(options.baselines),
            revision=self._revision,
        )

    def _news(self, events: Sequence[Event]) -> list[Event]:
        """Notes that no earlier process gave."""
        news: list[Event] = []
        for event in events:
            if isinstance(event, Note) and event.text not in self._noted:
                self._noted.add(event.text)
                news.append(event)
        return news

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _without_gpu(operator: Operator) -> str:
    """What there is to do without a GPU, results that were measured elsewhere included."""
    hint = "bench --device cpu times what runs on a CPU"
    known = [result.label for result in recorded.find(operator)]
    return f"{hint}; tilewright run shows what was recorded elsewhere: {', '.join(known)}" if known else hint


def declared_shapes(operator: Operator) -> dict[str, dict[str, Any]]:
    """The sizes worth timing and tuning at, by label; where ``inputs`` can do without sizes, those it chooses."""
    if operator.shapes:
        return {label: dict(sizes) for label, sizes in operator.shapes.items()}
    if operator.inputs is None:
        return {}
    sizes = [p for p in inspect.signature(operator.inputs).parameters.values() if p.name != "seed"]
    needs_some = any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in sizes)
    return {} if needs_some else {DEFAULT_SHAPE: {}}


def shapes_of(operator: Operator, options: BenchOptions) -> dict[str, Case]:
    """The shapes to time, by label: those asked for, else those declared.

    Raises:
        UsageError: there are none, or a shape or dtype was asked for that the operator does not declare.
    """
    if options.cases is not None:
        wanted = {", ".join(f"{k}={v}" for k, v in case.items()): dict(case) for case in options.cases}
    else:
        wanted = declared_shapes(operator)
        if options.shapes is not None:
            unknown = [label for label in options.shapes if label not in wanted]
            if unknown:
                raise UsageError(
                    f"{operator.name} declares no shape {unknown[0]!r}", f"it has {', '.join(wanted) or 'none'}"
                )
            wanted = {label: wanted[label] for label in options.shapes}
    if not wanted:
        raise UsageError(
            f"{operator.name} declares no shapes to time",
            "shapes={'prefill': dict(M=4096, N=4096)}, or --case 'M=4096,N=4096'",
        )
    for label, sizes in wanted.items():
        _check_sizes(operator, label, sizes)
    chosen = _dtype(operator, options.dtype)
    return {
        label: Case(operator.name, sizes, sizes.pop("dtype", chosen), seed=options.seed)
        for label, sizes in wanted.items()
    }


def _check_sizes(operator: Operator, label: str, sizes: Mapping[str, Any]) -> None:
    for name in operator.dims:
        size = sizes.get(name, 0)
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise UsageError(f"{operator.name}, {label}: {name}={size!r} is no size", "give whole numbers")
    if operator.where is not None and not operator.allows(sizes):
        raise UsageError(f"{operator.name}, {label}: these sizes do not fulfil where={operator.where!r}")


def _dtype(operator: Operator, asked: str | None) -> str | None:
    """The dtype of the shapes that name none: the one asked for, else the first declared."""
    takes_one = operator.signature is not None or "dtype" in operator.default_arguments
    if asked is None:
        return operator.dtypes[0] if takes_one else None
    if not takes_one:
        raise UsageError(
            f"{operator.name}: its inputs() takes no dtype, so --dtype {asked} would change nothing",
            "give inputs a parameter dtype, or leave --dtype out",
        )
    name = dtypes.short(dtypes.to_torch(asked))
    declared = {dtypes.short(dtypes.to_torch(own)): own for own in operator.dtypes}
    if operator.signature is not None and name not in declared:
        raise UsageError(f"{operator.name} declares no dtype {asked}", f"it has {', '.join(operator.dtypes)}")
    return declared.get(name, name)
