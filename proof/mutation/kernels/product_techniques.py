"""Operators over the kernels of tests/cpu/executor/kernels/matmuls.py."""

import torch
import triton
from jaxtyping import Float
from matmuls import _grouped, _persistent, _split_k
from torch import Tensor

import tilewright as tw

SMALL = "M * K < 2**30 and K * N < 2**30 and M * N < 2**30"  # offsets in 32 bits


@tw.operator(
    reference=lambda a, b: torch.nn.functional.leaky_relu(a @ b), dtypes=("fp16",), where=f"{SMALL} and K >= 1"
)
def grouped_order(a: Float[Tensor, "M K"], b: Float[Tensor, "K N"]) -> Float[Tensor, "M N"]:
    a, b = (t.contiguous() if 0 in t.stride() else t for t in (a, b))  # the kernel assumes that rows do not coincide
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype)
    if c.numel():
        _grouped[(triton.cdiv(M, 16) * triton.cdiv(N, 16),)](
            a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(),
            BM=16, BN=16, BK=16, GROUP=3, ACTIVATION="leaky_relu",
        )  # fmt: skip
    return c


@tw.operator(reference=lambda a, b: a @ b, where=f"{SMALL} and K >= 1")
def persistent_matmul(a: Float[Tensor, "M K"], b: Float[Tensor, "K N"]) -> Float[Tensor, "M N"]:
    a, b = a.contiguous(), b.contiguous()
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N))
    if c.numel():
        _persistent[(5,)](a, b, c, M, N, K, BM=16, BN=32, BK=16)
    return c


@tw.operator(reference=lambda a, b: a @ b, where=SMALL)
def split_k(a: Float[Tensor, "M K"], b: Float[Tensor, "K N"]) -> Float[Tensor, "M N"]:
    a, b = a.contiguous(), b.contiguous()
    (M, K), N = a.shape, b.shape[1]
    c = torch.zeros((M, N))
    if c.numel():
        _split_k[(triton.cdiv(M, 16), triton.cdiv(N, 16), 3)](a, b, c, M, N, K, SPLIT=3, BM=16, BN=16, BK=16)
    return c
