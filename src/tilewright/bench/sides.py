"""The calls that a plan times: each side on memory of its own, allocated in the plan's order, and checked first."""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tilewright.bench import baselines
from tilewright.bench.plan import AGAIN, CONTROL, OURS
from tilewright.bench.timer import Timer
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs

Side = Callable[[Inputs], Any]
"""Runs one side on the inputs it is given."""

_PROBES = 5


@dataclass
class Sides:
    """Calls by name, in the order of the plan; ``notes`` say what was left out and why, ``conditions`` what else
    belongs to the figures. ``slowdown`` is the control's, None where there is no control."""

    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    slowdown: float | None = None


def prepare(
    ours: Side,
    others: Mapping[str, Side],
    inputs: Inputs,
    expected: tuple[golden.Expected, ...] | None,
    timer: Timer,
    *,
    swapped: bool,
    slowdown: float,
) -> Sides:
    """Ours twice, ours made slower by a known share, and those of the others that run here and compute the same."""
    sides = Sides()
    applicable = {name: side for name, side in others.items() if _applies(sides, name, side, inputs, expected)}
    run = {OURS: ours, AGAIN: ours, **applicable}
    own = _own_memory(sides, list(run), inputs, swapped)
    calls = {name: _bound(side, own[name]) for name, side in run.items()}
    for call in calls.values():
        call()  # compiled and allocated before any of it is timed
    typical = statistics.median(timer.time(calls[OURS]).seconds for _ in range(_PROBES))
    slowed = timer.slowed(calls[OURS], slowdown, typical)
    control = {} if slowed is None else {CONTROL: slowed}
    sides.slowdown = None if slowed is None else slowdown
    sides.calls = {OURS: calls[OURS], AGAIN: calls[AGAIN], **control, **{name: calls[name] for name in applicable}}
    return sides


def _bound(side: Side, inputs: Inputs) -> Callable[[], Any]:
    return lambda: side(inputs)


def _own_memory(sides: Sides, names: list[str], inputs: Inputs, swapped: bool) -> dict[str, Inputs]:
    """A copy of the inputs for each side, made in the order given or, swapped, in reverse."""
    needed = len(names) * sum(t.numel() * t.element_size() for t in inputs.tensors.values())
    if needed > 0.5 * _free_bytes(inputs):
        sides.conditions.append(f"all sides read the same inputs: {len(names)} copies do not fit the memory")
        return dict.fromkeys(names, inputs)
    return {name: inputs.copy() for name in (reversed(names) if swapped else names)}


def _free_bytes(inputs: Inputs) -> int:
    if any(tensor.is_cuda for tensor in inputs.tensors.values()):
        return int(torch.cuda.mem_get_info()[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _applies(sides: Sides, name: str, side: Side, inputs: Inputs, expected: tuple[golden.Expected, ...] | None) -> bool:
    """Whether a baseline runs here and computes the same thing; a note says why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backend that does not apply explains itself at length, then raises
            results = golden.as_tensors(side(inputs.copy())) or ()  # which it may change
    except Exception as error:
        sides.notes.append(f"baseline {name} does not apply: {type(error).__name__}: {first_line(error)}")
        return False
    for actual, gold in zip(results, expected or (), strict=False):
        worst = golden.compare(actual, gold).error_over_tolerance
        if not worst <= 1:
            sides.notes.append(f"baseline {name} computes something else ({worst:.3g} times the tolerance): left out")
            return False
    return True


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160]


def baseline_sides(found: Mapping[str, Callable[..., Any]]) -> dict[str, Side]:
    """Baselines as sides: called with the inputs' positional arguments and the options they take."""
    return {name: _baseline_side(baseline) for name, baseline in found.items()}


def _baseline_side(baseline: Callable[..., Any]) -> Side:
    return lambda inputs: baselines.bound(baseline, inputs, inputs.kwargs)()
