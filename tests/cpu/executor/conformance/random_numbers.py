"""Philox by NumPy, and by Triton's own code under its interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from . import kernels_random
from .launching import run


def drawn(seed: int) -> list[torch.Tensor]:
    results = kernels_random.outputs()
    run(kernels_random.random_kernel, (kernels_random.COUNT // 64,), seed, *results, BLOCK=64)
    return results


def by_interpreter(seed: int, folder: Path) -> list[torch.Tensor]:
    target = folder / f"random{seed}.pt"
    command = [sys.executable, kernels_random.__file__, str(seed), str(target)]
    subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True)
    return torch.load(target)


def philox(seed: int, offsets: np.ndarray, rounds: int = 10) -> list[np.ndarray]:
    """Four streams of 32-bit numbers (Salmon et al. 2011)."""
    mask = np.uint64(0xFFFFFFFF)
    counter = [offsets.astype(np.uint64)] + [np.zeros_like(offsets, dtype=np.uint64)] * 3
    key = [np.uint64(seed % (1 << 32)), np.uint64((seed >> 32) % (1 << 32))]
    for _ in range(rounds):
        a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (b >> np.uint64(32)) ^ counter[1] ^ key[0],
            b & mask,
            (a >> np.uint64(32)) ^ counter[3] ^ key[1],
            a & mask,
        ]
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    return [c.astype(np.uint32) for c in counter]


def check(seed: int) -> str:
    whole, four, uniform, _ = drawn(seed)
    a, b, c, d = philox(seed, np.arange(kernels_random.COUNT))
    if not np.array_equal(whole.numpy().view(np.uint32), a):
        return "tl.randint differs"
    if not np.array_equal(four.numpy().view(np.uint32), a ^ (b + c) ^ (d * np.uint32(3))):
        return "tl.randint4x differs"
    signed = a.view(np.int32)
    folded = np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)
    return "" if np.array_equal(uniform.numpy(), folded) else "tl.rand differs"
