"""Matrix products as kernels of one program per product."""

import triton
import triton.language as tl


@triton.jit
def dot_kernel(
    a_ptr,
    b_ptr,
    acc_ptr,
    out_ptr,
    SHAPE_A: tl.constexpr,
    SHAPE_B: tl.constexpr,
    SHAPE_C: tl.constexpr,
    PRECISION: tl.constexpr,
    OUT: tl.constexpr,
    WITH_ACC: tl.constexpr,
    SIZE_A: tl.constexpr,
    SIZE_B: tl.constexpr,
    SIZE_C: tl.constexpr,
):
    program = tl.program_id(0)
    a = tl.reshape(tl.load(a_ptr + program * SIZE_A + tl.arange(0, SIZE_A)), SHAPE_A)
    b = tl.reshape(tl.load(b_ptr + program * SIZE_B + tl.arange(0, SIZE_B)), SHAPE_B)
    at = program * SIZE_C + tl.arange(0, SIZE_C)
    if WITH_ACC:
        acc = tl.reshape(tl.load(acc_ptr + at), SHAPE_C)
        c = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=OUT)
    else:
        c = tl.dot(a, b, input_precision=PRECISION, out_dtype=OUT)
    tl.store(out_ptr + at, tl.reshape(c, (SIZE_C,)))


@triton.jit
def shared_side_kernel(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A left side that differs from program to program, a right one that is the same in all."""
    program = tl.program_id(0)
    rm, rn, rk = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + program * M * K + rm[:, None] * K + rk[None, :])
    b = tl.load(b_ptr + rk[:, None] * N + rn[None, :])
    tl.store(out_ptr + program * M * N + rm[:, None] * N + rn[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def dot_scaled_kernel(
    a_ptr,
    a_scale_ptr,
    b_ptr,
    b_scale_ptr,
    out_ptr,
    A: tl.constexpr,
    B: tl.constexpr,
    PACK_A: tl.constexpr,
    PACK_B: tl.constexpr,
    A_K_PACKED: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    rm, rn, rg = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    if A_K_PACKED:
        ra = tl.arange(0, K // PACK_A)
        a = tl.load(a_ptr + rm[:, None] * (K // PACK_A) + ra[None, :])
    else:
        half, rk = tl.arange(0, M // PACK_A), tl.arange(0, K)
        a = tl.load(a_ptr + half[:, None] * K + rk[None, :])
    rb = tl.arange(0, K // PACK_B)
    b = tl.load(b_ptr + rb[:, None] * N + rn[None, :])
    if a_scale_ptr is None:
        a_scale = None
    else:
        a_scale = tl.load(a_scale_ptr + rm[:, None] * (K // 32) + rg[None, :])
    if b_scale_ptr is None:
        b_scale = None
    else:
        b_scale = tl.load(b_scale_ptr + rn[:, None] * (K // 32) + rg[None, :])
    c = tl.dot_scaled(a, a_scale, A, b, b_scale, B, lhs_k_pack=A_K_PACKED)
    tl.store(out_ptr + rm[:, None] * N + rn[None, :], c)
