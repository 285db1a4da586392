"""The roofline: the least time that a chip's peaks allow for so much arithmetic and so much traffic.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tilewright.errors import UsageError
from tilewright.hardware.target import Target

# How PyTorch and Triton spell the keys of Target.peak; any fp8 or float8 format is "fp8".
_SPELLINGS = {
    "float64": "fp64",
    "double": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "tfloat32": "tf32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "uint8": "int8",
}


@dataclass(frozen=True)
class Roofline:
    """A lower bound on a kernel's time, and which of the two roofs sets it."""

    compute_seconds: float  # the arithmetic alone, at the dtype's peak
    memory_seconds: float  # the traffic alone, at the memory's peak
    seconds: float  # the longer of the two
    bound: Literal["compute", "memory"]
    intensity: float  # FLOP per byte of the kernel; infinite without traffic
    ridge: float  # FLOP per byte from which on the chip computes longer than it moves


def roofline(target: Target, *, flops: float, bytes: float, dtype: str) -> Roofline:
    """The least time on ``target`` for ``flops`` operations in ``dtype`` and ``bytes`` to and from memory.

    Args:
        flops: floating-point (for int8, integer) operations, a multiply-add being two.
        bytes: compulsory traffic: each input read once, each output written once. Data that stays in L2 moves
            faster, so a kernel on little data can beat this bound.
        dtype: what the arithmetic is done in: a key of ``Target.peak`` or PyTorch's or Triton's name for it. An
            fp32 ``tl.dot`` that is allowed tf32 is ``"tf32"``.

    Where ``target.claims_timing`` is False the result is arithmetic on the vendor's peaks, not to be shown as a time.

    Raises:
        UsageError: if the chip has no unit for ``dtype``, or a quantity is negative or not finite.
    """
    for what, value in (("flops", flops), ("bytes", bytes)):
        if not (math.isfinite(value) and value >= 0):
            raise UsageError(f"roofline of {what}={value}", "give a finite number, 0 or more")
    peak = _peak(target, dtype)
    compute_seconds = flops / peak
    memory_seconds = bytes / target.memory_bandwidth
    return Roofline(
        compute_seconds=compute_seconds,
        memory_seconds=memory_seconds,
        seconds=max(compute_seconds, memory_seconds),
        bound="compute" if compute_seconds > memory_seconds else "memory",
        intensity=flops / bytes if bytes else math.inf,
        ridge=peak / target.memory_bandwidth,
    )


def _peak(target: Target, dtype: str) -> float:
    name = str(dtype).removeprefix("torch.").lower()
    key = "fp8" if name.startswith(("fp8", "float8")) else _SPELLINGS.get(name, name)
    if key not in target.peak:
        raise UsageError(
            f"{target.title} has no peak rate for {dtype}",
            f"name the dtype the arithmetic is done in: {', '.join(target.peak)}",
        )
    return target.peak[key]
