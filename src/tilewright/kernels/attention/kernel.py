"""Attention forward: one program computes one tile of queries of one head, walking over the keys once.

Two loops over the keys: first the blocks that every query of the tile sees whole, without a mask, then the ragged
and the diagonal ones, masked. The softmax is online, in base 2: the running maximum is kept of the raw products, so
that ``exp2(score * scale - maximum * scale)`` is one multiply-add and one exponential per element.

Addresses: the origin of a tile is 64-bit, the offsets inside it 32-bit unless ``WIDE``.
"""

import triton
import triton.language as tl


@triton.jit
def _load_tile(pointers, rows, columns, end_row, MASK_ROWS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Load a tile; dead lanes are 0. The mask on ``D`` exists only where ``D`` was padded to ``BLOCK_D``."""
    if MASK_ROWS and D < BLOCK_D:
        tile = tl.load(pointers, mask=(rows < end_row) & (columns < D), other=0.0)
    elif MASK_ROWS:
        tile = tl.load(pointers, mask=rows < end_row, other=0.0)
    elif D < BLOCK_D:
        tile = tl.load(pointers, mask=columns < D, other=0.0)
    else:
        tile = tl.load(pointers)
    return tile


@triton.jit
def _attend(
    accumulator, total, maximum, q, k_base, v_base, offs_m, offs_d, begin, end, N, shift, scale_log2,
    stride_kn, stride_kd, stride_vn, stride_vd,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, PRECISION: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Fold the keys ``[begin, end)`` into the running ``accumulator``, ``total`` and ``maximum`` of a query tile."""
    offs_n = tl.arange(0, BLOCK_N)
    tile_n = offs_n.to(tl.int64) if WIDE else offs_n
    k_offsets = tile_n[None, :] * stride_kn + offs_d[:, None] * stride_kd
    v_offsets = tile_n[:, None] * stride_vn + offs_d[None, :] * stride_vd

    for start in range(begin, end, BLOCK_N):
        # Addresses anew in every step: pointers carried through the pipelined loop cost 30 to 60 registers more.
        k_rows = k_base + tl.cast(start, tl.int64) * stride_kn
        v_rows = v_base + tl.cast(start, tl.int64) * stride_vn
        keys = start + offs_n
        k = _load_tile(k_rows + k_offsets, keys[None, :], offs_d[:, None], N, MASKED, D, BLOCK_D)
        score = tl.dot(q, k, input_precision=PRECISION)
        if MASKED:
            seen = keys[None, :] < N
            if CAUSAL:
                seen = seen & (keys[None, :] <= offs_m[:, None] + shift)
            score = tl.where(seen, score, float("-inf"))

        new_maximum = tl.maximum(maximum, tl.max(score, 1))
        # A row that has seen no key yet has the maximum -inf, and -inf - -inf is NaN: its exponents start from 0.
        origin = tl.where(new_maximum == float("-inf"), 0.0, new_maximum) * scale_log2
        p = tl.exp2(score * scale_log2 - origin[:, None])
        decay = tl.exp2(maximum * scale_log2 - origin)
        total = total * decay + tl.sum(p, 1)
        maximum = new_maximum

        v = _load_tile(v_rows + v_offsets, keys[:, None], offs_d[None, :], N, MASKED, D, BLOCK_D)
        accumulator = tl.dot(p.to(v.dtype), v, accumulator * decay[:, None], input_precision=PRECISION)
    return accumulator, total, maximum


@triton.jit(do_not_specialize=["H", "GROUP", "M", "N"])  # one query or one key is no kernel of its own
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    H, GROUP, M, N, scale_log2,
    D: tl.constexpr, BLOCK_D: tl.constexpr, ALIGN: tl.constexpr, WIDE: tl.constexpr,
    CAUSAL: tl.constexpr, NEGATE: tl.constexpr, HAS_LSE: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """``GROUP`` query heads share a key head; ``ALIGN`` divides all outer strides.

    ``scale_log2`` is positive, or the maximum of the raw products were not that of the scores: ``NEGATE`` is its sign.
    """
    # Multiples of 8 are not worth a 16-byte load to Triton, which looks for 16 elements: spell the multiple out.
    stride_qb, stride_qh, stride_qm = stride_qb // ALIGN * ALIGN, stride_qh // ALIGN * ALIGN, stride_qm // ALIGN * ALIGN
    stride_kb, stride_kh, stride_kn = stride_kb // ALIGN * ALIGN, stride_kh // ALIGN * ALIGN, stride_kn // ALIGN * ALIGN
    stride_vb, stride_vh, stride_vn = stride_vb // ALIGN * ALIGN, stride_vh // ALIGN * ALIGN, stride_vn // ALIGN * ALIGN
    stride_ob, stride_oh, stride_om = stride_ob // ALIGN * ALIGN, stride_oh // ALIGN * ALIGN, stride_om // ALIGN * ALIGN

    # Tiles of one head are neighbours, so that its keys stay in L2; in a causal head the longest tile starts first.
    tiles = tl.cdiv(M, BLOCK_M)
    tile = tl.program_id(0) % tiles
    if CAUSAL:
        tile = tiles - 1 - tile
    head = tl.program_id(0) // tiles
    batch = (head // H).to(tl.int64)
    q_head = (head % H).to(tl.int64)
    k_head = (head % H // GROUP).to(tl.int64)
    start_m = tile * BLOCK_M
    shift = N - M  # query i sees the keys up to i + shift

    tile_m = tl.arange(0, BLOCK_M)
    offs_m = start_m + tile_m
    offs_d = tl.arange(0, BLOCK_D)
    if WIDE:
        tile_m = tile_m.to(tl.int64)
        offs_d = offs_d.to(tl.int64)

    q_base = q_ptr + batch * stride_qb + q_head * stride_qh + start_m.to(tl.int64) * stride_qm
    q_offsets = tile_m[:, None] * stride_qm + offs_d[None, :] * stride_qd
    q = _load_tile(q_base + q_offsets, offs_m[:, None], offs_d[None, :], M, True, D, BLOCK_D)
    if NEGATE:
        q = (-q.to(tl.float32)).to(q.dtype)  # exact; the stock interpreter has no bfloat16 arithmetic
    k_base = k_ptr + batch * stride_kb + k_head * stride_kh
    v_base = v_ptr + batch * stride_vb + k_head * stride_vh

    whole = N  # keys that all queries of the tile see
    end = N  # keys that any of them sees
    if CAUSAL:
        whole = tl.maximum(tl.minimum(N, start_m + shift + 1), 0)
        end = tl.minimum(N, start_m + BLOCK_M + shift)
    whole = whole // BLOCK_N * BLOCK_N

    accumulator = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    maximum = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    accumulator, total, maximum = _attend(
        accumulator, total, maximum, q, k_base, v_base, offs_m, offs_d, 0, whole, N, shift, scale_log2,
        stride_kn, stride_kd, stride_vn, stride_vd, D, BLOCK_D, BLOCK_N, False, CAUSAL, PRECISION, WIDE,
    )  # fmt: skip
    accumulator, total, maximum = _attend(
        accumulator, total, maximum, q, k_base, v_base, offs_m, offs_d, whole, end, N, shift, scale_log2,
        stride_kn, stride_kd, stride_vn, stride_vd, D, BLOCK_D, BLOCK_N, True, CAUSAL, PRECISION, WIDE,
    )  # fmt: skip

    # By visibility and not by total == 0: a row whose scores are all -inf is NaN, as softmax makes it.
    sees = (offs_m + shift >= 0) & (N > 0) if CAUSAL else (offs_m >= 0) & (N > 0)
    out = tl.where(sees[:, None], accumulator / total[:, None], 0.0)
    out_base = out_ptr + batch * stride_ob + q_head * stride_oh + start_m.to(tl.int64) * stride_om
    out_offsets = tile_m[:, None] * stride_om + offs_d[None, :] * stride_od
    inside = (offs_m[:, None] < M) & (offs_d[None, :] < D)
    tl.store(out_base + out_offsets, out.to(out_ptr.dtype.element_ty), mask=inside)
    if HAS_LSE:
        lse = (maximum * scale_log2 + tl.log2(total)) * 0.6931471805599453
        lse_base = lse_ptr + head.to(tl.int64) * M + start_m
        tl.store(lse_base + tl.arange(0, BLOCK_M), lse, mask=offs_m < M)
