"""Timing on a GPU, in one of several regimes.

In all but ``host`` a call is timed between CUDA events while the stream is held (``hold.py``), so that what the host
takes to launch stays out of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch

from tilewright.bench.held import Held
from tilewright.bench.hold import Hold
from tilewright.bench.l2 import L2
from tilewright.bench.machine import Machine
from tilewright.bench.stamps import Stamps
from tilewright.bench.timer import Reading, Slowed, nothing
from tilewright.hardware import clocks

REGIMES = {
    "cold": "device time, cold L2",
    "warm": "device time, warm L2",
    "graph": "graph replay, cold L2",
    "host": "host-visible latency, warm L2",
}
"""What each choice is called in records."""

# Held from before the first kernel runs: what is put in their place afterwards changes nothing here.
_clock = time.perf_counter
_Event = torch.cuda.Event
_record, _elapsed, _synchronize = _Event.record, _Event.elapsed_time, torch.cuda.synchronize
_sleep = torch.cuda._sleep
_FASTEST_MHZ = 2600
_PROBES = 15
_SPIN_ROOM = 1.2  # of a second launch, which a control has to add at least
_MOST_SLOWED = 0.1
"""A call so short that a control adds more has none: seeing that much says nothing of one per cent."""


class DeviceTimer:
    """Times calls on the current GPU.

    ``launch_overhead`` is what an empty kernel takes by this timer, in seconds: a floor under every time in this regime.
    """

    def __init__(self, regime: str = "cold") -> None:
        self.regime = REGIMES[regime]
        self._choice = regime
        reading = clocks.read()
        self._mhz = float(reading.max_sm_mhz if reading else _FASTEST_MHZ)
        self._holds: WeakKeyDictionary[Callable[[], Any], Hold] = WeakKeyDictionary()
        self.l2 = L2()
        self._stamps = Stamps()
        self.machine = Machine()
        self.launch_overhead = self._typical(lambda: _sleep(0))
        self._second_launch = max(self._typical(lambda: (_sleep(0), _sleep(0))) - self.launch_overhead, 0.0)

    @property
    def is_cold(self) -> bool:
        return self._choice in ("cold", "graph")

    @property
    def is_host(self) -> bool:
        return self._choice == "host"

    def ready(self, call: Held) -> Callable[[], Any]:
        call()
        _synchronize()
        if self._choice != "graph" or call.error is not None:
            return call
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        call.is_replayed = True
        return graph.replay

    def time(
        self, call: Callable[[], Any], before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
    ) -> Reading:
        self.machine.look()
        self._stamps.first()
        seconds, leaked = (self._on_host if self.is_host else self._on_device)(call, before, after)
        mhz = self._stamps.mhz()
        self._mhz = mhz or self._mhz
        return Reading(seconds, mhz, leaked)

    def _on_device(
        self, call: Callable[[], Any], before: Callable[[], None], after: Callable[[], None]
    ) -> tuple[float, bool]:
        start, end = _Event(enable_timing=True), _Event(enable_timing=True)
        hold = self._holds.setdefault(call, Hold())
        if self.is_cold:
            self.l2.release()
        hold.begin(1e6 * self._mhz)
        before()
        if self._choice == "warm":
            call()
            before()
        else:
            self.l2.flush()
        _record(start)
        call()
        _record(end)
        leaked = hold.end()
        after()
        self._stamps.second()
        _synchronize()
        return float(_elapsed(start, end)) / 1000, leaked

    def _on_host(
        self, call: Callable[[], Any], before: Callable[[], None], after: Callable[[], None]
    ) -> tuple[float, bool]:
        before()
        _synchronize()
        start = _clock()
        call()
        _synchronize()
        end = _clock()
        after()
        self._stamps.second()
        return end - start, False

    def now(self) -> float:
        return _clock()

    def conditions(self) -> tuple[str, ...]:
        return self.machine.conditions()

    def slowed(self, call: Callable[[], Any], share: float, typical: float) -> Slowed | None:
        """A spin behind the call, as long as is left of the share once the launch of it has taken its part."""
        share = max(share, _SPIN_ROOM * self._second_launch / typical)
        if self.is_host or share > _MOST_SLOWED:
            return None
        cycles = max(round((share * typical - self._second_launch) * 1e6 * self._mhz), 1)

        def longer() -> None:
            call()
            _sleep(cycles)

        return Slowed(longer, share)

    def _typical(self, call: Callable[[], Any]) -> float:
        return statistics.median(self.time(call).seconds for _ in range(_PROBES))
