"""What tuned kernels of a call are asked to do: the work of their launches beside what their tuners' keys hold."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.executor.executor import Executor
from tilewright.debug.executor.second import changed
from tilewright.debug.executor.trace import Trace
from tilewright.debug.patience import at_most
from tilewright.errors import TilewrightError
from tilewright.hardware.target import Target
from tilewright.launch.capture import capture
from tilewright.launch.host import inputs_of
from tilewright.launch.launch import Launch, Tuning
from tilewright.records import Case
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator
from tilewright.spec.poison import Poisoned


@dataclass(frozen=True)
class Tuned:
    """A launch that a tuner with a choice makes.

    Attributes:
        launch: with copies of the tensors as it met them.
        program: elements that its busiest program reads and writes.
        total: elements that all of them do.
    """

    launch: Launch
    tuning: Tuning
    program: int
    total: int


@dataclass
class _Surveyor(Executor):
    tuned: list[Tuned] = field(default_factory=list)

    def __call__(self, launch: Launch) -> None:
        if launch.tuning is None or launch.tuning.offered < 2:
            super().__call__(launch)
            return
        before, self.trace = _copied(launch), Trace()
        super().__call__(launch)
        work = _work(self.trace, launch.programs)
        self.tuned.append(Tuned(before, launch.tuning, int(work.max()), int(work.sum())))
        self.trace = None


@dataclass(frozen=True)
class Survey:
    """The tuned launches of a call. ``inputs`` are kept: what is made for another call lies elsewhere then."""

    tuned: tuple[Tuned, ...]
    inputs: Inputs


def survey(operator: Operator, case: Case, target: Target, seconds: float | None) -> Survey | None:
    """Calls the launcher of a case and watches its tuned kernels; None where it raises, or takes longer."""
    inputs = inputs_of(operator, case)
    poisoned = Poisoned()
    surveyor = _Surveyor(target, poisoned, stdout=lambda text: None)
    try:
        with capture(surveyor, target), poisoned, at_most(seconds):
            operator.launch(inputs)
    except Exception:
        return None  # its cases say why
    return Survey(tuple(surveyor.tuned), inputs)


def only_values_follow(tuned: Tuned, name: str, target: Target) -> bool:
    """Whether another value of an argument gives other results from the very same accesses."""
    value = tuned.launch.arguments[name]
    other = value * 1.5 + 0.5 if isinstance(value, float) else value + 1
    try:
        first, first_trace = _executed(tuned.launch, target)
        changed_launch = replace(tuned.launch, arguments={**tuned.launch.arguments, name: other})
        second, second_trace = _executed(changed_launch, target)
    except TilewrightError:
        return False
    if not _same_accesses(first_trace, second_trace):
        return False
    return any(changed(tensor, second[parameter]) is not None for parameter, tensor in first.items())


def _executed(launch: Launch, target: Target) -> tuple[dict[str, Tensor], Trace]:
    own, trace = _copied(launch), Trace()
    Executor(target, Poisoned(), stdout=lambda text: None, trace=trace)(own)
    return own.tensors, trace


def _work(trace: Trace, programs: int) -> Tensor:
    """Elements read and written, by program."""
    work = torch.zeros(max(programs, 1), dtype=torch.int64)
    for access in trace.accesses:
        work.index_add_(0, access.programs, access.live.sum(1))
    return work


def _same_accesses(first: Trace, second: Trace) -> bool:
    if len(first.accesses) != len(second.accesses):
        return False
    return all(
        (a.verb, a.tensor, a.line) == (b.verb, b.tensor, b.line)
        and a.live.shape == b.live.shape
        and torch.equal(a.programs, b.programs)
        and torch.equal(a.live, b.live)
        and torch.equal(a.elements[a.live], b.elements[b.live])
        for a, b in zip(first.accesses, second.accesses, strict=True)
    )


def _copied(launch: Launch) -> Launch:
    """A launch on memory of its own, where tensors that share a storage still do."""
    storages: dict[int, torch.UntypedStorage] = {}
    return replace(launch, arguments={name: _copy(value, storages) for name, value in launch.arguments.items()})


def _copy(value: Any, storages: dict[int, torch.UntypedStorage]) -> Any:
    if isinstance(value, Tensor):
        own = value.untyped_storage()
        if own.data_ptr() not in storages:
            storages[own.data_ptr()] = own.clone()
        fresh = torch.empty(0, dtype=value.dtype)
        return fresh.set_(storages[own.data_ptr()], value.storage_offset(), value.shape, value.stride())
    if isinstance(value, tuple):
        parts = [_copy(part, storages) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(getattr(value, "base", None), Tensor):  # a descriptor
        other = copy.copy(value)
        other.base = _copy(value.base, storages)
        return other
    return value
