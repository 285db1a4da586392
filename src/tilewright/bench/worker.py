"""What a bench child does: one shape of one operator, correct first, then interleaved with its baselines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from tilewright.bench import baselines, stats
from tilewright.bench.timer import DeviceTimer, HostTimer, Timer, interleave
from tilewright.bench.verdict import noise_floor, verdict
from tilewright.errors import LauncherFailed
from tilewright.launch.capture import call
from tilewright.launch.host import inputs_of
from tilewright.process import Emitter
from tilewright.records import Case, Comparison, Config, Note, Progress
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import Address, resolve
from tilewright.spec.operator import Operator
from tilewright.spec.poison import Poisoned
from tilewright.wording import count

OURS, AGAIN = "ours", "ours again"


@dataclass(frozen=True)
class Job:
    """One shape to time. ``config`` None is the launcher's own choice, or the tuned one where there is."""

    address: Address
    case: Case
    shape: str
    device: str
    seconds: float
    seed: int
    config: Config | None = None
    compile: bool = True


def bench_shape(emit: Emitter, *, job: Job) -> list[Comparison]:
    """Times a shape; emits notes on baselines that do not apply or compute something else.

    Raises:
        LauncherFailed: the operator is wrong at this shape, so its time means nothing.
        ReferenceFailed: there is nothing to check against.
    """
    operator = resolve(job.address)
    inputs = inputs_of(operator, job.case, job.device).map(lambda t: t.detach())
    on_cpu = job.device == "cpu"
    calls: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        expected = golden_results(operator, inputs, job.case)
        if not on_cpu:
            calls[OURS] = calls[AGAIN] = lambda: run_tuned(operator, inputs, job.config)
            _require_right(operator, inputs, job, expected)
        for name, baseline in baselines.callables(operator, compile=job.compile).items():
            emit(Progress("bench", 0, f"{job.shape}: preparing {name}"))
            ready = _checked(name, baselines.bound(baseline, inputs, inputs.kwargs), expected, emit, job)
            if ready is not None:
                calls[name] = ready
        if on_cpu:  # the kernel cannot run here: the reference as it stands takes its place
            emit(Note(f"{job.shape}: on a CPU no kernel runs: 'ours' is the reference in eager mode"))
            calls = _reference_first(calls)
        timer: Timer = HostTimer() if on_cpu else DeviceTimer()
        emit(Progress("bench", 0, f"{job.shape}: timing {', '.join(n for n in calls if n != AGAIN)}"))
        rounds = interleave(calls, timer, seconds=job.seconds, seed=job.seed)
    moved = _bytes(inputs.tensors.values()) + sum(e.values.numel() * e.dtype.itemsize for e in expected or ())
    return _comparisons(operator, job, float(moved), list(calls), rounds, timer.regime)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def run_tuned(operator: Operator, inputs: Inputs, config: Config | None) -> Any:
    """A call in a given configuration, else as a program would: tuned where the table knows the shape."""
    if config is not None:
        return call(operator, inputs, config)
    return operator.launch(inputs) if operator.is_bare_kernel else operator(*inputs.args, **inputs.kwargs)


def _reference_first(calls: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    if baselines.EAGER not in calls:
        raise LauncherFailed("bench --device cpu needs a reference that runs on the CPU")
    others = {name: timed for name, timed in calls.items() if name != baselines.EAGER}
    return {OURS: calls[baselines.EAGER], AGAIN: calls[baselines.EAGER], **others}


def golden_results(operator: Operator, inputs: Inputs, case: Case) -> tuple[golden.Expected, ...] | None:
    if operator.reference is None:
        return None
    return golden.expect(
        operator.reference,
        inputs,
        mutates=operator.mutates,
        declared=operator.result_dtypes(case),
        label=case.label,
        # At sizes worth timing float64 may not fit the memory; for 16-bit tensors float32 is golden enough.
        golden_dtype=torch.float32 if is_half(inputs) else torch.float64,
    )


def is_half(inputs: Inputs) -> bool:
    """Whether all floating tensors have 16 bits or fewer."""
    return all(t.element_size() <= 2 for t in inputs.tensors.values() if t.is_floating_point())


def check_right(
    operator: Operator, inputs: Inputs, config: Config | None, expected: tuple[golden.Expected, ...] | None
) -> float:
    """Runs once on copies and poisoned memory; the worst error over the tolerance (0 with no reference)."""
    copies = inputs.copy()
    with Poisoned():
        outputs = golden.as_tensors(run_tuned(operator, copies, config)) or ()
    torch.cuda.synchronize()
    if expected is None:
        return 0.0
    mutated = tuple(copies.tensors[name] for name in operator.mutates if name in copies.tensors)
    results = golden.own_outputs(outputs, mutated, len(expected) - len(mutated)) + mutated
    if len(results) != len(expected):
        raise LauncherFailed(f"the launcher returned {count(len(results), 'tensor')}, the reference {len(expected)}")
    return max((golden.compare(a, e).error_over_tolerance for a, e in zip(results, expected, strict=True)), default=0.0)


def _require_right(operator: Operator, inputs: Inputs, job: Job, expected: tuple[golden.Expected, ...] | None) -> None:
    worst = check_right(operator, inputs, job.config, expected)
    if worst > 1:
        raise LauncherFailed(
            f"wrong at {job.shape}: {worst:.3g} times the tolerance", "tilewright debug --device finds out why"
        )


def _checked(
    name: str, baseline: Callable[[], Any], expected: tuple[golden.Expected, ...] | None, emit: Emitter, job: Job
) -> Callable[[], Any] | None:
    """The baseline if it runs here and computes the same thing, else None and a note that says why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backend that does not apply explains itself at length, then raises
            results = golden.as_tensors(baseline()) or ()
    except Exception as error:
        emit(Note(f"{job.shape}: baseline {name} does not apply: {type(error).__name__}: {_first_line(error)}"))
        return None
    for actual, gold in zip(results, expected or (), strict=False):
        worst = golden.compare(actual, gold).error_over_tolerance
        if worst > 1:
            emit(
                Note(
                    f"{job.shape}: baseline {name} computes something else ({worst:.3g} times the tolerance): left out"
                )
            )
            return None
    return baseline


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160]


def _comparisons(
    operator: Operator, job: Job, moved: float, sides: list[str], rounds: list[list[Any]], regime: str
) -> list[Comparison]:
    columns = {side: [taken[i] for taken in rounds] for i, side in enumerate(sides)}
    seconds = {side: [sample.seconds for sample in column] for side, column in columns.items()}
    flops = operator.flops_of(job.case)
    timings = {side: stats.timing(side, column, flops, moved) for side, column in columns.items()}
    _, low, high = stats.ratio(seconds[AGAIN], seconds[OURS])
    noise = noise_floor(low, high)
    comparisons = []
    for side in sides:
        if side in (OURS, AGAIN):
            continue
        centre, low, high = stats.ratio(seconds[side], seconds[OURS])
        comparisons.append(
            Comparison(
                operator=operator.name,
                case=job.case,
                shape=job.shape,
                baseline=side,
                ratio=centre,
                low=low,
                high=high,
                verdict=verdict(low, high, noise),
                regime=regime,
                ours=timings[OURS],
                theirs=timings[side],
                noise_floor=noise,
                config=job.config,
            )
        )
    return comparisons
