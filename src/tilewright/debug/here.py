"""The debug stage in this process, for operators that were made in it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from tilewright.debug.child import Session
from tilewright.debug.options import DebugOptions


class Here(Session):
    """A session with no child: the checked executor needs none."""

    def _ask(self, task: str, address: Any, options: DebugOptions, **arguments: Any) -> Any:
        module, _, name = task.partition(":")
        function = getattr(importlib.import_module(module), name)
        threads, hook = torch.get_num_threads(), sys.breakpointhook
        try:
            return function(_Silent(), address=address, target=options.target, **arguments)
        finally:
            torch.set_num_threads(threads)
            sys.breakpointhook = hook


class _Silent:
    """Takes an emitter's place where nobody is told: the terminal is the caller's own."""

    def __call__(self, event: Any) -> None:
        """Nothing listens."""

    def pause(self) -> None:
        """No clock runs."""

    resume = pause
