"""Kernels that are slow in one way each, with twins that are not.

A line that ends in ``# slow: KIND`` is the one that advice of that kind is given at; on all other lines there is none.
"""

import torch
import triton
import triton.language as tl

import tilewright as tw


@triton.jit
def rows(x_ptr, y_ptr, N, stride, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < N)  # slow: narrow-access
    tl.store(y_ptr + row * BLOCK + columns, x)


@triton.jit
def rows_told(x_ptr, y_ptr, N, stride, BLOCK: tl.constexpr):
    N, stride = N // 8 * 8, stride // 8 * 8
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < N)
    tl.store(y_ptr + row * BLOCK + columns, x)


@triton.jit
def odd_rows(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns)  # slow: narrow-access
    tl.store(y_ptr + row * BLOCK + columns, x)


@triton.jit
def odd_constant(x_ptr, y_ptr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None], tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + rows * STRIDE + columns)  # slow: narrow-access
    tl.store(y_ptr + rows * BLOCK + columns, x)


@triton.jit
def shifted(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # slow: narrow-access
    tl.store(y_ptr + offsets, x)


@triton.jit(do_not_specialize=["inner"])
def unspecialised(x_ptr, y_ptr, stride, inner, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns * inner)  # slow: narrow-access
    tl.store(y_ptr + row * BLOCK + columns, x)


@triton.jit
def ragged(x_ptr, starts_ptr, y_ptr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    start = tl.load(starts_ptr + row)
    x = tl.load(x_ptr + start + columns)  # slow: narrow-access
    tl.store(y_ptr + row * BLOCK + columns, x)


@triton.jit
def ragged_told(x_ptr, starts_ptr, y_ptr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    start = tl.multiple_of(tl.load(starts_ptr + row), 8)
    x = tl.load(x_ptr + start + columns)
    tl.store(y_ptr + row * BLOCK + columns, x)


@triton.jit
def gathered(x_ptr, indices_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.load(indices_ptr + offsets))  # narrow by its nature
    tl.store(y_ptr + offsets, x)


@triton.jit
def columns(x_ptr, y_ptr, stride, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for column in range(N):
        total += tl.load(x_ptr + rows * stride + column).to(tl.float32)  # slow: strided-access
    tl.store(y_ptr + rows, total)


@triton.jit
def counted(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * N * BLOCK + tl.arange(0, BLOCK)
    for step in range(N):
        x = tl.load(x_ptr + offsets + step * BLOCK).to(tl.float32)
        tl.atomic_add(y_ptr, tl.sum(x))  # slow: atomic-in-loop


@triton.jit
def counted_once(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * N * BLOCK + tl.arange(0, BLOCK)
    total = 0.0
    for step in range(N):
        total += tl.sum(tl.load(x_ptr + offsets + step * BLOCK).to(tl.float32))
    tl.atomic_add(y_ptr, total)


@triton.jit
def scattered(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * N * BLOCK + tl.arange(0, BLOCK)
    for step in range(N):
        tl.atomic_add(y_ptr + step, tl.sum(tl.load(x_ptr + offsets + step * BLOCK).to(tl.float32)))


@triton.jit
def doubled(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets).to(tl.float64)
    y = x * 1.5 + 2  # slow: float64-arithmetic
    tl.store(y_ptr + offsets, y.to(tl.bfloat16))


@triton.jit
def divided(x_ptr, y_ptr, N, width, height, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(N):
        place = (offsets + step * BLOCK).to(tl.int64)
        total += tl.load(x_ptr + place // width * height)  # slow: wide-index
    tl.store(y_ptr + offsets, total)


@triton.jit
def sparse(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # slow: few-warps
    tl.store(y_ptr + offsets, x)


@triton.jit
def lonely(x_ptr, y_ptr, N, BLOCK: tl.constexpr):  # slow: tail-wave
    offsets = tl.program_id(0) * N * BLOCK + tl.arange(0, BLOCK)
    for step in range(N):
        tl.store(y_ptr + offsets + step * BLOCK, tl.load(x_ptr + offsets + step * BLOCK))


ASSEMBLY = tl.constexpr(
    """{
    .local .b32 held[8];
    .reg .b32 at, base;
    mov.u32 base, held;
    and.b32 at, $1, 28;
    add.u32 at, at, base;
    st.local.b32 [held], $1;
    st.local.b32 [at], $2;
    ld.local.b32 $0, [held+4];
    }"""
)


@triton.jit
def in_local_memory(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets).to(tl.int32)
    for step in range(N):
        x = tl.inline_asm_elementwise(ASSEMBLY, "=r,r,r", [x, x + step], tl.int32, True, 1)  # slow: local-memory
    tl.store(y_ptr + offsets, x.to(tl.bfloat16))


def launch(x, wide, starts):
    """Launches all of them; tensors are large enough for it to matter."""
    y, number = torch.empty_like(x), torch.zeros(8)
    rows[(16384,)](x, y, 1000, 1000, BLOCK=1024)
    rows_told[(16384,)](x, y, 1000, 1000, BLOCK=1024)
    rows[(16384,)](x, y, 1024, 1024, BLOCK=1024)
    odd_rows[(16384,)](x, y, 1023, BLOCK=1024)
    odd_constant[(4096,)](x, y, STRIDE=1023, BLOCK=1024)
    shifted[(8192,)](x[1:], y, BLOCK=1024)
    unspecialised[(16384,)](x, y, 1024, 1, BLOCK=1024)
    ragged[(8192,)](x, starts, y, BLOCK=1024)
    ragged_told[(8192,)](x, starts, y, BLOCK=1024)
    gathered[(8192,)](x, starts, y, BLOCK=1024)
    columns[(1056,)](x, y, 128, 128, BLOCK=128)
    for kernel in (counted, counted_once, scattered):
        kernel[(1056,)](x, number, 8, BLOCK=1024)
    doubled[(16384,)](x, y, BLOCK=1024)
    divided[(8448,)](wide, wide, 8, 1000, 1001, BLOCK=1024)
    sparse[(x.numel() // 32,)](x, y, BLOCK=32, num_warps=1)
    lonely[(66,)](x, y, 64, BLOCK=4096)
    in_local_memory[(16384,)](x, y, 8, BLOCK=1024)
    return y


def tensors():
    """Never written, so that they cost no memory."""
    x = torch.empty(16384 * 1024, dtype=torch.bfloat16)
    return x, torch.empty(16384 * 1024), torch.empty(16384 * 1024, dtype=torch.int32)


everything = tw.Operator(name="everything", run=launch, inputs=tensors)


@triton.jit
def product_kernel(
    a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SCALED: tl.constexpr, BRANCHED: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    inside = offs_n[None, :] < N
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + offs_k
        a = tl.load(a_ptr + offs_m[:, None] * stride_a + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_b + offs_n[None, :], mask=(k[:, None] < K) & inside, other=0.0)
        if SCALED:
            scale = tl.load(
                scale_ptr + tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :] + start
            )
            total += tl.dot(a, b) * scale
        elif BRANCHED:
            if start < M:
                total = tl.dot(a, b, total)
        else:
            total = tl.dot(a, b, total)
    tl.store(c_ptr + offs_m[:, None] * stride_c + offs_n[None, :], total.to(tl.float16), mask=inside)


def product(
    a,
    b,
    scale,
    *,
    BLOCK_M=128,
    BLOCK_N=128,
    BLOCK_K=64,
    num_warps=8,
    num_stages=3,
    maxnreg=None,
    SCALED=False,
    BRANCHED=False,
):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=torch.float16)
    product_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        a, b, scale, c, M, N, K, a.stride(0), b.stride(0), c.stride(0), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        SCALED=SCALED, BRANCHED=BRANCHED, num_warps=num_warps, num_stages=num_stages,
        **({"maxnreg": maxnreg} if maxnreg else {}),
    )  # fmt: skip
    return c


matmul = tw.Operator(
    name="matmul",
    run=product,
    inputs=lambda S=4096: (
        torch.empty(S, S, dtype=torch.float16),
        torch.empty(S, S, dtype=torch.float16),
        torch.empty(2**20),
    ),
    space=tw.Space(
        BLOCK_M=[32, 128],
        BLOCK_N=[64, 128, 256],
        BLOCK_K=[64, 128],
        num_warps=[1, 2, 4, 8],
        num_stages=[1, 2, 3, 4],
        maxnreg=[None, 64],
        SCALED=[False, True],
        BRANCHED=[False, True],
    ),
)


@triton.jit
def described_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, BLOCK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    m, n = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        total = tl.dot(a.load([m, k]), b.load([k, n]), total)
    c.store([m, n], total.to(tl.float16))


def described_product(a, b, *, num_stages=3):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=torch.float16)
    described_kernel[(M // 128, N // 128)](a, b, c, M, N, K, BLOCK=128, BLOCK_K=64, num_warps=8, num_stages=num_stages)
    return c


described = tw.Operator(
    name="described",
    run=described_product,
    inputs=lambda S=4096: (torch.empty(S, S, dtype=torch.float16), torch.empty(S, S, dtype=torch.float16)),
    space=tw.Space(num_stages=[1, 3]),
)


@triton.autotune([triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 1024})], key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


def copy(x):
    y = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


tuned = tw.Operator(name="tuned", run=copy, inputs=lambda n=2**24: (torch.empty(n),))
