"""The kernels that each side launches, by name, and the precision its products are made in; looked at once, untimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tilewright.bench import flags
from tilewright.spec.mode import Mode

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "_scaled_mm", "linear", "matmul", "convolution", "addmv", "mv", "dot")


class _Products(Mode):
    """Reads the settings at each product: a call may change them for its own time."""

    def __init__(self) -> None:
        super().__init__()
        self.precisions: dict[str, None] = {}

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if func._schema.name.removeprefix("aten::") in _PRODUCTS:
            self.precisions[flags.precision(flags.read())] = None
        return func(*args, **kwargs)


def products(call: Callable[[], Any]) -> tuple[str, ...]:
    """The precisions of PyTorch's own products in a call; empty where it makes none."""
    with _Products() as seen:
        call()
    return tuple(seen.precisions)


def kernels(call: Callable[[], Any]) -> tuple[str, ...]:
    """Names of the kernels and copies that a call puts on the GPU, each once, in the order they come.

    Raises:
        RuntimeError: the profiler cannot be used here.
    """
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    on_device = [e for e in profile.events() or () if e.device_type.name == "CUDA"]
    on_device.sort(key=lambda event: event.time_range.start)
    return tuple(dict.fromkeys(event.name for event in on_device if not _is_marker(event.name)))


def _is_marker(name: str) -> bool:
    """Not work: what the profiler itself puts on the timeline."""
    return name.startswith(("Context Sync", "Activity Buffer", "ProfilerStep", "aten::", "cuda"))
