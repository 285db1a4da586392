"""A stand-in for the driver of a chip that is not there: it answers Triton's questions, and launches nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from tilewright.errors import NoGpu
from tilewright.hardware.target import Target


def gpu_target(target: Target) -> GPUTarget:
    """Triton's own description of a chip."""
    return GPUTarget(target.backend, target.capability, target.warp_size)


class StandInDriver:
    """What host code asks of ``triton.runtime.driver.active``, answered from a Target's table."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.utils = _Utilities(target)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return gpu_target(self.target)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cpu

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(self.target.capability, 10) if isinstance(self.target.capability, int) else (9, 4)

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(0)

    def clear_cache(self, cache: torch.Tensor) -> None:
        pass

    def get_benchmarker(self) -> Callable[..., Any]:
        """Runs the call once; no time is claimed, and all configurations tie."""

        def benchmark(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> Any:
            call()
            return [1.0] * len(quantiles) if quantiles else 1.0

        return benchmark

    def map_python_to_cpp_type(self, name: str) -> str:
        return name

    def launcher_cls(self, *_: Any) -> Any:
        raise NoGpu(
            f"a compiled kernel was launched on {self.target.title}, which is not there",
            "launch it with kernel[grid](...)",
        )


class _Utilities:
    def __init__(self, target: Target) -> None:
        self._target = target

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        target = self._target
        return {
            "max_shared_mem": target.shared_per_block,
            "max_num_regs": target.registers_per_unit,
            "multiprocessor_count": target.compute_units,
            "warpSize": target.warp_size,
            "sm_clock_rate": int(target.boost_clock // 1000),
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }

    def load_binary(self, *_: Any) -> Any:
        raise NoGpu(f"a compiled kernel was loaded on {self._target.title}, which is not there")


@contextlib.contextmanager
def standing_in(target: Target) -> Iterator[StandInDriver]:
    """Makes a stand-in for ``target`` Triton's active driver, and puts the former one back."""
    configuration = triton.runtime.driver
    former = configuration._active
    stand_in = StandInDriver(target)
    configuration.set_active(stand_in)
    try:
        yield stand_in
    finally:
        configuration._active = former
