"""What a bench child does: one shape of one operator, correct first, then timed in rounds with its baselines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from tilewright.bench import baselines, draws, stats
from tilewright.bench.described import bytes_read, bytes_written, described
from tilewright.bench.device import DeviceTimer
from tilewright.bench.held import Side
from tilewright.bench.plan import AGAIN, CONTROL
from tilewright.bench.rounds import Rounds, by_side, take
from tilewright.bench.sides import Sides, baseline_sides, first_line, free_bytes, prepare
from tilewright.bench.tampering import Guard
from tilewright.bench.timer import HostTimer, MachineTimer
from tilewright.bench.watch import Watch
from tilewright.errors import ChildFailed, LauncherFailed
from tilewright.launch.capture import call
from tilewright.launch.host import inputs_of
from tilewright.process import Emitter
from tilewright.records import Case, Config, Measurement, Note, Progress
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import Address, resolve
from tilewright.spec.operator import Operator
from tilewright.spec.poison import Poisoned
from tilewright.wording import count

_GUARD = Guard()  # made when this module is imported: before the operator's file is


@dataclass(frozen=True)
class Job:
    """One shape to time in one process. ``config`` None is the launcher's own choice, or the tuned one.

    ``case`` has the inputs of this process, ``recorded`` the one that all processes share in records.
    """

    address: Address
    case: Case
    recorded: Case
    shape: str
    device: str
    seconds: float
    process: int
    swapped: bool
    slowdown: float
    config: Config | None = None
    compile: bool = True
    regime: str = "cold"
    baselines: tuple[str, ...] | None = None
    revision: str | None = None


def measure_shape(emit: Emitter, *, job: Job) -> Measurement:
    """Times a shape; emits notes on baselines that do not apply or compute something else.

    Raises:
        LauncherFailed: the operator is wrong at this shape, so its time means nothing.
        ReferenceFailed: there is nothing to check against.
    """
    operator = resolve(job.address)
    inputs = inputs_of(operator, job.case, job.device).map(lambda t: t.detach())
    try:
        return _measured(emit, operator, inputs, job)
    except torch.OutOfMemoryError as error:
        raise ChildFailed(f"out of the GPU's memory: {first_line(error)}", reason="memory") from None


def _measured(emit: Emitter, operator: Operator, inputs: Inputs, job: Job) -> Measurement:
    timer: MachineTimer = HostTimer() if job.device == "cpu" else DeviceTimer(job.regime)
    with torch.no_grad():
        expected = golden_results(operator, inputs, job.case)
        emit(Progress("bench", 0, f"{job.shape}: preparing"))
        others = baseline_sides(baselines.callables(operator, inputs, compile=job.compile, wanted=job.baselines))
        ours = _ours(operator, inputs, job, expected, others, emit)
        sides = prepare(
            ours, others, inputs, expected, timer, mutates=operator.mutates, swapped=job.swapped, slowdown=job.slowdown
        )
        rounds = _rounds(operator, job, sides, inputs, expected, timer)
        for note in sides.notes:
            emit(Note(f"{job.shape}: {note}"))
        found = _measurement(operator, job, timer.regime, sides, rounds, inputs, expected)
        return described(found, sides, timer, operator, inputs, expected) if isinstance(timer, DeviceTimer) else found


def _rounds(
    operator: Operator,
    job: Job,
    sides: Sides,
    inputs: Inputs,
    expected: tuple[golden.Expected, ...] | None,
    timer: MachineTimer,
) -> Rounds:
    """Rounds of all sides, watched; without baselines that were not right while they were timed."""
    free = free_bytes(inputs)
    drawn = draws.draw(operator, job.case, inputs, expected, golden_dtype(inputs), free)
    if drawn.note is not None:
        sides.conditions.append(drawn.note)
    before = timer.conditions()
    watch = Watch(sides.calls, sides.held, sides.own, drawn, _GUARD, timer, job.case.seed)
    rounds = take(sides.calls, timer, seconds=job.seconds, seed=job.case.seed, watch=watch)
    watch.finish()
    sides.notes += [
        f"baseline {side} is not right while timed: {fault}: left out" for side, fault in watch.faults.items()
    ]
    sides.conditions += [*watch.notes.values(), *dict.fromkeys([*before, *timer.conditions()])]
    return rounds.without(watch.faults)


def _measurement(
    operator: Operator,
    job: Job,
    regime: str,
    sides: Sides,
    rounds: Rounds,
    inputs: Inputs,
    expected: tuple[golden.Expected, ...] | None,
) -> Measurement:
    if not rounds.stationary:
        sides.conditions.append("times still moved when the warm-up had to end")
    sides.conditions += [
        f"launch latency is inside times of {side}: it waits for the GPU, or is too slow to queue"
        for side in rounds.leaking()
        if side not in (AGAIN, CONTROL)
    ]
    clocks = [reading.clock_mhz for reading in rounds.readings if reading.clock_mhz is not None]
    knows_clocks = len(clocks) == len(rounds.readings)
    apart = stats.lowered(by_side(rounds.order, clocks, len(rounds.sides))) if knows_clocks else np.zeros(0, dtype=bool)
    return Measurement(
        operator=operator.name,
        case=job.recorded,
        shape=job.shape,
        regime=regime,
        process=job.process,
        swapped=job.swapped,
        sides=rounds.sides,
        order=tuple(rounds.order),
        seconds=tuple(reading.seconds for reading in rounds.readings),
        clock_mhz=tuple(clocks) if knows_clocks else (),
        apart=tuple(np.flatnonzero(apart).tolist()),
        conditions=tuple(sides.conditions),
        slowdown=sides.slowdown,
        warm_up_seconds=rounds.warm_up_seconds,
        config=job.config,
        flops=operator.flops_of(job.case),
        moved=bytes_read(inputs) + bytes_written(expected),
        revision=job.revision,
    )


def _ours(
    operator: Operator,
    inputs: Inputs,
    job: Job,
    expected: tuple[golden.Expected, ...] | None,
    others: dict[str, Side],
    emit: Emitter,
) -> Side:
    """The operator's own call, checked; on a CPU, where its kernel cannot run, the reference in its place."""
    own: Side = lambda own_inputs: run_tuned(operator, own_inputs, job.config)
    if job.device == "cpu":
        try:
            own(inputs.copy())
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if baselines.EAGER not in others:
                raise LauncherFailed(
                    f"the launcher does not run on a CPU ({type(error).__name__}: {first_line(error)}), and there is no "
                    "reference to time in its place"
                ) from None
            emit(Note(f"{job.shape}: on a CPU this kernel does not run: 'ours' is the reference in eager mode"))
            return others.pop(baselines.EAGER)
    _require_right(operator, inputs, job, expected)
    return own


def run_tuned(operator: Operator, inputs: Inputs, config: Config | None) -> Any:
    """A call in a given configuration, else as a program would: tuned where the table knows the shape."""
    if config is not None:
        return call(operator, inputs, config)
    return operator.launch(inputs) if operator.is_bare_kernel else operator(*inputs.args, **inputs.kwargs)


def golden_results(operator: Operator, inputs: Inputs, case: Case) -> tuple[golden.Expected, ...] | None:
    if operator.reference is None:
        return None
    return golden.expect(
        operator.reference,
        inputs,
        mutates=operator.mutates,
        declared=operator.result_dtypes(case),
        label=case.label,
        golden_dtype=golden_dtype(inputs),
    )


def golden_dtype(inputs: Inputs) -> torch.dtype:
    """At sizes worth timing float64 may not fit the memory; for 16-bit tensors float32 is golden enough."""
    return torch.float32 if is_half(inputs) else torch.float64


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
    if any(tensor.is_cuda for tensor in inputs.tensors.values()):
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
    if not worst <= 1:
        raise LauncherFailed(
            f"wrong at {job.shape}: {worst:.3g} times the tolerance", "tilewright debug --device finds out why"
        )


def in_process(case: Case, process: int) -> Case:
    """A case with inputs drawn anew for a process."""
    return replace(case, seed=case.seed + process)
