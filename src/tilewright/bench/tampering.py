"""Whether the clock, the events or the checks were replaced under our hands by the code that is timed."""

from __future__ import annotations

import sys
import time
from types import FunctionType, ModuleType
from typing import Any

import torch

_CLOCK = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time")
_CUDA = ("Event", "Stream", "synchronize", "current_stream", "_sleep", "CUDAGraph", "graph")
_EVENT = ("record", "synchronize", "elapsed_time", "query", "wait", "__new__")
_TENSOR = ("clone", "copy_", "fill_", "set_", "to", "view", "untyped_storage", "data_ptr", "zero_")
_TORCH = ("equal", "empty", "empty_like", "where", "isnan")
_OWN = ("tilewright.bench.", "tilewright.spec.golden", "tilewright.spec.poison", "tilewright.spec.inputs")


class Guard:
    """Remembers what timing and checking rest on, as it is when this is made; best before any user's code runs."""

    def __init__(self) -> None:
        self._known: list[tuple[str, Any, str, Any]] = []
        self._add("time", time, _CLOCK)
        self._add("torch.cuda", torch.cuda, _CUDA)
        self._add("torch.cuda.Event", torch.cuda.Event, _EVENT)
        self._add("torch.Tensor", torch.Tensor, _TENSOR)
        self._add("torch", torch, _TORCH)
        for name, module in list(sys.modules.items()):
            if name.startswith(_OWN) and isinstance(module, ModuleType):
                self._add_own(name, module)

    def _add_own(self, name: str, module: ModuleType) -> None:
        for attribute, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != name:
                continue
            if isinstance(value, FunctionType):
                self._known.append((name, module, attribute, value))
            elif isinstance(value, type):
                methods = [key for key, item in vars(value).items() if isinstance(item, FunctionType)]
                self._add(f"{name}.{attribute}", value, methods)

    def _add(self, name: str, owner: Any, attributes: Any) -> None:
        self._known += [(name, owner, key, getattr(owner, key)) for key in attributes if hasattr(owner, key)]

    def replaced(self) -> str | None:
        """The name of one thing that is no longer what it was."""
        for name, owner, attribute, value in self._known:
            if getattr(owner, attribute, None) is not value:
                return f"{name}.{attribute}"
        return None
