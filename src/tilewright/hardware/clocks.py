"""NVML: which GPU there is, how fast it runs, and what holds it back. Everything is None where NVML is not."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

_BENIGN_REASONS = 0x1 | 0x2  # idle, clocks set by an application


@dataclass(frozen=True)
class Reading:
    """One look at the first GPU. ``throttled`` names what lowers its clock now; clocks in MHz."""

    sm_mhz: int
    max_sm_mhz: int
    temperature: int
    power_watts: float
    power_limit_watts: float
    throttled: tuple[str, ...]
    other_processes: int


@cache
def _nvml() -> Any | None:
    try:
        nvml = importlib.import_module("pynvml")  # package nvidia-ml-py, extra "gpu"
        nvml.nvmlInit()
    except Exception:  # no package, no driver, no device: each means the same here
        return None
    return nvml


def _ask(question: Callable[[Any, Any], Any]) -> Any | None:
    nvml = _nvml()
    if nvml is None:
        return None
    with contextlib.suppress(nvml.NVMLError):
        return question(nvml, _device(nvml))
    return None


def _device(nvml: Any) -> Any:
    """The one GPU that this process was given by its UUID, as a child of the tuner is; else the first."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if given.startswith("GPU-") and "," not in given:
        return nvml.nvmlDeviceGetHandleByUUID(given)
    return nvml.nvmlDeviceGetHandleByIndex(0)


def device_name() -> str | None:
    name = _ask(lambda nvml, device: nvml.nvmlDeviceGetName(device))
    return None if name is None else _text(name)


def _text(words: str | bytes) -> str:
    return words.decode() if isinstance(words, bytes) else words


def devices() -> list[tuple[str, str]]:
    """UUID and name of each GPU that NVML sees, the ones this process may not use included."""
    nvml = _nvml()
    if nvml is None:
        return []
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    return [(_text(nvml.nvmlDeviceGetUUID(device)), _text(nvml.nvmlDeviceGetName(device))) for device in handles]


def architecture() -> str | None:
    """Such as ``sm_90``."""
    found = _ask(lambda nvml, device: nvml.nvmlDeviceGetCudaComputeCapability(device))
    return f"sm_{found[0]}{found[1]}" if found else None


def driver_version() -> str | None:
    version = _ask(lambda nvml, device: nvml.nvmlSystemGetDriverVersion())
    return version.decode() if isinstance(version, bytes) else version


def cuda_version() -> str | None:
    """The newest CUDA the driver serves."""
    number = _ask(lambda nvml, device: nvml.nvmlSystemGetCudaDriverVersion())
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def sm_clock_mhz() -> int | None:
    return _ask(lambda nvml, device: int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)))


def read() -> Reading | None:
    """Clock, temperature, power and throttling of the first GPU."""
    return _ask(_read)


def _read(nvml: Any, device: Any) -> Reading:
    reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)) & ~_BENIGN_REASONS
    names = {
        getattr(nvml, name): name.removeprefix("nvmlClocksThrottleReason")
        for name in dir(nvml)
        if name.startswith("nvmlClocksThrottleReason") and isinstance(getattr(nvml, name), int)
    }
    throttled = tuple(name for bit, name in names.items() if bit and bit & reasons and bit & (bit - 1) == 0)
    return Reading(
        sm_mhz=int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)),
        max_sm_mhz=int(nvml.nvmlDeviceGetMaxClockInfo(device, nvml.NVML_CLOCK_SM)),
        temperature=int(nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)),
        power_watts=nvml.nvmlDeviceGetPowerUsage(device) / 1000,
        power_limit_watts=nvml.nvmlDeviceGetEnforcedPowerLimit(device) / 1000,
        throttled=throttled,
        other_processes=max(len(nvml.nvmlDeviceGetComputeRunningProcesses(device)) - 1, 0),
    )
