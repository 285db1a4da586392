"""Timing one call: on the device between CUDA events, on the host with its clock.

Device samples are of a cold L2 and a busy stream: a buffer larger than the cache is written first, and the
stream is held by a spin kernel while the host queues flush, events and call, so that launch latency stays
out of the interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol

import torch

from tilewright.hardware import clocks
from tilewright.records import Sample

_SPIN_CYCLES = 400_000  # about 0.2 ms at 1.9 GHz: longer than it takes to queue a call of a few launches
_FALLBACK_L2 = 64 * 2**20
_CLOCK_EVERY = 10


class Timer(Protocol):
    """Times one call in one regime."""

    regime: str

    def time(self, call: Callable[[], Any]) -> float: ...

    def clock_mhz(self) -> int | None: ...


class DeviceTimer:
    """CUDA events around a call, L2 flushed, launch latency hidden."""

    regime = "device time, cold L2"

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        size = 2 * (getattr(properties, "L2_cache_size", 0) or _FALLBACK_L2)
        self._flush = torch.empty(size, dtype=torch.int8, device="cuda")

    def time(self, call: Callable[[], Any]) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_SPIN_CYCLES)
        self._flush.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def clock_mhz(self) -> int | None:
        return clocks.sm_clock_mhz()


class HostTimer:
    """The host's clock around a call that computes on the CPU."""

    regime = "host time, warm caches"

    def time(self, call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    def clock_mhz(self) -> int | None:
        return None


def interleave(
    calls: Mapping[str, Callable[[], Any]],
    timer: Timer,
    *,
    seconds: float,
    least: int = 20,
    most: int = 500,
    seed: int = 0,
) -> list[list[Sample]]:
    """Rounds of one sample of each call, in an order drawn anew each round, for about ``seconds``.

    Warm-up first, until each call's time stops falling; at least ``least`` rounds, at most ``most``.
    """
    for call in calls.values():
        _warm_up(call, timer)
    order, source = list(calls), Random(seed)
    rounds: list[list[Sample]] = []
    started = time.perf_counter()
    clock = timer.clock_mhz()
    while len(rounds) < least or (time.perf_counter() - started < seconds and len(rounds) < most):
        source.shuffle(order)
        if len(rounds) % _CLOCK_EVERY == 0:
            clock = timer.clock_mhz()
        taken = {side: Sample(side, timer.time(calls[side]), clock, timer.regime) for side in order}
        rounds.append([taken[side] for side in calls])
    return rounds


def _warm_up(call: Callable[[], Any], timer: Timer, least: int = 5, most: int = 40) -> None:
    """Until the last three samples are no faster than those before them by more than 2 %."""
    taken: list[float] = []
    while len(taken) < most:
        taken.append(timer.time(call))
        if len(taken) >= least + 3 and min(taken[-3:]) >= 0.98 * min(taken[:-3]):
            return
