"""Atomics that keep what they return."""

import triton
import triton.language as tl


@triton.jit
def add(pointer, value, mask):
    return tl.atomic_add(pointer, value, mask=mask)


@triton.jit
def most(pointer, value, mask):
    return tl.atomic_max(pointer, value, mask=mask)


@triton.jit
def fewest(pointer, value, mask):
    return tl.atomic_min(pointer, value, mask=mask)


@triton.jit
def both(pointer, value, mask):
    return tl.atomic_and(pointer, value, mask=mask)


@triton.jit
def either(pointer, value, mask):
    return tl.atomic_or(pointer, value, mask=mask)


@triton.jit
def differing(pointer, value, mask):
    return tl.atomic_xor(pointer, value, mask=mask)


@triton.jit
def exchanged(pointer, value, mask):
    return tl.atomic_xchg(pointer, value, mask=mask)


@triton.jit
def atomic_kernel(memory_ptr, where_ptr, value_ptr, live_ptr, old_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointer = memory_ptr + tl.load(where_ptr + at)
    live = tl.load(live_ptr + at) != 0
    old = OP(pointer, tl.load(value_ptr + at), live)
    tl.store(old_ptr + at, old, mask=live)


@triton.jit
def swap_kernel(memory_ptr, where_ptr, expected_ptr, value_ptr, old_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pointer = memory_ptr + tl.load(where_ptr + at)
    tl.store(old_ptr + at, tl.atomic_cas(pointer, tl.load(expected_ptr + at), tl.load(value_ptr + at)))


@triton.jit
def scalar_kernel(memory_ptr, old_ptr, OP: tl.constexpr):
    """One lane per program, all at one address."""
    tl.store(old_ptr + tl.program_id(0), OP(memory_ptr, tl.program_id(0).to(memory_ptr.dtype.element_ty), None))
