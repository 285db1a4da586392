"""The calls that a plan times, each checked first.

All sides read the same memory, filled anew before each call. On memory of its own the same kernel was up to 6 % faster or
slower against itself, for as long as the process lived (docs/benchmarking.md).
"""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tilewright.bench import blame, flags
from tilewright.bench.deadline import deadline
from tilewright.bench.draws import write
from tilewright.bench.held import Held, Side, in_memory
from tilewright.bench.plan import AGAIN, CONTROL, OURS, OWN_SIDES
from tilewright.bench.timer import MachineTimer
from tilewright.errors import LauncherFailed
from tilewright.spec import golden
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs

_PROBES = 5
FIRST_CALL_SECONDS = float(os.environ.get("TILEWRIGHT_FIRST_CALL_SECONDS", "90"))
"""That a baseline may take to compile and to tune itself."""


@dataclass
class Sides:
    """Calls by name, in the order of the plan, and what they run on; ``notes`` say what was left out and why,
    ``conditions`` what else belongs to the figures. ``slowdown`` is the control's, None where there is no control.
    ``typical`` is about how long ours takes, in seconds."""

    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    slowdown: float | None = None
    typical: float = 0.0

    @property
    def own(self) -> list[str]:
        """The sides that run the operator itself."""
        return [name for name in (OURS, AGAIN, CONTROL) if name in self.calls]


def prepare(
    ours: Side,
    others: Mapping[str, Side],
    inputs: Inputs,
    expected: tuple[Expected, ...] | None,
    timer: MachineTimer,
    *,
    mutates: Sequence[str] = (),
    swapped: bool,
    slowdown: float,
) -> Sides:
    """Ours twice, ours made slower by a known share, and those of the others that run here and compute the same.

    Args:
        swapped: the sides are run for the first time in reverse order.
        slowdown: of the control, at least.
    """
    sides = Sides()
    applicable = {name: side for name, side in others.items() if _applies(sides, name, side, inputs, expected)}
    run = {OURS: ours, AGAIN: ours, **applicable}
    memory = inputs.copy()
    refill = partial(write, memory, inputs)
    held = {name: Held(side, memory, tuple(mutates) if side is ours else ()) for name, side in run.items()}
    calls = _ready(sides, held, timer, refill, swapped=swapped)
    _compare_layouts(sides, {name: held[name] for name in calls})
    sides.typical = statistics.median(timer.time(calls[OURS], refill).seconds for _ in range(_PROBES))
    slowed = timer.slowed(calls[OURS], slowdown, sides.typical)
    control = {} if slowed is None else {CONTROL: slowed.call}
    sides.slowdown = None if slowed is None else slowed.share
    sides.calls = {
        OURS: calls[OURS],
        AGAIN: calls[AGAIN],
        **control,
        **{name: calls[name] for name in applicable if name in calls},
    }
    sides.held = {name: held[OURS if name == CONTROL else name] for name in sides.calls}
    return sides


def _ready(
    sides: Sides, held: Mapping[str, Held], timer: MachineTimer, refill: Callable[[], None], *, swapped: bool
) -> dict[str, Callable[[], Any]]:
    """All calls, compiled and allocated before any of them is timed; without baselines that this regime refuses.

    In the order given or, swapped, in reverse: what a side keeps for itself comes to lie elsewhere.
    """
    calls = {}
    for name, one in reversed([*held.items()]) if swapped else held.items():
        refill()
        try:
            calls[name] = timer.ready(one)
            error: Exception | None = one.error
        except Exception as raised:
            error = one.error or raised
        if error is None:
            continue
        words = f"{timer.regime}: {type(error).__name__}: {first_line(error)}"
        if name in OWN_SIDES:
            raise LauncherFailed(f"the launcher cannot be timed ({words})")
        calls.pop(name, None)
        sides.notes.append(f"baseline {name} cannot be timed ({words})")
    return calls


def free_bytes(inputs: Inputs) -> int:
    """Of the memory that the inputs are in."""
    if any(tensor.is_cuda for tensor in inputs.tensors.values()):
        return int(torch.cuda.mem_get_info()[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _applies(sides: Sides, name: str, side: Side, inputs: Inputs, expected: tuple[Expected, ...] | None) -> bool:
    """Whether a baseline runs here and computes the same thing; a note says why not."""
    before = flags.read()
    try:
        with warnings.catch_warnings(), deadline(FIRST_CALL_SECONDS, "the first call"):
            warnings.simplefilter("ignore")  # a backend that does not apply explains itself at length, then raises
            results = [in_memory(t) for t in golden.as_tensors(side(inputs.copy())) or ()]  # inputs it may change
    except Exception as error:
        sides.notes.append(f"baseline {name} does not apply: {type(error).__name__}: {first_line(error)}")
        if isinstance(error, torch.OutOfMemoryError):
            torch.cuda.empty_cache()
        return False
    finally:
        flags.restore(before)
    worst = blame.worst([tensor for tensor in results if tensor is not None], expected or ())
    if not worst <= 1:
        sides.notes.append(f"baseline {name} computes something else ({worst:.3g} times the tolerance): left out")
        return False
    return True


def _compare_layouts(sides: Sides, held: Mapping[str, Held]) -> None:
    """Says where a baseline leaves its outputs in another layout than ours: that may be work that one of them saves."""
    ours = golden.as_tensors(held[OURS].result) or ()
    for name in held:
        for mine, theirs in zip(ours, golden.as_tensors(held[name].result) or (), strict=False):
            if mine.shape == theirs.shape and _steps(mine) != _steps(theirs):
                sides.conditions.append(f"{name} returns strides {tuple(theirs.stride())}, ours {tuple(mine.stride())}")


def _steps(tensor: Tensor) -> list[int]:
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160]


def baseline_sides(found: Mapping[str, Callable[..., Any]]) -> dict[str, Side]:
    """Baselines as sides: called with the inputs' positional arguments and the options they take."""
    return {name: _baseline_side(baseline) for name, baseline in found.items()}


def _baseline_side(baseline: Callable[..., Any]) -> Side:
    """Which options it takes is asked once: on a host's clock the question would count."""
    names: list[str] | None = None

    def side(inputs: Inputs) -> Any:
        nonlocal names
        if names is None:
            names = list(golden.accepted_keywords(baseline, inputs.kwargs))
        return baseline(*inputs.args, **{name: inputs.kwargs[name] for name in names})

    return side
