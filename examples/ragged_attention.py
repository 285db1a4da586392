"""The case study: a fused attention kernel as people write it first, and the same kernel mended.

``attention_first_try`` is right for 128 queries and 128 keys, and wrong for 129 and 127: nothing masks the
last block of keys. Run ``tilewright debug examples/ragged_attention.py`` to see where and why.
``attention_mended`` differs in the three lines marked below.
"""

import math

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import tilewright as tw


@triton.jit
def first_try_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, M, N, scale_log2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    q_ptrs = q_ptr + head * M * D + offs_m[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptrs, mask=offs_m[:, None] < M, other=0.0)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, N, BLOCK_N):
        keys = start + offs_n
        k = tl.load(k_ptr + head * N * D + keys[:, None] * D + offs_d[None, :])
        v = tl.load(v_ptr + head * N * D + keys[:, None] * D + offs_d[None, :])
        scores = tl.dot(q, tl.trans(k)) * scale_log2
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        p = tl.exp2(scores - new_max[:, None])
        rescale = tl.exp2(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        acc = acc * rescale[:, None] + tl.dot(p.to(v.dtype), v)
        row_max = new_max
    out = acc / row_sum[:, None]
    o_ptrs = o_ptr + head * M * D + offs_m[:, None] * D + offs_d[None, :]
    tl.store(o_ptrs, out.to(o_ptr.dtype.element_ty), mask=offs_m[:, None] < M)


@triton.jit
def mended_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, M, N, scale_log2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    q_ptrs = q_ptr + head * M * D + offs_m[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptrs, mask=offs_m[:, None] < M, other=0.0)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, N, BLOCK_N):
        keys = start + offs_n
        inside = keys < N
        k = tl.load(
            k_ptr + head * N * D + keys[:, None] * D + offs_d[None, :], mask=inside[:, None], other=0.0
        )  # mended
        v = tl.load(
            v_ptr + head * N * D + keys[:, None] * D + offs_d[None, :], mask=inside[:, None], other=0.0
        )  # mended
        scores = tl.dot(q, tl.trans(k)) * scale_log2
        scores = tl.where(inside[None, :], scores, float("-inf"))  # mended: a zero key still has a score of 0
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        p = tl.exp2(scores - new_max[:, None])
        rescale = tl.exp2(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        acc = acc * rescale[:, None] + tl.dot(p.to(v.dtype), v)
        row_max = new_max
    out = acc / row_sum[:, None]
    o_ptrs = o_ptr + head * M * D + offs_m[:, None] * D + offs_d[None, :]
    tl.store(o_ptrs, out.to(o_ptr.dtype.element_ty), mask=offs_m[:, None] < M)


def golden(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


def sdpa(backend):
    """PyTorch's attention pinned to one backend: left alone it picks a slower one on Hopper."""

    def baseline(q, k, v):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return baseline


declaration = dict(
    reference=golden,
    dtypes=("bf16", "fp16"),
    # What neither kernel is made for: no keys at all, offsets of a head beyond 32 bits, more heads than a grid's y takes.
    where="D in (16, 64, 128) and N > 0 and max(M, N) * D < 2**31 and B * H <= 65535",
    space=tw.Space(BLOCK_M=[64, 128], BLOCK_N=[64, 128], num_warps=[4, 8], num_stages=[2, 3, 4]),
    baselines={"sdpa-cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "sdpa-flash": sdpa(SDPBackend.FLASH_ATTENTION)},
    flops=lambda B, H, M, N, D: 4 * B * H * M * N * D,
    shapes={"4x16x4096x128": dict(B=4, H=16, M=4096, N=4096, D=128)},
)


def launch(kernel, q, k, v, BLOCK_M, BLOCK_N, num_warps, num_stages):
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    B, H, M, D = q.shape
    out = torch.empty_like(q)
    scale_log2 = 1.4426950408889634 / math.sqrt(D)
    kernel[(triton.cdiv(M, BLOCK_M), B * H)](
        q, k, v, out, M, k.shape[2], scale_log2, D, BLOCK_M, BLOCK_N, num_warps=num_warps, num_stages=num_stages
    )
    return out


@tw.operator(**declaration)
def attention_first_try(
    q: Float[Tensor, "B H M D"], k: Float[Tensor, "B H N D"], v: Float[Tensor, "B H N D"],
    *, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2,
) -> Float[Tensor, "B H M D"]:  # fmt: skip
    return launch(first_try_kernel, q, k, v, BLOCK_M, BLOCK_N, num_warps, num_stages)


@tw.operator(**declaration)
def attention_mended(
    q: Float[Tensor, "B H M D"], k: Float[Tensor, "B H N D"], v: Float[Tensor, "B H N D"],
    *, BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=2,
) -> Float[Tensor, "B H M D"]:  # fmt: skip
    return launch(mended_kernel, q, k, v, BLOCK_M, BLOCK_N, num_warps, num_stages)
