"""Fault kind: K-tail of a matmul masked on one operand only (garbage * 0).

a is loaded unmasked along K (it runs into the next row, and past the end for the last row), b is zero in the tail.
Finite garbage is cancelled; NaN/inf is not.

A tool must say: load of `a` tagged BUG reads columns K..BK-1 that do not belong to the row; OOB of the view for
the last row, offsets 320..331 of 320 (M=16, K=20) at program (0,0,0); result depends on memory behind `a`
(poison it with NaN: last row becomes NaN).  K=32 is clean.
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(M=16, K=32), dict(M=16, K=20, behind=0.0)]
ADVERSARIAL = [dict(M=16, K=20, behind=float("nan"))]
EXPECT = dict(kind="oob_load_k_tail", arg="a_ptr", stage=1)


@triton.jit
def _mm(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FIX: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        am = (m[:, None] < M) & ((k[None, :] < K) if FIX else (k[None, :] >= 0))
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=am, other=0.0)  # BUG
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def _go(a, b, fix):
    c = torch.empty(a.shape[0], b.shape[1])
    _mm[(triton.cdiv(a.shape[0], 16),)](a, b, c, a.shape[0], b.shape[1], a.shape[1], BM=16, BN=16, BK=32, FIX=fix)
    return c


def inputs(M=16, K=32, N=16, behind=0.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    base = torch.full((M * K + 64,), behind)  # what happens to lie behind the operand
    a = base[: M * K].view(M, K)
    a.copy_(torch.randn(M, K, generator=g))
    return a, torch.randn(K, N, generator=g)


def run(a, b):
    return _go(a, b, False)


def fixed_run(a, b):
    return _go(a, b, True)


def reference(a, b):
    return a @ b
