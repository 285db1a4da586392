"""Locks and flags, right and wrong. The faulty lines are tagged with what is expected there."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


def zeros(n: int = 1) -> torch.Tensor:
    return torch.zeros(n, dtype=torch.int32)


@triton.jit
def _sum_under_lock(
    x_ptr,
    sum_ptr,
    lock_ptr,
    BLOCK: tl.constexpr,
    LOCK: tl.constexpr,
    OWN: tl.constexpr,
    SEM: tl.constexpr,
    LATE: tl.constexpr,
):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes)
    if OWN:  # a lock that nobody else takes
        lock_ptr += tl.program_id(0)
    if LOCK:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
    total = tl.load(sum_ptr + lanes) + x  # read
    if LATE:
        tl.atomic_xchg(lock_ptr, 0)
    tl.store(sum_ptr + lanes, total)  # write
    tl.debug_barrier()
    if LOCK and not LATE:
        tl.atomic_xchg(lock_ptr, 0, sem=SEM)


def sum_under_lock(lock=True, own=False, sem="acq_rel", late=False):
    x, total = torch.randn(6, 16), torch.zeros(16)
    _sum_under_lock[(6,)](x, total, zeros(6), BLOCK=16, LOCK=lock, OWN=own, SEM=sem, LATE=late)
    return x.sum(0), total


@triton.jit
def _kept(lock_ptr, out_ptr, GIVES_BACK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # deadlock
        pass
    tl.store(out_ptr + tl.program_id(0), 1)
    if GIVES_BACK:
        tl.atomic_xchg(lock_ptr, 0)


def lock_is_kept(gives_back):
    _kept[(5,)](zeros(), zeros(5), GIVES_BACK=gives_back)


@triton.jit
def _exchanged(lock_ptr, out_ptr, GIVES_BACK: tl.constexpr):
    while tl.atomic_xchg(lock_ptr, 1) != 0:  # deadlock
        pass
    tl.store(out_ptr + tl.program_id(0), 1)
    if GIVES_BACK:
        tl.atomic_xchg(lock_ptr, 0)


def spin_by_exchange(gives_back):
    _exchanged[(3,)](zeros(), zeros(3), GIVES_BACK=gives_back)


@triton.jit
def _flag(flag_ptr, out_ptr, SET: tl.constexpr, COUNTS: tl.constexpr, ADDS: tl.constexpr):
    if tl.program_id(0) == 0:
        rounds = 0
        if COUNTS:
            while tl.load(flag_ptr, volatile=True) == 0:  # deadlock
                rounds += 1
        elif ADDS:
            while tl.atomic_add(flag_ptr, 0) == 0:  # deadlock
                pass
        else:
            while tl.load(flag_ptr, volatile=True) == 0:  # deadlock
                pass
        tl.store(out_ptr, 1 + 0 * rounds)
    elif SET:
        tl.atomic_xchg(flag_ptr, 1)


def flag_nobody_sets(is_set, counts=False, adds=False):
    _flag[(4,)](zeros(), zeros(), SET=is_set, COUNTS=counts, ADDS=adds)


@triton.jit
def _bounded(lock_ptr, out_ptr):
    tries = 0
    while (tl.atomic_cas(lock_ptr, 0, 1) == 1) & (tries < 20):
        tries += 1
    tl.store(out_ptr + tl.program_id(0), tries)


def gives_up_after_some_tries():
    out = zeros(3)
    _bounded[(3,)](zeros(), out)
    return out


@triton.jit
def _endless(x_ptr, out_ptr, n, STEP: tl.constexpr):
    at = tl.program_id(0)
    total = 0
    while at < n:  # deadlock
        total += tl.load(x_ptr + at) * STEP
        at += STEP
    tl.store(out_ptr + tl.program_id(0), total)


def loop_without_a_step(step):
    x, out = torch.arange(8, dtype=torch.int32), zeros(2)
    _endless[(2,)](x, out, 8, STEP=step)
    return out


@triton.jit
def _search(table_ptr, wanted_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    wanted = tl.load(wanted_ptr + pid)
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if tl.load(table_ptr + middle) < wanted:
            low = middle + 1
        else:
            high = middle
    tl.store(out_ptr + pid, low)


def binary_search():
    table, wanted = torch.arange(0, 200, 2, dtype=torch.int32), torch.tensor([-1, 0, 7, 8, 198, 500], dtype=torch.int32)
    out = torch.empty(6, dtype=torch.int32)
    _search[(6,)](table, wanted, out, 100, BLOCK=1)
    return out, torch.searchsorted(table, wanted)


@triton.jit
def _handed_over(data_ptr, flag_ptr, out_ptr, HOW: tl.constexpr, POLL: tl.constexpr):
    if tl.program_id(0) == 0:
        if POLL == "fenced":
            while tl.atomic_add(flag_ptr, 0, sem="relaxed") == 0:
                pass
            tl.atomic_add(flag_ptr, 0, sem="acquire")
        elif POLL == "relaxed":
            while tl.atomic_add(flag_ptr, 0, sem="relaxed") == 0:
                pass
        elif POLL == "plain":
            while tl.load(flag_ptr) == 0:  # read-write-race
                pass
        else:
            while tl.load(flag_ptr, volatile=True) == 0:  # flag
                pass
        tl.store(out_ptr, tl.load(data_ptr))  # data
    else:
        if HOW == "late":
            tl.atomic_xchg(flag_ptr, 1)
        tl.store(data_ptr, 7)
        if HOW == "release":
            tl.atomic_xchg(flag_ptr, 1, sem="release")
        elif HOW == "relaxed":
            tl.atomic_xchg(flag_ptr, 1, sem="relaxed")
        elif HOW == "plain":
            tl.store(flag_ptr, 1)


def handed_over(how, poll="volatile"):
    _handed_over[(2,)](zeros(), zeros(), zeros(), HOW=how, POLL=poll)


@triton.jit
def _ticketed(count_ptr, out_ptr, n, LAST_ALONE: tl.constexpr, LOOKS: tl.constexpr):
    pid = tl.program_id(0)
    if LOOKS:
        ticket = tl.atomic_add(count_ptr, 1)
        if LAST_ALONE:
            if ticket == n - 1:
                tl.store(out_ptr, pid)
        else:
            tl.store(out_ptr, pid + ticket)  # write
    else:
        tl.store(out_ptr, pid)  # write
        tl.atomic_add(count_ptr, 1)


def ticketed(last_alone=False, looks=True):
    _ticketed[(4,)](zeros(), zeros(), 4, LAST_ALONE=last_alone, LOOKS=looks)


@triton.jit
def _after_unseen(count_ptr, x_ptr, out_ptr, WAITS: tl.constexpr):
    """Adding to a counter orders nothing for who does not look at what it found."""
    if tl.program_id(0) == 0:
        tl.store(x_ptr, 3)
        tl.atomic_add(count_ptr, 1)
    else:
        if WAITS:
            while tl.atomic_add(count_ptr, 0) == 0:
                pass
        else:
            tl.atomic_add(count_ptr, 1)
        tl.store(out_ptr, tl.load(x_ptr))  # read


def after_unseen(waits):
    _after_unseen[(2,)](zeros(), zeros(), zeros(), WAITS=waits)


@triton.jit
def _reduced_early(partial_ptr, count_ptr, out_ptr, n, N: tl.constexpr, EARLY: tl.constexpr):
    pid = tl.program_id(0)
    if EARLY:
        last = tl.atomic_add(count_ptr, 1) == n - 1
        tl.store(partial_ptr + pid, pid)
    else:
        tl.store(partial_ptr + pid, pid)
        last = tl.atomic_add(count_ptr, 1) == n - 1
    if last:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, N))))  # read


def reduced_by_the_last(early):
    _reduced_early[(4,)](zeros(4), zeros(), zeros(), 4, N=4, EARLY=early)
