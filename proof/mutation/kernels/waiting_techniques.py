"""Operators over the kernels of tests/cpu/executor/kernels/waits.py."""

import torch
import triton
from jaxtyping import Float, Int32
from torch import Tensor
from waits import _last_arriver, _look_back, _row_maximum, _split_k_serial

import tilewright as tw


@tw.operator(reference=lambda x: x.sum().reshape(1), where="N >= 1 and N <= 2**20")
def last_arriver(x: Float[Tensor, "N"]) -> Float[Tensor, "1"]:
    x = x.contiguous()
    parts = triton.cdiv(x.numel(), 128)
    out, partial, ticket = torch.empty(1), torch.empty(parts), torch.zeros(1, dtype=torch.int32)
    _last_arriver[(parts,)](x, partial, ticket, out, x.numel(), parts, BLOCK=128, PARTS=triton.next_power_of_2(parts))
    return out


@tw.operator(reference=lambda x: x.sum(0), where="K >= 1 and K * N < 2**31")
def split_k_in_turn(x: Float[Tensor, "K N"]) -> Float[Tensor, "N"]:
    x = x.contiguous()
    K, N = x.shape
    out, columns = torch.empty(N), triton.cdiv(N, 32)
    if N:
        _split_k_serial[(columns, 3)](x, out, torch.zeros(columns, dtype=torch.int32), N, K, 3, BLOCK=32)
    return out


@tw.operator(
    reference=lambda x: x.cumsum(0).int(), values={"x": tw.values.integers(0, 9)}, where="N >= 1 and N < 2**20"
)
def look_back(x: Int32[Tensor, "N"]) -> Int32[Tensor, "N"]:
    x = x.contiguous()
    blocks = triton.cdiv(x.numel(), 32)
    out = torch.empty(x.numel(), dtype=torch.int32)
    sums, prefixes = torch.empty(blocks, dtype=torch.int32), torch.empty(blocks, dtype=torch.int32)
    _look_back[(blocks,)](x, out, sums, prefixes, torch.zeros(blocks, dtype=torch.int32), x.numel(), BLOCK=32)
    return out


@tw.operator(reference=lambda x: x.amax(1), where="N >= 1 and M * N < 2**31")
def atomic_maximum(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
    x = x.contiguous()
    M, N = x.shape
    out = torch.full((M,), -float("inf"))
    if M:
        _row_maximum[(M, triton.cdiv(N, 16))](x, out, N, N, BLOCK=16)
    return out
