"""The bench stage: each shape in a child process of its own, so that one that hangs or crashes costs itself."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.bench import recorded
from tilewright.bench.worker import Job
from tilewright.errors import ChildFailed, LauncherFailed, NoGpu, ReferenceFailed, UsageError
from tilewright.hardware.probe import gpu_name
from tilewright.process import Limits, Worker
from tilewright.records import Case, Compared, Comparison, Config, Event, Note, Progress, StageStarted
from tilewright.spec import dtypes
from tilewright.spec.load import Address
from tilewright.spec.operator import Operator

DEFAULT_SHAPE = "default"
"""The label of the sizes that ``inputs`` itself chooses."""


@dataclass(frozen=True)
class BenchOptions:
    """What to time, and for how long: ``seconds`` per shape; ``shapes`` None are those declared."""

    device: str = "cuda"
    shapes: Sequence[str] | None = None
    cases: Sequence[Mapping[str, Any]] | None = None
    dtype: str | None = None
    seconds: float = 2.0
    seed: int = 0
    compile: bool = True
    config: Config | None = None
    configs: Mapping[str, Config] | None = None
    limit_seconds: float = 300.0
    memory_bytes: int = 100 * 2**30


@dataclass(frozen=True)
class BenchReport:
    """All comparisons of an operator; ``failed`` says of shapes that could not be timed why."""

    operator: str
    comparisons: tuple[Comparison, ...]
    failed: Mapping[str, str]
    wrong: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        if self.wrong:
            return 1
        undecided = any(c.verdict == "UNDECIDED" for c in self.comparisons)
        return 4 if self.failed or undecided or not self.comparisons else 0


def run(operator: Operator, address: Address, options: BenchOptions) -> Generator[Event, None, BenchReport]:
    """Times an operator against its baselines; yields events, returns the report.

    Raises:
        NoGpu: ``device="cuda"`` on a machine that has none.
        UsageError: the operator declares no shapes and none were given.
    """
    if options.device == "cuda" and gpu_name() is None:
        raise NoGpu("no GPU here", _without_gpu(operator))
    shapes = shapes_of(operator, options)
    yield StageStarted("bench", operator.name, len(shapes), f"{options.seconds:g} s a shape, one process each")
    comparisons: list[Comparison] = []
    failed: dict[str, str] = {}
    wrong: list[str] = []
    for done, (label, case) in enumerate(shapes.items()):
        yield Progress("bench", done, label)
        config = options.config or (options.configs or {}).get(label)
        job = Job(address, case, label, options.device, options.seconds, options.seed + done, config, options.compile)
        try:
            events, found = _in_child(job, options)
        except (ChildFailed, LauncherFailed, ReferenceFailed) as error:
            failed[label] = str(error)
            if isinstance(error, LauncherFailed):
                wrong.append(label)
            yield Note(f"{label}: {error}")
            continue
        for event in events:
            if isinstance(event, Note):
                yield event
        for comparison in found:
            comparisons.append(comparison)
            yield Compared(comparison)
    return BenchReport(operator.name, tuple(comparisons), failed, tuple(wrong))


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


def _in_child(job: Job, options: BenchOptions) -> tuple[list[Event], list[Comparison]]:
    events: list[Event] = []
    env = {"TRITON_INTERPRET": None}
    with Worker(env=env, quiet=False, stdout_to_stderr=True) as worker:
        limits = Limits(options.limit_seconds, options.memory_bytes)
        worker.submit("tilewright.bench.worker:bench_shape", {"job": job}, limits)
        found = worker.result(events.append)
        worker.close()
    return events, found
