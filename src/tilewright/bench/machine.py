"""What NVML says of the GPU while a plan runs: throttling, power, temperature, who else is on it."""

from __future__ import annotations

import time

from tilewright.hardware import clocks

_EVERY = 0.25  # seconds: NVML takes longer than a sample
NVML_ABSENT = "NVML cannot be read (pip install nvidia-ml-py): throttling and other processes on the GPU are unknown"


class Machine:
    """Looks now and then, and remembers."""

    def __init__(self) -> None:
        self._next = 0.0
        self.temperatures: list[float] = []
        self.watts: list[float] = []
        self._found: dict[str, None] = {}

    def look(self) -> None:
        """Costs nothing but where the last look was some time ago."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        reading = clocks.read()
        if reading is None:
            self._found[NVML_ABSENT] = None
            return
        self.temperatures.append(float(reading.temperature))
        self.watts.append(reading.power_watts)
        self._found |= dict.fromkeys(f"clock held down: {name}" for name in reading.throttled)
        if reading.other_processes:
            self._found["other processes on the GPU"] = None

    def conditions(self) -> tuple[str, ...]:
        """What was found since this was asked last."""
        self._next = 0.0
        self.look()
        found, self._found = tuple(self._found), {}
        return found
