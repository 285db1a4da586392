"""A dispatch mode that does not bring in torch's compiler.

``TorchDispatchMode`` keeps Dynamo from compiling what a mode does, and imports Dynamo (and SymPy with it: more than a
second) to say so at the mode's first operation. Where nothing was compiled there is nothing to keep off.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    """While active, each of torch's operations goes to :meth:`dispatch`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # it is skipped below, once there is a Dynamo

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        dispatch = type(self).dispatch
        if "torch._dynamo" in sys.modules:
            dispatch = _never_compiled(dispatch)
        return dispatch(self, func, args, kwargs or {})

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What is done in place of ``func(*args, **kwargs)``."""
        raise NotImplementedError


@functools.cache
def _never_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    disabled: Callable[..., Any] = torch.compiler.disable(function)
    return disabled
