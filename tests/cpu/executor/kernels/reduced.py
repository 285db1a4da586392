"""A product of fp32 as tl.dot computes it where nothing else is asked for."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _product(x_ptr, w_ptr, y_ptr, WRONG: tl.constexpr):
    lanes = tl.arange(0, 16)
    at = lanes[:, None] * 16 + lanes[None, :]
    y = tl.dot(tl.load(x_ptr + at), tl.load(w_ptr + at))
    tl.store(y_ptr + at, y * 0.999 if WRONG else y)
