"""Random numbers; run by the stock interpreter too, which this file is for when it is the main program."""

import sys

import torch
import triton
import triton.language as tl

COUNT = 256


@triton.jit
def random_kernel(seed, whole_ptr, four_ptr, uniform_ptr, normal_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(whole_ptr + at, tl.randint(seed, at))
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(four_ptr + at, a ^ (b + c) ^ (d * 3))
    tl.store(uniform_ptr + at, tl.rand(seed, at))
    tl.store(normal_ptr + at, tl.randn(seed, at))


def outputs() -> list[torch.Tensor]:
    return [torch.zeros(COUNT, dtype=dtype) for dtype in (torch.int32, torch.int32, torch.float32, torch.float32)]


if __name__ == "__main__":
    results = outputs()
    random_kernel[(COUNT // 64,)](int(sys.argv[1]), *results, BLOCK=64)
    torch.save(results, sys.argv[2])
