"""Reductions of tuples of several dtypes, of truth values, and the less usual forms of statements."""

import triton
import triton.language as tl


@triton.jit
def _welford(mean_a, square_a, count_a, mean_b, square_b, count_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    share = tl.where(count > 0, count_b.to(tl.float32) / tl.maximum(count, 1), 0.0)
    return mean_a + delta * share, square_a + square_b + delta * delta * count_a * share, count


@triton.jit
def welford_kernel(x_ptr, mean_ptr, variance_ptr, M: tl.constexpr, N: tl.constexpr):
    at = (tl.program_id(0) * M + tl.arange(0, M))[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    mean, square, count = tl.reduce((x, tl.zeros_like(x), tl.full((M, N), 1, tl.int32)), 1, _welford)
    rows = tl.program_id(0) * M + tl.arange(0, M)
    tl.store(mean_ptr + rows, mean)
    tl.store(variance_ptr + rows, square / count)


@triton.jit
def _segmented(flag_a, value_a, flag_b, value_b):
    return flag_a | flag_b, tl.where(flag_b, value_b, value_a + value_b)


@triton.jit
def segments_kernel(x_ptr, starts_ptr, out_ptr, N: tl.constexpr):
    """Sums that start anew where a flag is set."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    flags = tl.load(starts_ptr + at) != 0
    _, sums = tl.associative_scan((flags, tl.load(x_ptr + at)), 0, _segmented)
    tl.store(out_ptr + at, sums)


@triton.jit
def truths_kernel(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    positive = tl.load(x_ptr + at) > 0
    base = out_ptr + tl.program_id(0) * 6
    tl.store(base + 0, tl.sum(positive.to(tl.int32), 0))
    tl.store(base + 1, tl.max(positive.to(tl.int32), 0))
    tl.store(base + 2, tl.reduce_or(positive, 0).to(tl.int32))
    tl.store(base + 3, tl.xor_sum(positive.to(tl.int8), 0).to(tl.int32))
    tl.store(base + 4, tl.sum(positive, 0).to(tl.int32))
    tl.store(base + 5, tl.min(positive, 0).to(tl.int32))


@triton.jit
def statements_kernel(x_ptr, out_ptr, n, N: tl.constexpr):
    tl.static_assert(N >= 4)
    at = tl.arange(0, N)
    total = tl.zeros((N,), tl.int32)
    for i in tl.range(0, n, num_stages=2):
        total += tl.load(x_ptr + i) * tl.max_contiguous(tl.multiple_of(at, 4), 4)
    for i in tl.range(0, n, loop_unroll_factor=2, flatten=True):
        total -= i
    tl.debug_barrier()
    tl.assume(n > 0)
    tl.device_assert(n < 100, "too many: %d")
    pair = (total, n)
    (total, n) = pair
    total += pair[1] if n > 3 else -pair[1]
    i, j = tl.swizzle2d(n // 2, n % 2, 4, 4, 2)
    total += i * 100 + j * 1000
    tl.store(out_ptr + at, total)
