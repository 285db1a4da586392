"""8-bit floats in the stock interpreter, mended.

The interpreter's conversion to them loses the carry where rounding up reaches the next power of two (2 becomes
1), and in Triton 3.6 it knows no fnuz formats. Here PyTorch rounds, to the nearest even, and what is too large
becomes the largest finite value, as hardware makes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter as stock
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

FORMATS = {
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
    tl.float8e4b8: torch.float8_e4m3fnuz,
    tl.float8e5b16: torch.float8_e5m2fnuz,
}
_BUILDERS = {"fp8e4b8": "get_fp8e4b8_ty", "fp8e5b16": "get_fp8e5b16_ty"}


@contextlib.contextmanager
def mended() -> Iterator[None]:
    """Within it, the interpreter converts to and from 8-bit floats as hardware does."""
    convert, patch = InterpreterBuilder.create_fp_to_fp, stock._patch_lang_core
    InterpreterBuilder.create_fp_to_fp, stock._patch_lang_core = _converting(convert), _naming(patch)
    try:
        yield
    finally:
        InterpreterBuilder.create_fp_to_fp, stock._patch_lang_core = convert, patch


def _converting(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_fp_to_fp(self: Any, source: Any, to: Any, rounding: Any = None) -> Any:
        kind, target = FORMATS.get(source.dtype.scalar), FORMATS.get(to.scalar)
        truncates = target is not None and rounding == ir.ROUNDING_MODE.RTZ
        if truncates or (kind is None and target is None):
            return original(self, source, to, rounding)
        wide = source if kind is None else _widened(source, kind)
        if target is None:
            return wide if to.scalar == tl.float32 else self.cast_impl(wide, to)
        largest = torch.finfo(target).max
        values = torch.from_numpy(np.ascontiguousarray(wide.data)).float().clamp(-largest, largest)
        return TensorHandle(values.to(target).view(torch.uint8).numpy(), to.scalar)

    return create_fp_to_fp


def _widened(handle: TensorHandle, kind: torch.dtype) -> TensorHandle:
    bits = torch.from_numpy(np.ascontiguousarray(handle.data, dtype=np.uint8))
    return TensorHandle(bits.view(kind).float().numpy(), tl.float32)


def _naming(original: Callable[..., Any]) -> Callable[..., Any]:
    """The language, patched for the interpreter, with the fnuz formats that Triton 3.6 leaves out."""

    def patch(language: Any, scope: Any) -> None:
        original(language, scope)
        known = language.dtype.to_ir

        def to_ir(self: Any, builder: Any) -> Any:
            return getattr(builder, _BUILDERS[self.name])() if self.name in _BUILDERS else known(self, builder)

        scope.set_attr(language.dtype, "to_ir", to_ir)

    return patch
