"""The second-level cache, emptied: what a call reads then comes from memory."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

_PERSISTING_LIMIT = 0x06  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_UNKNOWN_SIZE = 64 * 2**20


class L2:
    """A buffer of twice the cache's size, written to empty it; lines that a kernel asked to persist are let go first.

    A flush alone leaves persisting lines where they are (see llm.c, pull request 851).
    """

    def __init__(self) -> None:
        properties: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.size = int(getattr(properties, "L2_cache_size", 0) or _UNKNOWN_SIZE)
        self._buffer = torch.empty(2 * self.size, dtype=torch.int8, device="cuda")
        self._driver = _driver()

    def flush(self) -> None:
        """Queued on the current stream."""
        self._buffer.zero_()

    def release(self) -> None:
        """Lets persisting lines go, where any may be; the host does this, ahead of what is queued later."""
        if self._driver is None:
            return
        limit = ctypes.c_size_t(0)
        if self._driver.cuCtxGetLimit(ctypes.byref(limit), _PERSISTING_LIMIT) == 0 and limit.value:
            self._driver.cuCtxResetPersistingL2Cache()


def _driver() -> Any | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
