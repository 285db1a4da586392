"""Kernels of the kind that the exhaustive trials in ``truths/`` were measured with: a pointer matmul, an attention.

Here they are only lowered, to ask the analytic model and the compiler's frontend what they would say of them.
"""

import torch
import triton
import triton.language as tl

import tilewright as tw


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GM * tiles_n) * GM
    height = min(tiles_m - first, GM)
    pid_m, pid_n = first + pid % (GM * tiles_n) % height, pid % (GM * tiles_n) // height
    offs_m, offs_n = (pid_m * BM + tl.arange(0, BM)) % M, (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    accumulator = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = tl.load(a, mask=offs_k[None, :] < K - k * BK, other=0.0)
        right = tl.load(b, mask=offs_k[:, None] < K - k * BK, other=0.0)
        accumulator = tl.dot(left, right, accumulator)
        a += BK * stride_ak
        b += BK * stride_bk
    rows, columns = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    c = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(c, accumulator.to(tl.bfloat16), mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul(a, b, *, BM=64, BN=64, BK=32, GM=1, num_warps=4, num_stages=2):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    options = dict(BM=BM, BN=BN, BK=BK, GM=GM, num_warps=num_warps, num_stages=num_stages)
    grid = (triton.cdiv(M, BM) * triton.cdiv(N, BN),)
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), **options)
    return c


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, stride_h, N, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    pid, head = tl.program_id(0), tl.program_id(1)
    offs_m, offs_n, offs_d = pid * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    base = head.to(tl.int64) * stride_h
    tile = base + offs_m[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptr + tile, mask=offs_m[:, None] < N, other=0.0)
    maximum = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    accumulator = tl.zeros((BM, D), tl.float32)
    end = min((pid + 1) * BM, N) if CAUSAL else N
    for start in range(0, end, BN):
        keys = start + offs_n
        k = tl.load(k_ptr + base + keys[None, :] * D + offs_d[:, None], mask=keys[None, :] < N, other=0.0)
        scores = tl.dot(q, k) * scale
        seen = keys[None, :] < N
        if CAUSAL:
            seen = seen & (keys[None, :] <= offs_m[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(maximum, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        decay = tl.exp2(maximum - higher)
        v = tl.load(v_ptr + base + keys[:, None] * D + offs_d[None, :], mask=keys[:, None] < N, other=0.0)
        accumulator = tl.dot(p.to(v.dtype), v, accumulator * decay[:, None])
        total = total * decay + tl.sum(p, 1)
        maximum = higher
    tl.store(o_ptr + tile, (accumulator / total[:, None]).to(tl.bfloat16), mask=offs_m[:, None] < N)


def attention(q, k, v, *, causal=True, BM=64, BN=64, num_warps=4, num_stages=2):
    batch, heads, N, D = q.shape
    out = torch.empty_like(q)
    options = dict(BM=BM, BN=BN, num_warps=num_warps, num_stages=num_stages)
    attention_kernel[(triton.cdiv(N, BM), batch * heads)](q, k, v, out, N * D, N, D**-0.5, D, causal, **options)
    return out


def _matmul_inputs(M, N, K):
    half = torch.bfloat16
    return torch.empty(M, K, dtype=half, device="meta"), torch.empty(K, N, dtype=half, device="meta")


def _attention_inputs(B, H, N, D, causal):
    return tuple(torch.empty(B, H, N, D, dtype=torch.bfloat16, device="meta") for _ in range(3))


OPERATORS = {
    "matmul": (tw.Operator(name="matmul", run=matmul, inputs=_matmul_inputs, space=tw.Space(BM=[64])), ("M", "N", "K")),
    "attention": (
        tw.Operator(name="attention", run=attention, inputs=_attention_inputs, space=tw.Space(BM=[64])),
        ("B", "H", "N", "D", "causal"),
    ),
}
