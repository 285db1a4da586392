"""Timing on a GPU: between CUDA events, of a cold L2 and a busy stream.

A buffer larger than the cache is written first, and the stream is held by a spin kernel while the host queues flush,
events and call, so that launch latency stays out of the interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from tilewright.bench.timer import Reading
from tilewright.hardware import clocks

_SPIN_CYCLES = 400_000  # about 0.2 ms at 1.9 GHz: longer than it takes to queue a call of a few launches
_FALLBACK_L2 = 64 * 2**20
_CLOCK_EVERY = 20


class DeviceTimer:
    """CUDA events around a call, L2 flushed, launch latency hidden."""

    regime = "device time, cold L2"

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        size = 2 * (getattr(properties, "L2_cache_size", 0) or _FALLBACK_L2)
        self._flush = torch.empty(size, dtype=torch.int8, device="cuda")
        self._taken = 0
        self._clock: int | None = None

    def time(self, call: Callable[[], Any]) -> Reading:
        if self._taken % _CLOCK_EVERY == 0:
            self._clock = clocks.sm_clock_mhz()  # NVML takes longer than a sample: not each time
        self._taken += 1
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_SPIN_CYCLES)
        self._flush.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        return Reading(float(start.elapsed_time(end)) / 1000, self._clock)

    def now(self) -> float:
        return time.perf_counter()

    def conditions(self) -> tuple[str, ...]:
        reading = clocks.read()
        if reading is None:
            return ()
        found = [f"clock held down: {name}" for name in reading.throttled]
        return tuple(found + (["other processes on the GPU"] if reading.other_processes else []))

    def slowed(self, call: Callable[[], Any], share: float, typical: float) -> Callable[[], Any] | None:
        # A spin of so many cycles after the call would do, but for the microsecond that its launch adds.
        return None
