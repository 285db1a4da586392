"""Programs that wait for each other: semaphores, stream-K in both directions, look-back, flags that are polled."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

Pairs = list[tuple[Tensor, Tensor]]


@triton.jit
def _last_arriver(x_ptr, partial_ptr, ticket_ptr, out_ptr, n, parts, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    """Who comes last adds up what the others left."""
    pid = tl.program_id(0)
    lanes = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)))
    tl.debug_barrier()
    if tl.atomic_add(ticket_ptr, 1) == parts - 1:
        each = tl.arange(0, PARTS)
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + each, mask=each < parts, other=0.0)))
        tl.store(ticket_ptr, 0)  # ready for the next launch


def last_arriver_reduces() -> Pairs:
    x, out = torch.randn(700), torch.empty(2)
    partial, ticket = torch.empty(6), torch.zeros(1, dtype=torch.int32)
    for i in range(2):
        _last_arriver[(6,)](x, partial, ticket, out[i:], 700, 6, BLOCK=128, PARTS=8)
    return [(out, x.sum().expand(2)), (ticket, torch.zeros(1))]


@triton.jit
def _split_k_serial(x_ptr, out_ptr, lock_ptr, n, K, splits, BLOCK: tl.constexpr):
    """Splits add to the result one after the other, each when the semaphore shows its number."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    split = tl.program_id(1)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(split, K, splits):
        total += tl.load(x_ptr + k * n + columns, mask=columns < n, other=0.0)
    lock_ptr += tl.program_id(0)
    while tl.atomic_add(lock_ptr, 0) != split:
        pass
    if split > 0:
        total += tl.load(out_ptr + columns, mask=columns < n)
    tl.store(out_ptr + columns, total, mask=columns < n)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, (split + 1) % splits)


def split_k_in_turn() -> Pairs:
    x, out = torch.randn(9, 50), torch.empty(50)
    _split_k_serial[(2, 3)](x, out, torch.zeros(2, dtype=torch.int32), 50, 9, 3, BLOCK=32)
    return [(out, x.sum(0))]


@triton.jit
def _stream_k(x_ptr, out_ptr, partial_ptr, flag_ptr, units, per_tile, share, BLOCK: tl.constexpr, LATER: tl.constexpr):
    """Each program does a share of all units; who holds a tile's last (or first) part waits for the others' parts."""
    pid = tl.program_id(0)
    if LATER:  # work is handed out from the end: owners wait for programs that start after them
        pid = tl.num_programs(0) - 1 - pid
    lanes = tl.arange(0, BLOCK)
    unit, end = pid * share, min(pid * share + share, units)
    while unit < end:
        tile = unit // per_tile
        tile_end = tile * per_tile + per_tile
        stop = min(end, tile_end)
        total = tl.zeros([BLOCK], tl.float32)
        for u in range(unit, stop):
            total += tl.load(x_ptr + u * BLOCK + lanes)
        if stop == tile_end:
            before = unit
            other = pid - 1
            while before > tile * per_tile:
                while tl.atomic_cas(flag_ptr + other, 1, 2) != 1:
                    pass
                total += tl.load(partial_ptr + other * BLOCK + lanes)
                before = other * share
                other -= 1
            tl.store(out_ptr + tile * BLOCK + lanes, total)
        else:
            tl.store(partial_ptr + pid * BLOCK + lanes, total)
            tl.debug_barrier()
            tl.atomic_xchg(flag_ptr + pid, 1)
        unit = stop


def _streamed(later: bool) -> Pairs:
    x, out = torch.randn(14, 16), torch.empty(2, 16)
    partial, flags = torch.empty(6, 16), torch.zeros(6, dtype=torch.int32)
    _stream_k[(5,)](x, out, partial, flags, 14, 7, 3, BLOCK=16, LATER=later)
    return [(out, x.reshape(2, 7, 16).sum(1))]


def stream_k_waits_for_earlier() -> Pairs:
    return _streamed(later=False)


def stream_k_waits_for_later() -> Pairs:
    return _streamed(later=True)


@triton.jit
def _look_back(x_ptr, out_ptr, sum_ptr, prefix_ptr, state_ptr, n, BLOCK: tl.constexpr):
    """A cumulative sum in one pass: each block looks back until it meets a block whose prefix is known."""
    pid = tl.program_id(0)
    lanes = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0)
    total = tl.sum(x)
    before = 0
    if pid == 0:
        tl.store(prefix_ptr, total)
        tl.debug_barrier()
        tl.atomic_xchg(state_ptr, 2, sem="release")
    else:
        tl.store(sum_ptr + pid, total)
        tl.debug_barrier()
        tl.atomic_xchg(state_ptr + pid, 1, sem="release")
        at = pid - 1
        while at >= 0:
            state = tl.atomic_add(state_ptr + at, 0, sem="acquire")
            if state == 2:
                before += tl.load(prefix_ptr + at)
                at = -1
            elif state == 1:
                before += tl.load(sum_ptr + at)
                at -= 1
        tl.store(prefix_ptr + pid, before + total)
        tl.debug_barrier()
        tl.atomic_xchg(state_ptr + pid, 2, sem="release")
    tl.store(out_ptr + lanes, before + tl.cumsum(x), mask=lanes < n)


def look_back() -> Pairs:
    x, out = torch.randint(0, 9, (300,), dtype=torch.int32), torch.empty(300, dtype=torch.int32)
    sums, prefixes = (torch.empty(10, dtype=torch.int32) for _ in range(2))
    _look_back[(10,)](x, out, sums, prefixes, torch.zeros(10, dtype=torch.int32), 300, BLOCK=32)
    return [(out.long(), x.cumsum(0))]


@triton.jit
def _polled(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr, FIRST_WAITS: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    if (tl.program_id(0) == 0) == FIRST_WAITS:
        while tl.load(flag_ptr, volatile=True) == 0:
            pass
        tl.store(out_ptr + lanes, tl.load(data_ptr + lanes) * 2)
    else:
        tl.store(data_ptr + lanes, lanes.to(tl.float32))
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1, sem="release")


def volatile_flag() -> Pairs:
    pairs = []
    for first_waits in (False, True):
        data, flag, out = torch.empty(16), torch.zeros(1, dtype=torch.int32), torch.empty(16)
        _polled[(2,)](data, flag, out, BLOCK=16, FIRST_WAITS=first_waits)
        pairs.append((out, torch.arange(16.0) * 2))
    return pairs


@triton.jit
def _tickets(out_ptr, ticket_ptr, n):
    """Work handed out by a counter; each program takes tickets until there are none."""
    mine = tl.atomic_add(ticket_ptr, 1)
    while mine < n:
        tl.store(out_ptr + mine, mine * mine)
        mine = tl.atomic_add(ticket_ptr, 1)


def dynamic_tickets() -> Pairs:
    out = torch.empty(20, dtype=torch.int32)
    _tickets[(4,)](out, torch.zeros(1, dtype=torch.int32), 20)
    return [(out, torch.arange(20) ** 2)]


@triton.jit
def _meet(count_ptr, programs):
    """All programs arrive before any goes on."""
    tl.debug_barrier()
    tl.atomic_add(count_ptr, 1, sem="release")
    while tl.atomic_add(count_ptr, 0, sem="acquire") < programs:
        pass
    tl.debug_barrier()


@triton.jit
def _smoothed(x_ptr, y_ptr, count_ptr, n, rounds, BLOCK: tl.constexpr, BARRIER: tl.constexpr):
    """Takes the mean of neighbours again and again, with a barrier across the grid between rounds."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < n
    for step in range(rounds):
        left = tl.load(x_ptr + lanes - 1, mask=mask & (lanes > 0), other=0.0)
        right = tl.load(x_ptr + lanes + 1, mask=lanes + 1 < n, other=0.0)
        tl.store(y_ptr + lanes, (left + right) / 2, mask=mask)
        if BARRIER:
            _meet(count_ptr + step, tl.num_programs(0))
        x_ptr, y_ptr = y_ptr, x_ptr


def grid_barrier(barrier: bool = True) -> Pairs:
    x, y = torch.randn(90), torch.empty(90)
    expected = x.clone()
    for _ in range(3):
        padded = torch.nn.functional.pad(expected, (1, 1))
        expected = (padded[:-2] + padded[2:]) / 2
    _smoothed[(3,)](x, y, torch.zeros(3, dtype=torch.int32), 90, 3, BLOCK=32, BARRIER=barrier)
    return [(y, expected)]


@triton.jit
def _row_maximum(x_ptr, out_ptr, n, N, BLOCK: tl.constexpr):
    """Columns in parts: each program's maximum goes into the row's by an atomic."""
    row, lanes = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + lanes, mask=lanes < n, other=-float("inf"))
    tl.atomic_max(out_ptr + row, tl.max(x))


def atomic_maximum() -> Pairs:
    x, out = torch.randn(5, 50), torch.full((5,), -float("inf"))
    _row_maximum[(5, 4)](x, out, 50, 50, BLOCK=16)
    return [(out, x.max(1).values)]


TECHNIQUES = [
    grid_barrier,
    atomic_maximum,
    last_arriver_reduces,
    split_k_in_turn,
    stream_k_waits_for_earlier,
    stream_k_waits_for_later,
    look_back,
    volatile_flag,
    dynamic_tickets,
]
