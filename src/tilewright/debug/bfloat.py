"""bfloat16 in the stock interpreter, mended.

The interpreter keeps bfloat16 as the 16-bit integers of its bits, and computes on those: a product, a dot
or an exponential of bfloat16 tiles is that of unrelated whole numbers, and a cast from float32 truncates
(NumPy has no bfloat16; upstream documents the limit). Here each such operation runs in float32 and is
rounded to the nearest even bfloat16, as hardware does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

_COMPUTING = (
    "binary_op",
    "ternary_op",
    "unary_op",
    "create_fma",
    "create_dot",
    "create_erf",
    "create_rsqrt",
    "create_fabs",
)
_CASTING = ("cast_impl", "create_fp_to_fp")


@contextlib.contextmanager
def mended() -> Iterator[None]:
    """Within it, the interpreter computes bfloat16 as numbers."""
    originals = {name: getattr(InterpreterBuilder, name) for name in (*_COMPUTING, *_CASTING)}
    for name in _COMPUTING:
        setattr(InterpreterBuilder, name, _in_float32(originals[name]))
    for name in _CASTING:
        setattr(InterpreterBuilder, name, _through_float32(originals[name]))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(InterpreterBuilder, name, original)


def widen(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: np.ndarray) -> np.ndarray:
    """float32 as bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def _is_bf16(value: Any) -> bool:
    return isinstance(value, TensorHandle) and value.dtype.scalar == tl.bfloat16


def _in_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    def compute(self: Any, *operands: Any) -> Any:
        if not any(map(_is_bf16, operands)):
            return original(self, *operands)
        result = original(self, *(_widened(o) if _is_bf16(o) else o for o in operands))
        # A comparison gives bool, a dot its float32 accumulator; what stayed float32 by widening goes back.
        last = [o for o in operands if isinstance(o, TensorHandle)][-1]
        if result.data.dtype == np.float32 and _is_bf16(last):
            return TensorHandle(narrow(result.data), tl.bfloat16)
        return result

    return compute


def _through_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast(self: Any, source: Any, to: Any, *rounding: Any) -> Any:
        target = to.scalar
        if _is_bf16(source):
            wide = _widened(source)
            return wide if target == tl.float32 else original(self, wide, to, *rounding)
        if target == tl.bfloat16:
            values = (
                source.data if source.dtype.scalar == tl.float32 else original(self, source, tl.float32, *rounding).data
            )
            return TensorHandle(narrow(values), tl.bfloat16)
        return original(self, source, to, *rounding)

    return cast


def _widened(handle: TensorHandle) -> TensorHandle:
    return TensorHandle(widen(handle.data), tl.float32)
