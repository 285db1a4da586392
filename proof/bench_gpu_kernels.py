"""What ``bench_gpu.py`` times: operators whose baseline is their own launcher, and some whose baseline does 1 % more.

Without a GPU the launchers compute by PyTorch, so that the study itself can be tried. Operators at large sizes have no
reference: a float64 one would take longer than the study.
"""

import torch
import triton
import triton.language as tl

import tilewright as tw
from tilewright.kernels.attention import attention as library_attention
from tilewright.kernels.matmul import matmul as library_matmul

SAME = "the same"
MORE = "1 % more work"


def _draw(seed, *shapes, dtype=torch.float32):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    source = torch.Generator(device).manual_seed(seed)
    return tuple(torch.randn(shape, generator=source, device=device, dtype=dtype) for shape in shapes)


@triton.jit
def _exp_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at, at < n)), at < n)


@triton.jit
def _add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def _softmax_kernel(x, out, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.program_id(0).to(tl.int64) * N + at
    row = tl.load(x + place, at < N, other=-float("inf"))
    e = tl.exp(row - tl.max(row, 0))
    tl.store(out + place, e / tl.sum(e, 0), at < N)


@triton.jit
def _layernorm_kernel(x, out, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.program_id(0).to(tl.int64) * N + at
    row = tl.load(x + place, at < N, other=0.0)
    mean = tl.sum(row, 0) / N
    centred = tl.where(at < N, row - mean, 0.0)
    tl.store(out + place, centred * tl.rsqrt(tl.sum(centred * centred, 0) / N + 1e-5), at < N)


@triton.jit
def _chain_kernel(x, out, steps, scale, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(steps):
        value = value * scale + shift
    tl.store(out + at, value)


def run_exp(x):
    if not x.is_cuda:
        return torch.exp(x)
    out = torch.empty_like(x)
    _exp_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def run_add(x, y):
    if not x.is_cuda:
        return x + y
    out = torch.empty_like(x)
    _add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


def run_softmax(x):
    if not x.is_cuda:
        return torch.softmax(x, dim=-1)
    out = torch.empty_like(x)
    _softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return out


def run_layernorm(x):
    if not x.is_cuda:
        return torch.nn.functional.layer_norm(x, x.shape[1:])
    out = torch.empty_like(x)
    _layernorm_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
    return out


def run_matmul(a, b):
    return library_matmul.run(a, b) if a.is_cuda else a @ b


def run_attention(q, k, v):
    return library_attention.run(q, k, v) if q.is_cuda else torch.softmax(q @ k.mT / q.shape[3] ** 0.5, dim=3) @ v


def _chained(x, steps):
    if not x.is_cuda:
        for _ in range(steps // 800):
            x = x * 1.0
        return x
    out = torch.empty_like(x)
    _chain_kernel[(x.numel() // 256,)](x, out, steps, 1.0, 0.0, BLOCK=256)
    return out


def run_chain(x, steps):
    return _chained(x, steps)


def run_longer_chain(x, steps):
    """1 % more steps; both counts are multiples of 16, so that one kernel runs both."""
    return _chained(x, steps + steps // 100)


def run_copy(x, size):
    return run_exp(x[:size])


def run_larger_copy(x, size):
    """All of ``x``, which is 1 % longer than what is asked for."""
    return run_exp(x)[:size]


def vectors(N=1024, seed=0):
    return _draw(seed, (N,))


def pairs_of_vectors(N=1024, seed=0):
    return _draw(seed, (N,), (N,))


def rows(M=64, N=256, seed=0):
    return _draw(seed, (M, N))


def matrices(M=64, N=64, K=64, seed=0):
    return _draw(seed, (M, K), (K, N), dtype=torch.bfloat16)


def heads(B=1, H=2, S=64, D=64, seed=0):
    return _draw(seed, (B, H, S, D), (B, H, S, D), (B, H, S, D), dtype=torch.bfloat16)


def chains(steps=1600, seed=0):
    return (*_draw(seed, (132 * 8 * 256,)), steps)


def longer_vectors(N=102400, seed=0):
    return (*_draw(seed, (N + N // 100,)), N)


def _sizes(*exponents):
    return {f"2^{e}": {"N": 2**e} for e in exponents}


def _rows(*shapes):
    return {f"{m}x{n}": {"M": m, "N": n} for m, n in shapes}


def _products(*shapes):
    return {f"{m}x{n}x{k}": {"M": m, "N": n, "K": k} for m, n, k in shapes}


def _heads(*shapes):
    return {f"{b}x{h}x{s}x{d}": {"B": b, "H": h, "S": s, "D": d} for b, h, s, d in shapes}


def _same(name, run, inputs, shapes, reference=None):
    return tw.Operator(name=name, run=run, reference=reference, inputs=inputs, shapes=shapes, baselines={SAME: run})


SMALL_ROWS = _rows((64, 256), (512, 512), (1024, 1024), (4096, 1024))
LARGE_ROWS = _rows(
    (128, 32768), (4096, 2048), (4096, 4096), (8192, 4096), (16384, 4096), (16384, 8192), (32768, 8192), (65536, 8192)
)

exp = _same("exp", run_exp, vectors, _sizes(10, 16, 18, 20), torch.exp)
exp_large = _same("exp_large", run_exp, vectors, _sizes(21, 22, 23, 24, 25, 26, 27, 28))
add = _same("add", run_add, pairs_of_vectors, _sizes(10, 16, 18, 20), torch.add)
add_large = _same("add_large", run_add, pairs_of_vectors, _sizes(21, 22, 23, 24, 25, 26, 27, 28))
softmax = _same("softmax", run_softmax, rows, SMALL_ROWS, lambda x: torch.softmax(x, dim=-1))
softmax_large = _same("softmax_large", run_softmax, rows, LARGE_ROWS)
layernorm = _same(
    "layernorm", run_layernorm, rows, SMALL_ROWS, lambda x: torch.nn.functional.layer_norm(x, x.shape[1:])
)
layernorm_large = _same("layernorm_large", run_layernorm, rows, LARGE_ROWS)
matmul = _same(
    "matmul", run_matmul, matrices, _products((64, 64, 64), (512, 512, 512), (1024, 1024, 1024)), torch.matmul
)
matmul_large = _same(
    "matmul_large", run_matmul, matrices,
    _products(
        (1536, 1536, 1536), (2048, 2048, 2048), (3072, 3072, 3072), (4096, 4096, 4096), (6144, 6144, 6144),
        (8192, 8192, 8192), (16384, 8192, 8192), (8192, 1024, 4096), (128, 8192, 8192),
    ),
)  # fmt: skip
attention = _same(
    "attention", run_attention, heads,
    _heads((1, 2, 64, 64), (1, 16, 512, 64), (4, 16, 1024, 128), (4, 16, 2048, 128), (4, 16, 4096, 128), (2, 32, 4096, 64), (4, 16, 8192, 128)),
)  # fmt: skip

chain = tw.Operator(
    name="chain", run=run_chain, inputs=chains, baselines={MORE: run_longer_chain},
    shapes={f"{steps} steps": {"steps": steps} for steps in (1600, 16000, 48000, 160000)},
)  # fmt: skip
copy = tw.Operator(
    name="copy", run=run_copy, inputs=longer_vectors, baselines={MORE: run_larger_copy},
    shapes={f"{n}": {"N": n} for n in (102400, 1024 * 16000, 1024 * 64000)},
)  # fmt: skip

PAIRS = (
    exp, exp_large, add, add_large, softmax, softmax_large, layernorm, layernorm_large, matmul, matmul_large, attention
)  # fmt: skip
SLOWED = (chain, copy)
GATED = {
    "exp": ("2^16", "2^20"), "exp_large": ("2^26",), "softmax": ("1024x1024",), "softmax_large": ("4096x4096",),
    "layernorm_large": ("8192x4096",), "matmul": ("1024x1024x1024",), "matmul_large": ("4096x4096x4096", "8192x8192x8192"),
    "attention": ("4x16x2048x128",),
}  # fmt: skip
