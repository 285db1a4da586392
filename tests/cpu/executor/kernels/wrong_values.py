"""More small kernels with one fault each: in integers, alignment, hints, order and values that are not finite."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# ---------------------------------------------------------------------------------------------------- integers


@triton.jit
def _far(x_ptr, y_ptr, stride, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + lanes, tl.load(x_ptr + row * stride + lanes))  # load


def offset_wraps(wrong):
    x = torch.empty(5, 2**29 + 16, dtype=torch.int8)  # never touched as a whole
    x[:, :16] = 1
    _far[(5,)](x, torch.empty(5, 16, dtype=torch.int8), x.stride(0), BLOCK=16, WIDE=not wrong)


@triton.jit
def _hashed(key_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr, HOW: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    h = tl.load(key_ptr + lanes) * 2654435 + 97
    if HOW == "rem":
        h = h % 64
        h = tl.where(h < 0, h + 64, h)
    elif HOW == "and":
        h = h & 63
    elif HOW == "shift":
        h = (h >> 26) & 63
    elif HOW == "xor":
        h = (h ^ (h * 31)) & 63
    tl.store(y_ptr + lanes, tl.load(x_ptr + h))


def hash_wraps(how):
    key = torch.arange(16, dtype=torch.int32) * 100_003
    _hashed[(1,)](key, torch.randn(64), torch.empty(16), BLOCK=16, HOW=how)


@triton.jit
def _divided(x_ptr, y_ptr, n, BLOCK: tl.constexpr, GUARDED: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    q = n // x  # origin
    if GUARDED:
        q = tl.where(x == 0, 0, q)
    tl.store(y_ptr + lanes, q)  # store


def divides_by_zero(wrong):
    x = torch.arange(16, dtype=torch.int32)
    _divided[(1,)](x, torch.empty(16, dtype=torch.int32), 100, BLOCK=16, GUARDED=not wrong)


@triton.jit
def _shifted_far(x_ptr, y_ptr, limit, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    y = 1 << tl.load(x_ptr + lanes)  # origin
    tl.store(y_ptr + lanes, y, mask=lanes < limit)  # store


def shifts_too_far(wrong):
    x = torch.arange(24, 40, dtype=torch.int32)
    _shifted_far[(1,)](x, torch.zeros(16, dtype=torch.int32), 16 if wrong else 8, BLOCK=16)


# ------------------------------------------------------------------------------------------ alignment and hints


@triton.jit
def _described(x_ptr, y_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[stride, 1], block_shape=[BM, BN])  # descriptor
    lanes = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(y_ptr + lanes, x.load([0, 0]))


def descriptor_of_crooked_rows(wrong):
    n = 18 if wrong else 20
    _described[(1,)](torch.randn(8, n), torch.empty(8, 16), 8, n, n, BM=8, BN=16)


def descriptor_of_a_crooked_base(wrong):
    x = torch.randn(8 * 20 + 4)[1 if wrong else 4 :][: 8 * 20].view(8, 20)
    _described[(1,)](x, torch.empty(8, 16), 8, 20, 20, BM=8, BN=16)


@triton.jit
def _reinterpreted(x_ptr, y_ptr, shift):
    p = (x_ptr + shift).to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(y_ptr, tl.load(p))  # load


def loads_four_bytes_from_the_second(wrong):
    _reinterpreted[(1,)](torch.zeros(16, dtype=torch.uint8), torch.empty(1, dtype=torch.int32), 2 if wrong else 4)


@triton.jit
def _hinted(x_ptr, y_ptr, stride, BLOCK: tl.constexpr, HOW: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    if HOW == "assume":
        tl.assume(stride % 16 == 0)  # hint
    elif HOW == "multiple":
        stride = tl.multiple_of(stride, 16)  # hint
    elif HOW == "tile":
        lanes = tl.multiple_of(stride + lanes, 16) - stride  # hint
    elif HOW == "contiguous":
        lanes = tl.max_contiguous(lanes * stride // 32, 8) * 32 // stride  # hint
    tl.store(y_ptr + lanes, tl.load(x_ptr + stride + lanes))


def hints(how, stride):
    _hinted[(1,)](torch.randn(96), torch.empty(16), stride, BLOCK=16, HOW=how)


@triton.jit
def _edges(x_ptr, y_ptr, M, BLOCK: tl.constexpr, HOW: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if HOW == "where":
        inside = tl.where(rows < M, rows, 0)
    elif HOW == "clamp":
        inside = tl.minimum(rows, M - 1)
    else:
        inside = rows % M
    inside = tl.max_contiguous(tl.multiple_of(inside, BLOCK), BLOCK)
    tl.store(y_ptr + rows, tl.load(x_ptr + inside), mask=rows < M)


def hints_at_the_edge(how, m):
    _edges[(triton.cdiv(m, 16),)](torch.randn(m), torch.empty(m), m, BLOCK=16, HOW=how)


# ------------------------------------------------------------------------------------------------------- order


@triton.jit
def _summed(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0)
    tl.atomic_add(y_ptr, tl.sum(x))  # atomic


def sums_by_atomics(dtype, programs=4):
    x = torch.ones(programs * 16, dtype=dtype)
    y = torch.zeros(1, dtype=dtype)
    _summed[(programs,)](x, y, programs * 16, BLOCK=16)
    return y


@triton.jit
def _assembly(x_ptr, y_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    y = tl.inline_asm_elementwise("match.any.sync.b32 $0, $1, -1;", "=r,r", [x], tl.int32, True, 1)  # asm
    tl.store(y_ptr + lanes, y)


def uses_assembly():
    _assembly[(1,)](torch.zeros(16, dtype=torch.int32), torch.empty(16, dtype=torch.int32), BLOCK=16)


@triton.jit
def _taken(counter_ptr, out_ptr, n, HOW: tl.constexpr):
    pid = tl.program_id(0)
    place = tl.atomic_add(counter_ptr, 1)
    if HOW == "slot":
        tl.store(out_ptr + place, pid * pid)
    elif HOW == "last":
        if place == n - 1:
            tl.store(out_ptr, pid)  # last
    elif HOW == "share":
        tl.store(out_ptr + pid, place // n * 2)


def by_order(how):
    out = torch.zeros(5, dtype=torch.int32)
    _taken[(5,)](torch.zeros(1, dtype=torch.int32), out, 5, HOW=how)
    return out


@triton.jit
def _handed_on(x_ptr, part_ptr, ready_ptr, out_ptr, RELEASES: tl.constexpr):
    """Program 1 leaves its number; program 0 takes it if it is there already, and otherwise looks it up itself."""
    if tl.program_id(0) == 1:
        tl.store(part_ptr, tl.load(x_ptr + 1))
        tl.debug_barrier()
        if RELEASES:
            tl.atomic_xchg(ready_ptr, 1, sem="release")
        else:
            tl.store(ready_ptr, 1)
    else:
        if tl.atomic_add(ready_ptr, 0, sem="acquire") == 1:
            other = tl.load(part_ptr)  # taken
        else:
            other = tl.load(x_ptr + 1)
        tl.store(out_ptr, tl.load(x_ptr) + other)


def handed_on(releases):
    out, ready = torch.empty(1), torch.zeros(1, dtype=torch.int32)
    _handed_on[(2,)](torch.arange(2.0), torch.empty(1), ready, out, RELEASES=releases)
    return out


@triton.jit
def _serial_sum(x_ptr, y_ptr, lock_ptr, BLOCK: tl.constexpr, FADE: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr + lanes, tl.load(y_ptr + lanes) * FADE + x)  # sum
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def summed_under_a_lock(fade):
    torch.manual_seed(0)
    x, y = torch.randn(6, 16), torch.zeros(16)
    _serial_sum[(6,)](x, y, torch.zeros(1, dtype=torch.int32), BLOCK=16, FADE=fade)
    return y


# -------------------------------------------------------------------------------------------------- not finite


@triton.jit
def _softmax(x_ptr, y_ptr, n, BLOCK: tl.constexpr, SAFE: tl.constexpr, HALF: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=-float("inf"))
    if SAFE:
        x = x - tl.max(x)  # shift
    e = tl.exp(x)  # exp
    if HALF:
        e = (e * 70000.0).to(tl.float16).to(tl.float32)  # narrow
    tl.store(y_ptr + row * n + lanes, e / tl.sum(e), mask=lanes < n)  # store


def softmax(x, safe=True, half=False):
    y = torch.empty_like(x)
    _softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=16, SAFE=safe, HALF=half)
    return y


@triton.jit
def _mean(x_ptr, y_ptr, counts_ptr, n, BLOCK: tl.constexpr, GUARDED: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    count = tl.load(counts_ptr + row)
    mean = tl.sum(tl.load(x_ptr + row * n + lanes, mask=lanes < count, other=0.0)) / count  # divide
    if GUARDED:
        mean = tl.where(count > 0, mean, 0.0)
    tl.store(y_ptr + row, mean)  # store


def mean_of_none(guarded):
    y = torch.empty(3)
    _mean[(3,)](torch.randn(3, 8), y, torch.tensor([4, 0, 8], dtype=torch.int32), 8, BLOCK=8, GUARDED=guarded)
    return y
