"""What each kernel of control flow stores, as plain Python for one program."""

from collections.abc import Callable, Sequence

import torch

from . import kernels_control as k
from .launching import run

NUMBERS = [0, 1, 2, 3, 5, 7, 8, 9, 12, 13, 4, 6]


def wrapped(value: int, width: int = 64) -> int:
    half = 1 << (width - 1)
    return (value + half) % (2 * half) - half


def own_bounds(n: int) -> int:
    return sum(i * i for i in range(n))


def digits(numbers: Sequence[int], start: int = 0, base: int = 3) -> int:
    for number in numbers:
        start = start * base + number
    return start


def nested_loops(n: int) -> int:
    total = 0
    for i in range(n):
        total = digits(range(i, n, 2), total, 2) + i
    return total


def swapped_in_a_loop(n: int) -> int:
    a, b = n, n + 1
    for _ in range(n):
        a, b = b, a + n + 2
    return a * 7 + b


def collatz(n: int) -> int:
    n, steps = n + 1, 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def while_both(n: int) -> int:
    return next(i for i in range(3, 60, 3) if i > 2 * n or i >= 50)


def nested_ifs(n: int) -> int:
    if n <= 3:
        return -n
    found = n * 10 if n % 2 == 0 else n * 100 if n > 9 else n
    return found + (n == 7)


def returns_early(n: int) -> int:
    return -1 if n > 8 else n if n % 3 == 0 else n * 2


def calls(n: int) -> int:
    total, product = n + 5, n * 5
    total, product = product + total, product * total
    return total * 1000 + product * 10 + (1 if n > 6 else -1 if n < 3 else 0)


def tile_in_a_loop(n: int) -> int:
    return sum(4 * 28 * i + (8 * 6 if i % 2 else 0) for i in range(n))


CASES: list[tuple[object, Callable[[int], int]]] = [
    (k.own_bounds, own_bounds),
    (k.own_start_and_step, lambda n: digits(range(n // 2, 20, n % 3 + 1))),
    (k.backwards, lambda n: digits(range(n, -3, -2))),
    (k.nested_loops, nested_loops),
    (k.swapped_in_a_loop, swapped_in_a_loop),
    (k.collatz, collatz),
    (k.while_in_for, lambda n: sum(sum(range(i, 2, -3)) for i in range(n))),
    (k.while_both, while_both),
    (k.nested_ifs, nested_ifs),
    (k.returns_early, returns_early),
    (k.calls, calls),
    (k.unrolled, lambda n: n + n * 2 - 4),
    (k.choice, lambda n: n + 1 if n % 2 == 0 else n * 3),
    (k.uniform_then_own, lambda n: sum(range(min(n, 10))) * 100 + max(10 - n, 0)),
    (k.tile_in_a_loop, tile_in_a_loop),
    (k.pointers_in_a_loop, lambda n: sum(NUMBERS[0 : 2 * (n % 5) : 2])),
]


def check(kernel: object, expected: Callable[[int], int], dtype: torch.dtype, numbers: Sequence[int] = NUMBERS) -> str:
    """Runs it with a number for each program."""
    n = torch.tensor(numbers, dtype=dtype)
    out = torch.zeros(len(numbers), dtype=torch.int64)
    run(kernel, (len(numbers),), n, out)
    wanted = [wrapped(expected(number), 8 * dtype.itemsize) for number in numbers]
    return "" if out.tolist() == wanted else f"{out.tolist()}, not {wanted}"


def check_shared_bounds(low: int, high: int, step: int) -> str:
    n = torch.tensor(NUMBERS)
    out = torch.zeros(len(NUMBERS), dtype=torch.int64)
    run(k.shared_bounds, (len(NUMBERS),), n, out, low, high, step)
    wanted = [wrapped(digits(range(low, high, step), number)) for number in NUMBERS]
    return "" if out.tolist() == wanted else f"{out.tolist()}, not {wanted}"
