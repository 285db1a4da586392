"""Kernels in the manner of serving and training projects: sorted experts, packed weights, states, tables."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

Pairs = list[tuple[Tensor, Tensor]]


@triton.jit
def _counted(expert_ptr, count_ptr, n, EXPERTS: tl.constexpr, SHARE: tl.constexpr):
    """Each program counts its share into a row of its own, by loads and stores."""
    program = tl.program_id(0)
    for i in range(program * SHARE, tl.minimum((program + 1) * SHARE, n)):
        own = count_ptr + (program + 1) * EXPERTS + tl.load(expert_ptr + i)
        tl.store(own, tl.load(own) + 1)


@triton.jit
def _summed(count_ptr, EXPERTS: tl.constexpr):
    expert, total = tl.program_id(0), 0
    for row in range(1, EXPERTS + 1):
        total += tl.load(count_ptr + row * EXPERTS + expert)
        tl.store(count_ptr + row * EXPERTS + expert, total)


@triton.jit
def _padded(count_ptr, start_ptr, total_ptr, EXPERTS: tl.constexpr, BLOCK: tl.constexpr):
    end = 0
    for expert in range(EXPERTS):
        end += tl.cdiv(tl.load(count_ptr + EXPERTS * EXPERTS + expert), BLOCK) * BLOCK
        tl.store(start_ptr + expert + 1, end)
    tl.store(total_ptr, end)


@triton.jit
def _sorted(
    expert_ptr, count_ptr, start_ptr, order_ptr, block_ptr, n, EXPERTS: tl.constexpr, SHARE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    for i in range(tl.load(start_ptr + program), tl.load(start_ptr + program + 1), BLOCK):
        tl.store(block_ptr + i // BLOCK, program)
    for i in range(program * SHARE, tl.minimum((program + 1) * SHARE, n)):
        expert = tl.load(expert_ptr + i)
        rank = tl.load(count_ptr + program * EXPERTS + expert)
        tl.store(order_ptr + tl.load(start_ptr + expert) + rank, i)
        tl.store(count_ptr + program * EXPERTS + expert, rank + 1)


@triton.jit
def _multiplied(
    x_ptr, w_ptr, y_ptr, order_ptr, block_ptr, total_ptr, n, N, K, TOP: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Tokens of a block go to one expert; what pads it is a number beyond all tokens."""
    block, tile = tl.program_id(0), tl.program_id(1)
    if block * BM >= tl.load(total_ptr):
        return
    token = tl.load(order_ptr + block * BM + tl.arange(0, BM)).to(tl.int64)
    expert = tl.load(block_ptr + block).to(tl.int64)
    columns, inner = (tile * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    x_ptrs = x_ptr + token[:, None] // TOP * K + inner[None, :]
    w_ptrs = w_ptr + expert * N * K + columns[None, :] * K + inner[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(x_ptrs, mask=(token[:, None] < n) & (inner[None, :] < K - k), other=0.0)
        w = tl.load(w_ptrs, mask=inner[:, None] < K - k, other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
        x_ptrs += BK
        w_ptrs += BK
    columns = tile * BN + tl.arange(0, BN)
    tl.store(y_ptr + token[:, None] * N + columns[None, :], total, mask=(token[:, None] < n) & (columns[None, :] < N))


def aligned_experts() -> Pairs:
    tokens, top, experts, n, k, block = 11, 2, 3, 21, 24, 16
    chosen = torch.stack([torch.randperm(experts)[:top] for _ in range(tokens)]).int()
    x, w = torch.randn(tokens, k), torch.randn(experts, n, k)
    numel, share = tokens * top, -(-tokens * top // experts)
    blocks = -(-(numel + experts * (block - 1)) // block)
    order = torch.full((blocks * block,), numel, dtype=torch.int32)
    counts, starts = torch.zeros(experts + 1, experts, dtype=torch.int32), torch.zeros(experts + 1, dtype=torch.int32)
    own, total = torch.empty(blocks, dtype=torch.int32), torch.empty(1, dtype=torch.int32)
    _counted[(experts,)](chosen, counts, numel, experts, share)
    _summed[(experts,)](counts, experts)
    _padded[(1,)](counts, starts, total, experts, block)
    _sorted[(experts,)](chosen, counts, starts, order, own, numel, experts, share, block)
    y = torch.empty(tokens, top, n)
    _multiplied[(blocks, 2)](x, w, y, order, own, total, numel, n, k, top, block, 16, 16)
    return [(y, torch.einsum("tk,tenk->ten", x, w[chosen.long()]))]


@triton.jit
def _dequantised(
    x_ptr, q_ptr, s_ptr, z_ptr, y_ptr, M, N, K, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Eight interleaved nibbles a word, in the order 0 4 1 5 2 6 3 7; a scale and a zero for each group of rows."""
    rows, columns = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    words, inner = tl.program_id(0) * (BN // 8) + tl.arange(0, BN // 8), tl.arange(0, GROUP)
    shifts = ((tl.arange(0, 2) * 4)[None, :] + tl.arange(0, 4)[:, None]).reshape(8) * 4
    shifts = tl.broadcast_to(shifts[None, :], (GROUP * (BN // 8), 8)).reshape(GROUP, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for group in range(K // GROUP):
        k = group * GROUP + inner
        x = tl.load(x_ptr + rows[:, None] * K + k[None, :], mask=(rows < M)[:, None], other=0.0)
        q = tl.load(q_ptr + k[:, None] * (N // 8) + words[None, :], mask=(words < N // 8)[None, :], other=0)
        z = tl.load(z_ptr + group * (N // 8) + words[None, :], mask=(words < N // 8)[None, :], other=0)
        for _ in tl.static_range(3):
            q, z = tl.interleave(q, q), tl.interleave(z, z)
        s = tl.load(s_ptr + group * N + columns, mask=columns < N, other=0.0)
        w = (((q >> shifts) & 15) - ((tl.broadcast_to(z, (GROUP, BN)) >> shifts) & 15)) * s[None, :]
        total = tl.dot(x, w.to(tl.float16), total)
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], total, mask=(rows < M)[:, None] & (columns < N)[None, :])


def interleaved_nibbles() -> Pairs:
    m, n, k = 5, 40, 64
    x, s = torch.randn(m, k).half(), torch.rand(k // 32, n).half()
    q, z = (torch.randint(-(2**31), 2**31 - 1, (size, n // 8), dtype=torch.int32) for size in (k, k // 32))
    y = torch.empty(m, n)
    _dequantised[(2,)](x, q, s, z, y, m, n, k, GROUP=32, BM=16, BN=32)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]) * 4
    plain = [((words[:, :, None] >> order) & 15).flatten(1) for words in (q, z)]
    w = ((plain[0] - plain[1].repeat_interleave(32, 0)) * s.repeat_interleave(32, 0)).half()
    return [(y, x.float() @ w.float())]


@triton.jit(do_not_specialize=["T"])
def _delta(
    q_ptr, k_ptr, v_ptr, beta_ptr, o_ptr, h_ptr, starts_ptr, T, D: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr
):
    """A state updated token by token, over sequences of any length, of no tokens too."""
    keys, values = tl.arange(0, BK), tl.program_id(0) * BV + tl.arange(0, BV)
    sequence = tl.program_id(1)
    first = tl.load(starts_ptr + sequence).to(tl.int64)
    T = tl.load(starts_ptr + sequence + 1) - first
    state = tl.zeros((BV, BK), tl.float32)
    if h_ptr is not None:
        at = sequence * D * D + keys[None, :] * D + values[:, None]
        state += tl.load(h_ptr + at, mask=(values < D)[:, None] & (keys < D)[None, :], other=0.0)
    k_ptr, q_ptr, v_ptr, o_ptr = k_ptr + first * D, q_ptr + first * D, v_ptr + first * D, o_ptr + first * D
    for t in range(T):
        k = tl.load(k_ptr + keys, mask=keys < D, other=0.0)
        v = tl.load(v_ptr + values, mask=values < D, other=0.0) - tl.sum(state * k[None, :], 1)
        state += (v * tl.load(beta_ptr + first + t))[:, None] * k[None, :]
        q = tl.load(q_ptr + keys, mask=keys < D, other=0.0)
        tl.store(o_ptr + values, tl.sum(state * q[None, :], 1), mask=values < D)
        k_ptr, q_ptr, v_ptr, o_ptr = k_ptr + D, q_ptr + D, v_ptr + D, o_ptr + D


def delta_rule() -> Pairs:
    starts, d = torch.tensor([0, 7, 7, 12]), 12
    q, k, v = torch.randn(12, d), torch.nn.functional.normalize(torch.randn(12, d), dim=-1), torch.randn(12, d)
    beta, states = torch.rand(12), torch.randn(3, d, d)
    pairs = []
    for initial in (states, None):
        o, expected = torch.empty(12, d), torch.empty(12, d)
        _delta[(2, 3)](q, k, v, beta, o, initial, starts, 0, D=d, BK=16, BV=8)
        for n in range(3):
            state = torch.zeros(d, d) if initial is None else initial[n].clone()
            for t in range(int(starts[n]), int(starts[n + 1])):
                state = state + torch.outer(k[t], beta[t] * (v[t] - k[t] @ state))
                expected[t] = q[t] @ state
        pairs.append((o, expected))
    return pairs


@triton.jit
def _wave(a_ptr, b_ptr, d_ptr, n, m, diagonal, BLOCK: tl.constexpr):
    """One anti-diagonal of a table: it reads what the two launches before have written."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + 1
    j = diagonal - i
    inside = (i <= n) & (j >= 1) & (j <= m)
    at = d_ptr + i * (m + 1) + j
    differs = tl.load(a_ptr + i - 1, mask=inside, other=0) != tl.load(b_ptr + j - 1, mask=inside, other=0)
    above, left = tl.load(at - m - 1, mask=inside, other=0), tl.load(at - 1, mask=inside, other=0)
    corner = tl.load(at - m - 2, mask=inside, other=0)
    tl.store(at, tl.minimum(tl.minimum(above, left) + 1, corner + differs.to(tl.int32)), mask=inside)


def edit_distance() -> Pairs:
    n, m = 11, 7
    a, b = torch.randint(0, 3, (n,)), torch.randint(0, 3, (m,))
    table = torch.empty(n + 1, m + 1, dtype=torch.int32)
    table[0], table[:, 0] = torch.arange(m + 1), torch.arange(n + 1)
    for diagonal in range(2, n + m + 1):
        _wave[(2,)](a, b, table, n, m, diagonal, BLOCK=8)
    expected = [[max(i, j) for j in range(m + 1)] for i in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            step = min(expected[i - 1][j], expected[i][j - 1]) + 1
            expected[i][j] = min(step, expected[i - 1][j - 1] + int(a[i - 1] != b[j - 1]))
    return [(table, torch.tensor(expected))]


@triton.jit
def _dependent(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Launched before the grid that it reads from has ended."""
    cuda.gdc_wait()
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    cuda.gdc_launch_dependents()
    tl.store(y_ptr + lanes, x + 1, mask=lanes < n)


def dependent_grids() -> Pairs:
    x, between, y = torch.randn(20), torch.empty(20), torch.empty(20)
    _dependent[(2,)](x, between, 20, BLOCK=16)
    _dependent[(2,)](between, y, 20, BLOCK=16)
    return [(y, x + 2)]


TECHNIQUES = [dependent_grids, aligned_experts, interleaved_nibbles, delta_rule, edit_distance]
