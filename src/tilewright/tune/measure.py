"""What a tune child does on a GPU: a configuration checked against the golden reference, then timed.

All of them run on the same memory, written anew before each call, so that a kernel that works in place meets what the
reference met. What a wrong one may have overwritten elsewhere is made anew behind it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from triton import knobs

from tilewright.bench import stats, worker
from tilewright.bench.device import DeviceTimer
from tilewright.bench.draws import write
from tilewright.bench.held import Held
from tilewright.bench.rounds import take
from tilewright.bench.sides import first_line
from tilewright.bench.timer import MachineTimer
from tilewright.bench.watching import Unwatched
from tilewright.errors import ChildFailed, LauncherFailed, TilewrightError
from tilewright.launch import kept
from tilewright.launch.capture import call
from tilewright.launch.host import inputs_of
from tilewright.process import Emitter
from tilewright.records import Case, Config
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import Address, resolve
from tilewright.spec.operator import Operator
from tilewright.tune.runner import ABANDONED, Measured

FIRST_CALLS = 3
"""Calls by which a configuration that is clearly slower than the best is known."""


@dataclass
class _Bench:
    """What all configurations of a case share. ``is_fresh`` is whether none has run on it yet."""

    operator: Operator
    inputs: Inputs
    memory: Inputs
    expected: tuple[golden.Expected, ...] | None
    timer: MachineTimer
    is_fresh: bool = True


class _Child:
    """This process: the bench it has made, and how."""

    bench: _Bench | None = None
    make: Callable[[], _Bench]
    compiled = 0


def prepare(
    emit: Emitter,
    *,
    address: Address,
    case: Case,
    regime: str,
    folder: str,
    triton_key: str,
    device: str = "cuda",
    timer: Callable[[str], MachineTimer] = DeviceTimer,
) -> None:
    """Makes inputs, golden results and the timer, which all configurations share.

    Args:
        folder, triton_key: of Triton's cache, where compiled kernels lie.

    Raises:
        ReferenceFailed: there is nothing to check against.
        ChildFailed: inputs and golden results do not fit the GPU's memory.
    """
    kept.use(folder, triton_key)
    knobs.compilation.listener = _count
    _Child.make = partial(_made, resolve(address), case, device, timer(regime))
    try:
        with torch.no_grad():
            _bench()
    except torch.OutOfMemoryError as error:
        raise ChildFailed(f"out of the GPU's memory: {first_line(error)}", reason="memory") from None


def measure(emit: Emitter, *, config: Config, seconds: float, best: float | None = None) -> Measured:
    """Checks one configuration on copies and poisoned memory, then times it alone, for about ``seconds``.

    It is abandoned after a few calls where each takes clearly longer than ``best`` seconds.

    Raises:
        LauncherFailed: it does not run; the GPU is as before.
        ChildFailed: it does not run, and this process can use the GPU no more.
    """
    _Child.compiled = 0
    started = time.perf_counter()
    with torch.no_grad(), _recovering():
        worst = _checked(config)
        found = _timed(config, worst, seconds, best) if worst <= 1 else Measured(worst)
        if found.median is None:
            _Child.bench = None  # it may have written anywhere
    return replace(found, compiled=_Child.compiled, took=time.perf_counter() - started)


def _timed(config: Config, worst: float, seconds: float, best: float | None) -> Measured:
    bench = _bench()
    refill = _refill(bench)
    held, ready = _ready(bench, config)
    first = min(bench.timer.time(ready, refill).seconds for _ in range(FIRST_CALLS))
    _require_no_error(held)
    if best is not None and first > ABANDONED * best:
        return Measured(worst, first, abandoned=True)
    rounds = take({"it": ready}, bench.timer, seconds=seconds, watch=_Refilling(refill, {"it": held}))
    _require_no_error(held)
    low, median, high = stats.quartiles(rounds.seconds())
    return Measured(worst, median, low, high)


def duel(emit: Emitter, *, configs: Sequence[Config], seconds: float, seed: int) -> dict[int, list[float]]:
    """Times configurations in turns, by their place in the list: seconds in each round (of both passes, their mean).

    Each is checked once more behind it; what fails or is wrong now is left out.
    """
    with torch.no_grad(), _recovering():
        bench = _bench()
        sides = {str(place): ready for place, config in enumerate(configs) if (ready := _ready_or_none(bench, config))}
        watch = _Refilling(_refill(bench), {name: held for name, (held, _) in sides.items()})
        rounds = take(
            {name: ready for name, (_, ready) in sides.items()}, bench.timer, seconds=seconds, seed=seed, watch=watch
        )
        means = np.exp(np.log(rounds.seconds()).mean(axis=-1))
        columns = {int(name): means[:, i].tolist() for i, name in enumerate(rounds.sides)}
        sound = [int(name) for name, (held, _) in sides.items() if held.error is None]
        return {place: columns[place] for place in sound if _checked(configs[place]) <= 1}


# ------------------------------------------------------------------------------------------------ behind it


def _count(*, cache_hit: bool, **_: Any) -> None:
    _Child.compiled += not cache_hit


def _made(operator: Operator, case: Case, device: str, timer: MachineTimer) -> _Bench:
    inputs = inputs_of(operator, case, device).map(lambda t: t.detach())
    expected = worker.golden_results(operator, inputs, case)
    return _Bench(operator, inputs, inputs.copy(), expected, timer)


def _bench() -> _Bench:
    if _Child.bench is None:
        _Child.bench = _Child.make()
    return _Child.bench


def _checked(config: Config) -> float:
    """The worst error over the tolerance. What seems wrong is checked on inputs made anew: another one may have
    overwritten them."""
    bench = _bench()
    was_fresh, bench.is_fresh = bench.is_fresh, False
    worst = worker.check_right(bench.operator, bench.inputs, config, bench.expected)
    if worst <= 1 or was_fresh:
        return worst
    _Child.bench = None
    return _checked(config)


def _refill(bench: _Bench) -> Callable[[], None]:
    return partial(write, bench.memory, bench.inputs)


def _ready(bench: _Bench, config: Config) -> tuple[Held, Callable[[], Any]]:
    """A configuration as a side of a plan: what holds its result, and what is timed."""
    held = Held(lambda own: call(bench.operator, own, config), bench.memory, tuple(bench.operator.mutates))
    _refill(bench)()
    ready = bench.timer.ready(held)
    _require_no_error(held)
    return held, ready


def _ready_or_none(bench: _Bench, config: Config) -> tuple[Held, Callable[[], Any]] | None:
    try:
        return _ready(bench, config)
    except Exception:
        return None  # it fails where it had been right: it is no finalist


class _Refilling(Unwatched):
    """Writes inputs anew before each call, and lets its outputs go behind it."""

    def __init__(self, refill: Callable[[], None], held: Mapping[str, Held]) -> None:
        self._refill, self._held = refill, held

    def before(self, side: str) -> None:
        self._refill()

    def done(self, side: str, seconds: float) -> None:
        self._held[side].drop()


def _require_no_error(held: Held) -> None:
    if held.error is not None:
        raise held.error


@contextlib.contextmanager
def _recovering() -> Iterator[None]:
    """Turns what a configuration raised into an error that says whether this process can go on."""
    try:
        yield
    except TilewrightError:
        raise
    except Exception as error:
        words = f"{type(error).__name__}: {first_line(error)}"
        if isinstance(error, torch.OutOfMemoryError):
            words = f"out of the GPU's memory: {first_line(error)}"
        try:
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
        except Exception:
            raise ChildFailed(words, reason="crashed") from None
        raise LauncherFailed(words) from None
