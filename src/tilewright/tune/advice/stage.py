"""``tune --why``: each launch of an operator in one configuration, compiled for each chip and looked at by all checks."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.bench.stage import BenchOptions, shapes_of
from tilewright.errors import TilewrightError, UsageError
from tilewright.hardware.probe import gpu_target
from tilewright.hardware.target import Target
from tilewright.launch.capture import config_values, record
from tilewright.launch.compile import Compiled, Lowered, lower
from tilewright.launch.host import failure, inputs_of
from tilewright.launch.launch import Launch
from tilewright.records import Advice, Case, Config, Event, Note, Progress, StageStarted
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator, default_config
from tilewright.tune import prior
from tilewright.tune.advice import checks
from tilewright.tune.advice.evidence import TEXTS, Compiling, Evidence, Texts
from tilewright.wording import count

_LOOKED_AT = (
    "only resources and the grid are looked at; accesses, matrix units, overlap, layouts and loops are read from what "
    "NVIDIA's compiler says"
)


@dataclass(frozen=True)
class WhyOptions:
    """``targets`` None is the GPU of this machine. ``config`` holds what differs from the default configuration.

    ``workers`` are compilations at a time, None for as many as there are cores.
    """

    targets: Sequence[Target] | None = None
    shapes: Sequence[str] | None = None
    cases: Sequence[Mapping[str, Any]] | None = None
    dtype: str | None = None
    seed: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None


@dataclass(frozen=True)
class WhyReport:
    """Advice by shape and target, in the order of the checks, and the configuration looked at."""

    operator: str
    config: Config
    advice: Mapping[tuple[str, str], tuple[Advice, ...]]

    @property
    def all(self) -> tuple[Advice, ...]:
        return tuple(one for found in self.advice.values() for one in found)


def run(
    operator: Operator, options: WhyOptions, compiling: Compiling | None = None
) -> Generator[Event, None, WhyReport]:
    """Looks for reasons why an operator is slow in one configuration; needs no GPU.

    Args:
        compiling: the children of a caller that comes again; by default they start and end with the run.

    Raises:
        UsageError: no target, no shapes, or a configuration that is none of the operator's.
        KernelCompileError, LauncherFailed: a kernel that cannot be compiled, or not be launched so.
    """
    here = gpu_target()
    targets = list(options.targets or ([here] if here else []))
    if not targets:
        raise UsageError("no target named, and no GPU here", "tilewright tune OP --why --arch a100,h100")
    shapes = shapes_of(
        operator, BenchOptions(shapes=options.shapes, cases=options.cases, dtype=options.dtype, seed=options.seed)
    )
    config = _config(operator, options.config)
    found: dict[tuple[str, str], tuple[Advice, ...]] = {}
    with (
        contextlib.nullcontext(compiling)
        if compiling
        else Compiling(options.workers or os.cpu_count() or 1) as children
    ):
        for label, case in shapes.items():
            inputs = inputs_of(operator, case, drawn=False).map(lambda t: t.detach())
            for target in targets:
                words = f"{label} on {target.title}, {config if config.values else 'as it is launched'}"
                yield StageStarted("why", operator.name, None, words)
                if target.backend != "cuda":
                    yield Note(f"{target.name}: {_LOOKED_AT}")
                advice = yield from _looked_at(operator, case, inputs, config, target, children)
                found[label, target.name] = tuple(advice)
    return WhyReport(operator.name, config, found)


def _config(operator: Operator, given: Mapping[str, Any]) -> Config:
    """The default configuration with what was asked for.

    Raises:
        UsageError: a name that the operator's space does not have.
    """
    if operator.space is None:
        return Config(dict(given))  # of an autotuned kernel
    unknown = [name for name in given if name not in operator.meta_names]
    if unknown:
        raise UsageError(
            f"{operator.name} has no meta-parameter {unknown[0]}", f"its space has {', '.join(operator.meta_names)}"
        )
    return Config({**default_config(operator).values, **given}) if given else Config({})


def _looked_at(
    operator: Operator, case: Case, inputs: Inputs, config: Config, target: Target, compiling: Compiling
) -> Generator[Event, None, list[Advice]]:
    launches = _launches(operator, inputs, target, config)
    jobs = [lower(launch, target) for launch in launches]
    compiled: dict[int, Compiled] = {}
    for index, answer in compiling.run(jobs, TEXTS):
        if isinstance(answer, TilewrightError):
            raise answer
        compiled[index] = answer
    parts = [compiled[index] for index in range(len(jobs))]
    flops = operator.flops_of(case) if len(launches) == 1 else None
    found: dict[tuple[Any, ...], Advice] = {}
    for index, (launch, job, part) in enumerate(zip(launches, jobs, parts, strict=True)):
        yield Progress(
            "why", index, f"{target.name}: {launch.name}, {index + 1} of {count(len(jobs), 'launch', 'launches')}"
        )
        if part.resources.shared > target.shared_per_block:
            needs, has = part.resources.shared / 1024, target.shared_per_block / 1024
            yield Note(f"{target.name}: {launch.name} needs {needs:.0f} KiB of shared memory, a program has {has:.0f}")
        texts = Texts(part) if target.backend == "cuda" else None
        seen = Evidence(
            operator.name,
            case,
            launch.config or config,
            launch,
            job,
            target,
            part.resources,
            texts,
            _arithmetic_seconds(flops, target, launch, job),
            _memory_seconds(target, launch),
            compiling,
        )
        for check in (*(checks.OF_TEXTS if texts is not None else ()), *checks.OF_RESOURCES):
            for one in check(seen):
                found.setdefault((one.kind, one.kernel, one.file, one.line, one.message), one)
    return list(found.values())


def _launches(operator: Operator, inputs: Inputs, target: Target, config: Config) -> list[Launch]:
    try:
        if operator.space is not None:
            launches = record(operator, inputs, target, config if config.values else None)
        else:
            launches = record(operator, inputs, target, choose=functools.partial(_of_tuner, config))
    except Exception as error:
        raise failure(error) from error
    if config.values and operator.space is None and not any(launch.config for launch in launches):
        raise UsageError(f"{operator.name} has no space, and launches no autotuned kernel", "leave --config out")
    return [launch for launch in launches if launch.programs]


def _of_tuner(config: Config, tuner: Any, configs: list[Any]) -> list[Any]:
    """The first of an autotuner's configurations that has what was asked for.

    Raises:
        UsageError: none of them has.
    """
    for one in tuner.configs if config.values else configs:
        values = config_values(one)
        if all(values.get(name) == value for name, value in config.values.items()):
            return [one]
    offered = "; ".join(" ".join(f"{k}={v}" for k, v in config_values(one).items()) for one in tuner.configs[:4])
    raise UsageError(
        f"no configuration of the autotuner has {config}", f"it has {offered}{' …' * (len(tuner.configs) > 4)}"
    )


def _arithmetic_seconds(flops: float | None, target: Target, launch: Launch, job: Lowered) -> float | None:
    """What a launch's arithmetic takes at the chip's peaks; None where how much it is depends on data."""
    work = prior.work_of([launch], [job], flops)
    return prior.arithmetic_seconds(target, work) if work.known else None


def _memory_seconds(target: Target, launch: Launch) -> float:
    """What it takes to move each tensor of a launch once."""
    sizes: dict[tuple[int, int], int] = {}
    for tensor in launch.tensors.values():
        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), 0) if storage.data_ptr() else (0, id(tensor))  # meta tensors have no address
        size = min(tensor.numel() * tensor.element_size(), storage.nbytes())
        sizes[key] = max(sizes.get(key, 0), size)
    return sum(sizes.values()) / target.memory_bandwidth
