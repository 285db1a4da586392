"""Matrix product: one program computes one tile of the result, adds the bias and applies the activation.

Addresses: the origin of a tile is 64-bit, the offsets inside it 32-bit unless ``WIDE``.
"""

import triton
import triton.language as tl


@triton.jit
def _load_tile(pointers, rows, columns, end_row, end_column, MASK_ROWS: tl.constexpr, MASK_COLUMNS: tl.constexpr):
    """Load a tile; a mask exists only on the side that the matrix does not fill. Dead lanes are 0."""
    if MASK_ROWS and MASK_COLUMNS:
        tile = tl.load(pointers, mask=(rows < end_row) & (columns < end_column), other=0.0)
    elif MASK_ROWS:
        tile = tl.load(pointers, mask=rows < end_row, other=0.0)
    elif MASK_COLUMNS:
        tile = tl.load(pointers, mask=columns < end_column, other=0.0)
    else:
        tile = tl.load(pointers)
    return tile


@triton.jit
def _activate(x, ACTIVATION: tl.constexpr):
    """Apply the activation to float32 ``x``; NaN stays NaN."""
    if ACTIVATION == "relu":
        x = tl.where(x < 0, 0.0, x)  # a maximum with 0 would turn NaN into 0
    elif ACTIVATION == "gelu":
        x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    elif ACTIVATION == "gelu_tanh":
        # (1 + tanh(u)) / 2 is sigmoid(2 u); 1.59… is 2 sqrt(2 / pi).
        x = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def _tile_of(program, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """Walk the tiles in bands of ``GROUP_M`` rows, down each column of a band: neighbours share operands in L2."""
    band = program // (GROUP_M * tiles_n)
    within = program % (GROUP_M * tiles_n)
    height = tl.minimum(GROUP_M, tiles_m - band * GROUP_M)
    return band * GROUP_M + within % height, within // height


@triton.jit(do_not_specialize=["M", "N", "K"])  # their alignment is in ALIGN_*, and a size of 1 is nothing special
def matmul_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr,
    stride_am, stride_ak, stride_bk, stride_bn, stride_bias, stride_om, stride_on,
    M, N, K,
    ALIGN_AM: tl.constexpr, ALIGN_AK: tl.constexpr, ALIGN_BK: tl.constexpr, ALIGN_BN: tl.constexpr,
    ALIGN_M: tl.constexpr, ALIGN_N: tl.constexpr, ALIGN_K: tl.constexpr,
    MASK_M: tl.constexpr, MASK_N: tl.constexpr, MASK_K: tl.constexpr, WIDE: tl.constexpr,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """``ALIGN_*`` divide the sizes and strides they are named after; ``MASK_*`` say which sides are ragged."""
    # Triton takes a size or stride for aligned if 16 divides it. 8 (at 16 bit) would do for 16-byte loads, and without
    # them a 1000 x 1000 product is several times slower: spell the multiple out.
    stride_am, stride_ak = stride_am // ALIGN_AM * ALIGN_AM, stride_ak // ALIGN_AK * ALIGN_AK
    stride_bk, stride_bn = stride_bk // ALIGN_BK * ALIGN_BK, stride_bn // ALIGN_BN * ALIGN_BN
    stride_om = stride_om // ALIGN_N * ALIGN_N
    M, N, K = M // ALIGN_M * ALIGN_M, N // ALIGN_N * ALIGN_N, K // ALIGN_K * ALIGN_K

    tile_m, tile_n = _tile_of(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    rows = tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    offs_m = tile_m * BLOCK_M + rows
    offs_n = tile_n * BLOCK_N + columns
    step = tl.full((), BLOCK_K, tl.int32)
    if WIDE:
        rows, columns, inner, step = rows.to(tl.int64), columns.to(tl.int64), inner.to(tl.int64), step.to(tl.int64)

    row_origin = (tile_m * BLOCK_M).to(tl.int64)
    column_origin = (tile_n * BLOCK_N).to(tl.int64)
    a_pointers = a_ptr + row_origin * stride_am + (rows[:, None] * stride_am + inner[None, :] * stride_ak)
    b_pointers = b_ptr + column_origin * stride_bn + (inner[:, None] * stride_bk + columns[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        offs_k = start + tl.arange(0, BLOCK_K)
        a = _load_tile(a_pointers, offs_m[:, None], offs_k[None, :], M, K, MASK_M, MASK_K)
        b = _load_tile(b_pointers, offs_k[:, None], offs_n[None, :], K, N, MASK_K, MASK_N)
        accumulator = tl.dot(a, b, accumulator, input_precision=PRECISION)
        a_pointers += step * stride_ak
        b_pointers += step * stride_bk

    if HAS_BIAS:
        bias = tl.load(bias_ptr + offs_n.to(tl.int64) * stride_bias, mask=offs_n < N, other=0.0)
        accumulator += bias.to(tl.float32)[None, :]
    out = _activate(accumulator, ACTIVATION).to(out_ptr.dtype.element_ty)
    out_origin = out_ptr + row_origin * stride_om + column_origin * stride_on
    out_pointers = out_origin + (rows[:, None] * stride_om + columns[None, :] * stride_on)
    tl.store(out_pointers, out, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
