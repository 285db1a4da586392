"""Softmax of the elements a mask keeps, row by row.

A masked element counts as ``-inf``, nothing more is special: a row of which nothing is kept becomes ``-inf - -inf``,
which is NaN, as it does in PyTorch.
"""

import triton
import triton.language as tl


@triton.jit
def _load_scores(x_ptr, mask_ptr, inside, POLICY: tl.constexpr):
    """The elements in float32, ``-inf`` where they are masked or outside."""
    x = tl.load(x_ptr, mask=inside, other=0.0, eviction_policy=POLICY).to(tl.float32)
    kept = tl.load(mask_ptr, mask=inside, other=0, eviction_policy=POLICY) != 0
    return tl.where(inside & kept, x, float("-inf"))


@triton.jit(do_not_specialize=["M", "N"])  # N's alignment is in ALIGN
def softmax_rows_kernel(
    x_ptr, mask_ptr, out_ptr, stride_xm, stride_xn, stride_mm, stride_mn, stride_om, stride_on, M, N,
    ALIGN: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Rows that fit: ``BLOCK_M`` of them in a program, all of each (``N <= BLOCK_N``) in registers, read once."""
    # Triton takes a size or stride for aligned if 16 divides it; ALIGN, 16 bytes of elements or less, is as good.
    N, stride_om = N // ALIGN * ALIGN, stride_om // ALIGN * ALIGN
    stride_xm, stride_mm = stride_xm // ALIGN * ALIGN, stride_mm // ALIGN * ALIGN

    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    if WIDE:
        columns = columns.to(tl.int64)
    x_pointers = x_ptr + rows * stride_xm + columns * stride_xn
    mask_pointers = mask_ptr + rows * stride_mm + columns * stride_mn
    scores = _load_scores(x_pointers, mask_pointers, inside, "")
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    out = weights * (1.0 / tl.sum(weights, 1))[:, None]
    tl.store(out_ptr + rows * stride_om + columns * stride_on, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["M", "N"])
def softmax_wide_kernel(
    x_ptr, mask_ptr, out_ptr, stride_xm, stride_xn, stride_mm, stride_mn, stride_om, stride_on, M, N,
    ALIGN: tl.constexpr, WIDE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Rows that do not fit: walked twice in chunks of ``BLOCK_N``, once for maximum and total, once for the result.

    ``STAGES`` of loads are in flight: Triton pipelines a loop without a dot product only if the loop itself says so.
    """
    N, stride_om = N // ALIGN * ALIGN, stride_om // ALIGN * ALIGN
    stride_xm, stride_mm = stride_xm // ALIGN * ALIGN, stride_mm // ALIGN * ALIGN

    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    x_ptr, mask_ptr, out_ptr = x_ptr + rows * stride_xm, mask_ptr + rows * stride_mm, out_ptr + rows * stride_om
    # Maximum and total are kept per lane, and reduced over the lanes once: the loop needs no barrier.
    maximum = tl.full((BLOCK_M, BLOCK_N), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK_N, num_stages=STAGES):
        columns = start + tl.arange(0, BLOCK_N)[None, :]
        inside = (rows < M) & (columns < N)
        if WIDE:
            columns = columns.to(tl.int64)
        # To be kept in L2 for the second walk.
        scores = _load_scores(x_ptr + columns * stride_xn, mask_ptr + columns * stride_mn, inside, "evict_last")
        new_maximum = tl.maximum(maximum, scores)
        # A lane that has met nothing kept has the maximum -inf, and -inf - -inf is NaN: its exponents start from 0.
        origin = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        total = total * tl.exp(maximum - origin) + tl.exp(scores - origin)
        maximum = new_maximum

    row_maximum = tl.max(maximum, 1)[:, None]
    scale = 1.0 / tl.sum(total * tl.exp(maximum - row_maximum), 1)[:, None]
    for start in tl.range(0, N, BLOCK_N, num_stages=STAGES):
        columns = start + tl.arange(0, BLOCK_N)[None, :]
        inside = (rows < M) & (columns < N)
        if WIDE:
            columns = columns.to(tl.int64)
        scores = _load_scores(x_ptr + columns * stride_xn, mask_ptr + columns * stride_mn, inside, "evict_first")
        out = tl.exp(scores - row_maximum) * scale
        tl.store(out_ptr + columns * stride_on, out.to(out_ptr.dtype.element_ty), mask=inside)
