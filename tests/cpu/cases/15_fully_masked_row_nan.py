"""Fault kind: NaN for a row with every key masked (-inf minus -inf).

Streaming soft-max attention weights with per-row valid length; length 0 occurs for padding rows.
Contract: such a row is zero.

A tool must say: NaN in `out` row(s) with len == 0, first produced at the line tagged BUG
(m_new = -inf, exp(-inf - -inf)); lengths must include 0 in the adversarial set.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(lens=(8, 16, 16, 4), N=16)]
ADVERSARIAL = [dict(lens=(8, 0, 16, 3), N=16), dict(lens=(0, 1), N=5)]
EXPECT = dict(kind="nan_fully_masked", arg="out_ptr", stage=1)


@triton.jit
def _attn(s_ptr, v_ptr, len_ptr, out_ptr, N, D: tl.constexpr, BLOCK: tl.constexpr, GUARD: tl.constexpr):
    r = tl.program_id(0)
    n_ok = tl.load(len_ptr + r)
    d = tl.arange(0, D)
    m_i = float("-inf")
    l_i = 0.0
    acc = tl.zeros((D,), dtype=tl.float32)
    for s0 in range(0, N, BLOCK):
        c = s0 + tl.arange(0, BLOCK)
        s = tl.load(s_ptr + r * N + c, mask=c < N, other=float("-inf"))
        s = tl.where(c < n_ok, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=0))
        m_use = m_new
        if GUARD:
            m_use = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp(s - m_use)  # BUG
        alpha = tl.exp(m_i - m_use)
        v = tl.load(v_ptr + c[:, None] * D + d[None, :], mask=c[:, None] < N, other=0.0)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        l_i = l_i * alpha + tl.sum(p, axis=0)
        m_i = m_new
    if GUARD:
        l_i = tl.where(l_i == 0.0, 1.0, l_i)
    tl.store(out_ptr + r * D + d, acc / l_i)


def _go(s, v, lens, guard):
    out = torch.empty(s.shape[0], v.shape[1])
    _attn[(s.shape[0],)](s, v, lens, out, s.shape[1], D=v.shape[1], BLOCK=8, GUARD=guard)
    return out


def inputs(lens=(8,), N=16, D=8, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(len(lens), N, generator=g), torch.randn(N, D, generator=g), torch.tensor(lens, dtype=torch.int32)


def run(s, v, lens):
    return _go(s, v, lens, False)


def fixed_run(s, v, lens):
    return _go(s, v, lens, True)


def reference(s, v, lens):
    keep = torch.arange(s.shape[1])[None, :] < lens[:, None]
    p = torch.softmax(s.masked_fill(~keep, float("-inf")), dim=1)
    return torch.nan_to_num(p, nan=0.0) @ v
