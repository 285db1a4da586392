"""The masked_softmax operator: launcher, golden reference, space and baselines."""

import math
from typing import Any

import torch
import triton
from jaxtyping import Bool, Float
from torch import Tensor

from tilewright.kernels.masked_softmax.kernel import softmax_rows_kernel, softmax_wide_kernel
from tilewright.spec.operator import operator
from tilewright.spec.space import Space


def reference(x: Tensor, mask: Tensor) -> Tensor:
    """Softmax by its definition, in the dtype of ``x``; NaN in a row of which nothing is kept."""
    return torch.softmax(x.masked_fill(~mask, -torch.inf), dim=-1)


def flops(*, M: int, N: int, **_: Any) -> int:
    """A comparison, a subtraction, an exponential, an addition and a multiplication per element."""
    return 5 * M * N


def _masked_softmax_aten(x: Tensor, mask: Tensor) -> Tensor:
    """PyTorch's fused kernel. Its mask says what to drop, so that inverting ours is part of its time."""
    return torch._masked_softmax(x, ~mask, -1, 2)  # 2: a mask of the input's shape


def _check(x: Tensor, mask: Tensor) -> None:
    if not (x.dim() == 2 and mask.shape == x.shape):
        raise ValueError(f"x {tuple(x.shape)} and mask {tuple(mask.shape)} are not both M N")
    if x.dtype not in (torch.bfloat16, torch.float16, torch.float32) or mask.dtype != torch.bool:
        raise TypeError(f"dtypes {x.dtype} and {mask.dtype} are not one of bfloat16, float16, float32 and bool")


def _default(N: int) -> dict[str, int]:
    """8 to 64 elements a lane; which is best on a chip is the tuner's to find."""
    if N <= 1024:
        width = triton.next_power_of_2(max(N, 1))
        return {"BLOCK_M": max(1, min(32, 2048 // width)), "BLOCK_N": 1024, "num_warps": 4, "num_stages": 1}
    if N <= 4096:
        return {"BLOCK_M": 1, "BLOCK_N": 4096, "num_warps": 4, "num_stages": 1}
    if N <= 32768:
        return {"BLOCK_M": 1, "BLOCK_N": 32768, "num_warps": 16, "num_stages": 1}
    return {"BLOCK_M": 1, "BLOCK_N": 4096, "num_warps": 8, "num_stages": 2}


def _is_worth_trying(*, BLOCK_M: int, BLOCK_N: int, num_warps: int, **_: int) -> bool:
    """From 4 to 64 elements a lane, if a row is as wide as the block; only narrow rows share a program."""
    return 4 <= BLOCK_N // (32 * num_warps) <= 64 and (BLOCK_M == 1 or BLOCK_N == 1024)


@operator(
    reference=reference,
    dtypes=("bf16", "fp16", "fp32"),
    space=Space(
        BLOCK_M=[1, 4, 16],
        BLOCK_N=[1024, 4096, 16384, 32768],
        num_warps=[4, 8, 16],
        num_stages=[1, 3],
        where=_is_worth_trying,
    ),
    baselines={"eager": reference, "aten-fused": _masked_softmax_aten},
    flops=flops,
    shapes={
        "attention-1024": {"M": 65536, "N": 1024},
        "attention-4096": {"M": 16384, "N": 4096},
        "narrow-64": {"M": 262144, "N": 64},
        "ragged-1000": {"M": 16384, "N": 1000},
        "wide-131072": {"M": 1024, "N": 131072},
    },
)
def masked_softmax(
    x: Float[Tensor, "M N"],
    mask: Bool[Tensor, "M N"],
    *,
    BLOCK_M: int | None = None,
    BLOCK_N: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
) -> Float[Tensor, "M N"]:
    """Softmax of each row of ``x`` over the elements where ``mask`` is true; 0 elsewhere, NaN if there are none.

    Rows of at most ``BLOCK_N`` elements are read once, ``BLOCK_M`` rows to a program; wider ones twice, in chunks of
    ``BLOCK_N``. Any strides are taken. A meta-parameter left None is chosen from the sizes.

    Raises ValueError for shapes that differ, TypeError for a dtype that is not taken.
    """
    _check(x, mask)
    M, N = x.shape
    given = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "num_warps": num_warps, "num_stages": num_stages}
    chosen = {name: value for name, value in given.items() if value is not None}
    config = _default(N) | chosen
    out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    if not out.numel():
        return out
    fits = config["BLOCK_N"] >= N
    tile = {"BLOCK_N": triton.next_power_of_2(N)} if fits else {"STAGES": config["num_stages"]}
    kernel = softmax_rows_kernel if fits else softmax_wide_kernel
    kernel[(triton.cdiv(M, config["BLOCK_M"]),)](
        x, mask, out, *x.stride(), *mask.stride(), *out.stride(), M, N,
        ALIGN=math.gcd(16 // x.element_size(), N, x.stride(0), mask.stride(0), out.stride(0)),
        WIDE=any((N + config["BLOCK_N"]) * t.stride(1) >= 2**31 for t in (x, mask, out)),
        **config | tile,
    )  # fmt: skip
    return out
