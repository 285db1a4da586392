"""Control flow that differs from program to program: each kernel reads a number and stores one."""

import triton
import triton.language as tl


@triton.jit
def own_bounds(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    total = n * 0
    for i in range(0, n):
        total += i * i
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def own_start_and_step(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    total = n * 0
    for i in range(n // 2, 20, n % 3 + 1):
        total = total * 3 + i
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def backwards(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    total = n * 0
    for i in range(n, -3, -2):
        total = total * 3 + i
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def shared_bounds(n_ptr, out_ptr, LOW, HIGH, STEP):
    n = tl.load(n_ptr + tl.program_id(0))
    total = n
    for i in range(LOW, HIGH, STEP):
        total = total * 3 + i
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def nested_loops(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    total = n * 0
    for i in range(0, n):
        for j in range(i, n, 2):
            total = total * 2 + j
        total += i
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def swapped_in_a_loop(n_ptr, out_ptr):
    """Values that change places each time round, and one that never changes."""
    n = tl.load(n_ptr + tl.program_id(0))
    a, b, c = n, n + 1, n + 2
    for _ in range(0, n):
        a, b = b, a + c
    tl.store(out_ptr + tl.program_id(0), a * 7 + b)


@triton.jit
def collatz(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0)) + 1
    steps = n * 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(out_ptr + tl.program_id(0), steps)


@triton.jit
def while_in_for(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    total = n * 0
    for i in range(0, n):
        k = i
        while k > 2:
            total += k
            k -= 3
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def while_both(n_ptr, out_ptr):
    """A condition of two parts, and a flag in the place of a break."""
    n = tl.load(n_ptr + tl.program_id(0))
    i = n * 0
    going = True
    while going and i < 50:
        i += 3
        if i > 2 * n:
            going = False
    tl.store(out_ptr + tl.program_id(0), i)


@triton.jit
def nested_ifs(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    found = n
    if n > 3:
        if n % 2 == 0:
            found = n * 10
        elif n > 9:
            found = n * 100
        if n == 7:
            found += 1
    else:
        found = -n
    tl.store(out_ptr + tl.program_id(0), found)


@triton.jit
def returns_early(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    tl.store(out_ptr + tl.program_id(0), n * 0 - 1)
    if n > 8:
        return
    if n % 3 == 0:
        tl.store(out_ptr + tl.program_id(0), n)
        return
    tl.store(out_ptr + tl.program_id(0), n * 2)


@triton.jit
def _sign(n):
    if n > 6:
        return 1
    if n < 3:
        return -1
    return 0


@triton.jit
def _both(n, m):
    return n + m, n * m


@triton.jit
def calls(n_ptr, out_ptr):
    """Functions that return early, and that return tuples."""
    n = tl.load(n_ptr + tl.program_id(0))
    total, product = _both(n, 5)
    pair = (total, product)
    total, product = _both(pair[1], pair[0])
    tl.store(out_ptr + tl.program_id(0), total * 1000 + product * 10 + _sign(n))


@triton.jit
def unrolled(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    total = n
    for i in tl.static_range(0, 4):
        if i % 2 == 0:
            total += n * i
        else:
            total -= i
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def choice(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    found = n + 1 if n % 2 == 0 else n * 3
    tl.store(out_ptr + tl.program_id(0), found)


@triton.jit
def uniform_then_own(n_ptr, out_ptr):
    """What starts equal in all programs and parts in the loop, under a condition."""
    n = tl.load(n_ptr + tl.program_id(0))
    total = 0
    count = 0
    for i in range(0, 10):
        if i < n:
            total += i
        else:
            count += 1
    tl.store(out_ptr + tl.program_id(0), total * 100 + count)


@triton.jit
def tile_in_a_loop(n_ptr, out_ptr):
    """A tile that is carried by programs which leave at different times."""
    n = tl.load(n_ptr + tl.program_id(0))
    tile = tl.zeros((4, 8), tl.int64)
    for i in range(0, n):
        tile += tl.arange(0, 8)[None, :] * i
        if i % 2 == 1:
            tile += tl.arange(0, 4)[:, None]
    tl.store(out_ptr + tl.program_id(0), tl.sum(tile))


@triton.jit
def pointers_in_a_loop(n_ptr, out_ptr):
    n = tl.load(n_ptr + tl.program_id(0))
    pointer = n_ptr
    total = n * 0
    for _ in range(0, n % 5):
        total += tl.load(pointer)
        pointer += 2
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def programs(n_ptr, out_ptr):
    """Every axis of the grid."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out_ptr + at, x + 10 * y + 100 * z)
