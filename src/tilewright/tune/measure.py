"""What a tune child does on a GPU: a configuration checked against the golden reference, then timed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tilewright.bench import stats, worker
from tilewright.bench.device import DeviceTimer
from tilewright.bench.rounds import take
from tilewright.launch.capture import call
from tilewright.process import Emitter
from tilewright.records import Case, Config
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import Address, resolve
from tilewright.spec.operator import Operator


@dataclass(frozen=True)
class Measured:
    """A configuration's worst error over the tolerance, and its times in seconds where it was right."""

    error_over_tolerance: float
    median: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class _Bench:
    """What all configurations of a case share; made once in a child."""

    operator: Operator
    inputs: Inputs
    expected: tuple[golden.Expected, ...] | None
    timer: DeviceTimer


@functools.lru_cache(maxsize=1)
def _prepared(address: Address, case_id: str, case: _Held) -> _Bench:
    operator = resolve(address)
    inputs = operator.make_inputs(case.case, "cuda").map(lambda t: t.detach())
    expected = worker.golden_results(operator, inputs, case.case)
    return _Bench(operator, inputs, expected, DeviceTimer())


class _Held:
    """A case as a cache argument: its mapping cannot be hashed, its id stands for it."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def __hash__(self) -> int:
        return hash(self.case.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.case.id == self.case.id


def measure(emit: Emitter, *, address: Address, case: Case, config: Config, seconds: float) -> Measured:
    """Checks one configuration on poisoned memory, then times it alone."""
    with torch.no_grad():
        bench = _prepared(address, case.id, _Held(case))
        worst = worker.check_right(bench.operator, bench.inputs, config, bench.expected)
        if worst > 1:
            return Measured(worst)
        rounds = take({"it": _call(bench, config)}, bench.timer, seconds=seconds)
    low, median, high = stats.quartiles(rounds.seconds())
    return Measured(worst, median, low, high)


def duel(
    emit: Emitter, *, address: Address, case: Case, configs: Sequence[Config], seconds: float, seed: int
) -> list[list[float]]:
    """Times configurations against each other; for each round seconds in the order given (of both passes, their mean)."""
    with torch.no_grad():
        bench = _prepared(address, case.id, _Held(case))
        calls = {str(i): _call(bench, config) for i, config in enumerate(configs)}
        rounds = take(calls, bench.timer, seconds=seconds, seed=seed)
    found: list[list[float]] = np.exp(np.log(rounds.seconds()).mean(axis=-1)).tolist()
    return found


def _call(bench: _Bench, config: Config) -> Callable[[], Any]:
    return lambda: call(bench.operator, bench.inputs, config)
