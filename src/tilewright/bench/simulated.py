"""A timer whose noise is known: what the engine and its statistics are tested and studied with.

Times stray as those of real machines do: launch by launch, in spikes, with a drift, in stretches (a first-order
autoregression), under clock drops, in the steps of the event clock; and each side has its own effect in each process
(where its memory lies), which no pairing inside that process removes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.bench.timer import Reading, Slowed, nothing

Array = NDArray[np.float64]
BASE_MHZ = 1980.0


@dataclass(frozen=True)
class Noise:
    """How times stray. All sizes are shares of a call's own time, but ``quantum``, which is in seconds.

    Args:
        white: standard deviation of each sample.
        process: standard deviation of each side's effect in one process; ``process_tail`` degrees of freedom of
            Student's t make it heavy-tailed, None leaves it normal.
        order: what the side whose memory was allocated second loses by that.
        drift: how much slower everything is at the end of a process than at its start.
        wander: standard deviation of a first-order autoregression with ``memory`` from one sample to the next.
        spikes: probability that a sample is hit; ``spike`` is the mean of what it loses then (exponential).
        drops: probability that a clock drop starts at a sample; it lasts ``drop_length`` samples in the mean, and
            takes ``drop`` of the clock.
        quantum: the step of the event clock; start and end fall anywhere between two steps.
    """

    name: str = "white"
    white: float = 0.01
    process: float = 0.0
    process_tail: float | None = None
    order: float = 0.0
    drift: float = 0.0
    wander: float = 0.0
    memory: float = 0.99
    spikes: float = 0.0
    spike: float = 0.2
    drops: float = 0.0
    drop: float = 0.2
    drop_length: float = 60.0
    quantum: float = 0.0


def factors(noise: Noise, rng: np.random.Generator, streams: int, samples: int) -> tuple[Array, Array]:
    """By how much each sample is longer than its call, and the clock meanwhile in MHz: ``streams`` x ``samples``."""
    logs = noise.white * rng.standard_normal((streams, samples))
    if noise.drift:
        logs += np.linspace(0, noise.drift, samples)
    if noise.wander:
        logs += noise.wander * _autoregression(rng, noise.memory, streams, samples)
    if noise.spikes:
        hit = rng.random((streams, samples)) < noise.spikes
        logs += np.log1p(hit * rng.exponential(noise.spike, (streams, samples)))
    clock = np.full((streams, samples), BASE_MHZ)
    if noise.drops:
        dropped = _drops(noise, rng, streams, samples)
        logs -= np.log1p(-noise.drop * dropped)
        clock *= 1 - noise.drop * dropped
    return np.exp(logs), clock


def effects(noise: Noise, rng: np.random.Generator, *shape: int) -> Array:
    """Each side's own effect in each process, as logarithms."""
    if noise.process_tail is None:
        return np.asarray(noise.process * rng.standard_normal(shape))
    tail = noise.process_tail
    return np.asarray(noise.process * rng.standard_t(tail, shape) / np.sqrt(tail / (tail - 2)))


def quantised(seconds: Array, noise: Noise, rng: np.random.Generator) -> Array:
    """What an event clock of finite steps makes of times."""
    if not noise.quantum:
        return seconds
    steps = np.floor(seconds / noise.quantum + rng.random(seconds.shape))
    return np.asarray(np.maximum(steps, 1) * noise.quantum)


def _autoregression(rng: np.random.Generator, memory: float, streams: int, samples: int) -> Array:
    """Of standard deviation 1, stationary from the first sample on."""
    found = rng.standard_normal((samples, streams))
    found[1:] *= np.sqrt(1 - memory**2)
    for i in range(1, samples):
        found[i] += memory * found[i - 1]
    return found.T


def _drops(noise: Noise, rng: np.random.Generator, streams: int, samples: int) -> Array:
    """1 where the clock is down."""
    starts = rng.random((streams, samples)) < noise.drops
    lengths = np.where(starts, np.ceil(rng.exponential(noise.drop_length, (streams, samples))), 0)
    ends = np.maximum.accumulate(np.where(starts, np.arange(samples) + lengths, 0), axis=1)
    return (np.arange(samples) < ends).astype(np.float64)


@dataclass(frozen=True)
class SimulatedCall:
    """A call that would take ``seconds`` without noise."""

    seconds: float

    def __call__(self) -> None:
        return None


class SimulatedTimer:
    """Gives the times of :class:`SimulatedCall` in one process; its clock is the sum of what it gave."""

    regime = "simulated time"

    def __init__(self, noise: Noise, seed: int, *, samples: int = 20_000) -> None:
        self._noise = noise
        self._rng = np.random.default_rng(seed)
        streams, clocks = factors(noise, self._rng, 1, samples)
        self._factors, self._clocks = streams[0], clocks[0]
        self._taken = 0
        self._now = 0.0

    def time(
        self, call: Callable[[], Any], before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
    ) -> Reading:
        if not isinstance(call, SimulatedCall):
            raise TypeError(f"the simulated timer times SimulatedCall, not {call!r}")
        at = self._taken % len(self._factors)
        self._taken += 1
        seconds = call.seconds * float(self._factors[at])
        seconds = float(quantised(np.asarray([seconds]), self._noise, self._rng)[0])
        self._now += seconds
        return Reading(seconds, float(self._clocks[at]))

    def now(self) -> float:
        return self._now

    def conditions(self) -> tuple[str, ...]:
        return ()

    def slowed(self, call: Callable[[], Any], share: float, typical: float) -> Slowed:
        if not isinstance(call, SimulatedCall):
            raise TypeError(f"the simulated timer times SimulatedCall, not {call!r}")
        return Slowed(SimulatedCall(call.seconds * (1 + share)), share)
