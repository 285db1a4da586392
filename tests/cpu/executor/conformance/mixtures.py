"""Tuples of several dtypes in reductions and scans, truth values, and the less usual statements."""

import torch

from . import kernels_mixtures as k
from .launching import run


def check_welford(seed: int) -> str:
    x = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(seed)) * 3 + 5
    mean, variance = torch.zeros(3, 4), torch.zeros(3, 4)
    run(k.welford_kernel, (3,), x, mean, variance, M=4, N=16)
    near = torch.allclose(mean, x.mean(2), rtol=1e-5) and torch.allclose(variance, x.var(2, unbiased=False), rtol=1e-4)
    return "" if near else "means or variances are off"


def check_segments(seed: int) -> str:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-9, 9, (3, 32), generator=generator)
    starts = torch.randint(0, 4, (3, 32), generator=generator) == 0
    out = torch.zeros_like(x)
    run(k.segments_kernel, (3,), x, starts.to(torch.int8), out, N=32)
    for numbers, flags, sums in zip(x.tolist(), starts.tolist(), out.tolist(), strict=True):
        total = 0
        for number, flag, found in zip(numbers, flags, sums, strict=True):
            total = number if flag else total + number
            if found != total:
                return f"a sum is {found}, not {total}"
    return ""


def check_truths(seed: int) -> str:
    x = torch.randint(-1, 2, (3, 16), generator=torch.Generator().manual_seed(seed))
    out = torch.zeros(3, 6, dtype=torch.int32)
    run(k.truths_kernel, (3,), x, out, N=16)
    positive = (x > 0).int()
    count, most, fewest = positive.sum(1), positive.amax(1), positive.amin(1)
    wanted = torch.stack([count, most, most, count % 2, count, fewest], 1).int()
    return "" if torch.equal(out, wanted) else f"{out.tolist()}, not {wanted.tolist()}"


def check_statements() -> str:
    x, out = torch.arange(10, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    run(k.statements_kernel, (1,), x, out, 7, N=8)
    wanted = [21 * lane - 21 + 7 + 3 * 100 + 2 * 1000 for lane in range(8)]
    return "" if out.tolist() == wanted else f"{out.tolist()}, not {wanted}"
