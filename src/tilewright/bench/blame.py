"""What is wrong with an output of a timed call, and by what it came about: in words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tilewright.spec import dtypes, golden, poison
from tilewright.spec.golden import Expected
from tilewright.wording import count

_PATIENCE = 1.0  # seconds for work that goes on after a call has returned


def worst(outputs: Sequence[Tensor], expected: Sequence[Expected]) -> float:
    """The largest error over the tolerance."""
    return max(
        (golden.compare(a, e).error_over_tolerance for a, e in zip(outputs, expected, strict=False)), default=0.0
    )


def other_kind(outputs: Sequence[Tensor], expected: Sequence[Expected]) -> str | None:
    """Outputs of another number, shape or dtype than the reference's."""
    if len(outputs) != len(expected):
        return f"it returned {count(len(outputs), 'tensor')}, the reference {len(expected)}"
    for actual, gold in zip(outputs, expected, strict=True):
        if (actual.shape, actual.dtype) != (gold.values.shape, gold.dtype):
            shown = [
                f"{dtypes.short(d)}{list(s)}"
                for s, d in ((actual.shape, actual.dtype), (gold.values.shape, gold.dtype))
            ]
            return f"it returned {shown[0]}, the reference {shown[1]}"
    return None


def name(
    seen: Sequence[Tensor],
    now: Callable[[], Sequence[Tensor]],
    poisoned: Callable[[], Sequence[Tensor]],
    expected: Sequence[Expected],
    others: Sequence[Sequence[Expected]],
    threads: frozenset[threading.Thread],
) -> str:
    """Why values are wrong.

    Args:
        seen: the outputs as the caller's stream had them when the call had returned.
        now: what the same outputs hold at this moment.
        poisoned: makes the call once more, with all memory that it allocates poisoned.
        others: what would be right for the inputs of earlier calls.
        threads: those that ran before the call.
    """
    _wait_for_others(threads)
    if worst(now(), expected) <= 1:
        return "it was still at work when it had returned, in a thread, lazily, or on a stream that the caller's does not wait for"
    if (left := _untouched(seen)) is not None:
        return left
    if any(worst(seen, other) <= 1 for other in others):
        return "it gave the answer to the inputs of an earlier call: it keeps outputs, or runs before its inputs are written"
    if (left := _untouched(poisoned())) is not None:
        return left
    return f"{worst(seen, expected):.3g} times the tolerance in a timed call, after the check before had passed"


def _untouched(outputs: Sequence[Tensor]) -> str | None:
    left = sum(int(poison.untouched(tensor).sum()) for tensor in outputs)
    total = sum(tensor.numel() for tensor in outputs)
    return f"it left {left} of {count(total, 'element')} as the memory held them before" if left else None


def _wait_for_others(threads: frozenset[threading.Thread]) -> None:
    until = time.monotonic() + _PATIENCE
    for thread in threading.enumerate():
        if thread not in threads:
            thread.join(max(until - time.monotonic(), 0.0))
    if torch.cuda.is_available():
        torch.cuda.synchronize()
