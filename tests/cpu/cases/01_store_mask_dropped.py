"""Fault kind: missing store mask on a ragged tail (mask is built, then not used).

y = x @ w.T with a (BM, BN) tile per program.  Loads are wrapped with % so they
are safe, the store forgets its mask.

A tool must say
 * M ragged (33, 32): OOB STORE to `y` at the line tagged BUG, element offsets
   1056..1535 of 1056, by programs (2,0,0) and (2,1,0) -- result values are right, so a
   value comparison alone is silent;
 * N ragged (32, 24): write-write overlap on `y` (differing values) between programs (0,0,0)/(0,1,0) and
   (1,0,0)/(1,1,0), elements 24..751 [lanes 24..31 of a row land on the next row], plus wrong
   values, plus OOB offsets 768..775 by program (1,1,0).
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(M=32, N=32, K=16)]
ADVERSARIAL = [dict(M=33, N=32, K=16), dict(M=32, N=24, K=16)]
EXPECT = dict(kind="oob_store+write_write_race", arg="y_ptr", stage=1)


@triton.jit
def _lin(x_ptr, w_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, USE_MASK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    safe_m = rm % M
    safe_n = rn % N
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        a = tl.load(x_ptr + safe_m[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.0)
        b = tl.load(w_ptr + safe_n[None, :] * K + rk[:, None], mask=rk[:, None] < K, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    ok = (rm < M)[:, None] & (rn < N)[None, :]
    dst = y_ptr + rm[:, None] * N + rn[None, :]
    if USE_MASK:
        tl.store(dst, acc, mask=ok)
    else:
        tl.store(dst, acc)  # BUG


def _go(x, w, use_mask):
    M, K = x.shape
    N = w.shape[0]
    # pooled output: the spare room is what a caching allocator would give
    pool = torch.full((M * N + 4096,), float("nan"))
    y = pool[: M * N].view(M, N)
    _lin[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, w, y, M, N, K, BM=16, BN=16, BK=16, USE_MASK=use_mask)
    return y


def inputs(M=32, N=32, K=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(M, K, generator=g), torch.randn(N, K, generator=g)


def run(x, w):
    return _go(x, w, False)


def fixed_run(x, w):
    return _go(x, w, True)


def reference(x, w):
    return x @ w.T
