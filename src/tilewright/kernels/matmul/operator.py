"""The matmul operator: launcher, golden reference, space and baselines."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.nn.functional as F
import triton
from jaxtyping import Float
from torch import Tensor

from tilewright.kernels.matmul.kernel import matmul_kernel
from tilewright.spec.operator import operator
from tilewright.spec.space import Space

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def reference(
    a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str = "none", input_precision: str = "ieee"
) -> Tensor:
    """The product by its definition, in the dtype of its inputs."""
    product = a @ b
    return ACTIVATIONS[activation](product if bias is None else product + bias)


def flops(*, M: int, N: int, K: int, **_: Any) -> int:
    """A multiplication and an addition per term; bias and activation are not counted."""
    return 2 * M * N * K


@contextmanager
def _cublas_precision(a: Tensor, input_precision: str) -> Iterator[None]:
    """Let cuBLAS multiply float32 as ``input_precision`` says, whatever the process is set to."""
    if a.dtype == torch.float32 and input_precision == "tf32x3":
        raise NotImplementedError("PyTorch's matmul has no tf32x3")
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = input_precision if a.dtype == torch.float32 else before
    try:
        yield
    finally:
        settings.fp32_precision = before


def _cublas(
    a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str = "none", input_precision: str = "ieee"
) -> Tensor:
    """cuBLAS, with the bias in the same call; the activation is a kernel of its own."""
    with _cublas_precision(a, input_precision):
        product = a @ b if bias is None else torch.addmm(bias, a, b)
    return ACTIVATIONS[activation](product)


def _cublaslt_epilogue(
    a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str = "none", input_precision: str = "ieee"
) -> Tensor:
    """cuBLASLt with bias and activation in its epilogue; its GELU is the tanh one."""
    if bias is None or activation not in ("relu", "gelu_tanh"):
        raise NotImplementedError("cuBLASLt's epilogue is a bias, and then relu or the tanh GELU")
    with _cublas_precision(a, input_precision):
        return torch._addmm_activation(bias, a, b, use_gelu=activation == "gelu_tanh")


def _check(a: Tensor, b: Tensor, bias: Tensor | None, activation: str) -> None:
    if not (a.dim() == b.dim() == 2 and a.shape[1] == b.shape[0]):
        raise ValueError(f"a {tuple(a.shape)} and b {tuple(b.shape)} are not M K and K N")
    if bias is not None and bias.shape != b.shape[1:]:
        raise ValueError(f"bias {tuple(bias.shape)} is not the row of N = {b.shape[1]} that b asks for")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
    dtypes = {a.dtype, b.dtype} | (set() if bias is None else {bias.dtype})
    if len(dtypes) > 1 or a.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise TypeError(f"dtypes {', '.join(map(str, dtypes))} are not one of bfloat16, float16, float32")


def _alignment(a: Tensor, b: Tensor) -> dict[str, int]:
    """What the kernel may take for granted of sizes and strides: powers of two, of at most 16 bytes (in elements).

    The alignment of a size matters only where it is the length of what lies contiguous.
    """
    most = 16 // a.element_size()
    (M, K), N = a.shape, b.shape[1]
    strides = {"AM": a.stride(0), "AK": a.stride(1), "BK": b.stride(0), "BN": b.stride(1)}
    sizes = {"M": M if a.stride(0) == 1 else 1, "N": N, "K": K if 1 in (a.stride(1), b.stride(0)) else 1}
    return {f"ALIGN_{name}": math.gcd(most, number) for name, number in (strides | sizes).items()}


def _default(M: int, N: int, dtype: torch.dtype, input_precision: str) -> dict[str, int]:
    """A configuration that fits A100 and H100; which is best there is the tuner's to find."""
    if dtype == torch.float32 and input_precision == "ieee":  # no tensor cores: operands fill the registers
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 8, "num_stages": 2}
    if M <= 32:
        return {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 1, "num_warps": 4, "num_stages": 4}
    if dtype == torch.float32:
        return {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}
    if M * N <= 2048 * 2048:  # small tiles, or there are fewer of them than multiprocessors
        return {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 4, "num_stages": 3}
    return {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8, "num_stages": 3}


# The tiles worth trying, BLOCK_M by BLOCK_N, with their warps: 32 to 128 accumulators a lane, or few rows.
TILES = {
    (16, 64): (4,),
    (16, 128): (4,),
    (64, 64): (4,),
    (64, 128): (4, 8),
    (64, 256): (4,),
    (128, 64): (4, 8),
    (128, 128): (4, 8),
    (128, 256): (8,),
    (256, 64): (4,),
    (256, 128): (8,),
}


def _is_worth_trying(*, BLOCK_M: int, BLOCK_N: int, BLOCK_K: int, num_warps: int, num_stages: int, **_: int) -> bool:
    staged = 2 * BLOCK_K * (BLOCK_M + BLOCK_N) * num_stages  # bytes at 16 bit; an A100 has 163 KiB for them
    return num_warps in TILES.get((BLOCK_M, BLOCK_N), ()) and staged <= 160 * 1024


@operator(
    reference=reference,
    dtypes=("bf16", "fp16", "fp32"),
    space=Space(
        BLOCK_M=[16, 64, 128, 256],
        BLOCK_N=[64, 128, 256],
        BLOCK_K=[32, 64],
        GROUP_M=[8],
        num_warps=[4, 8],
        num_stages=[3, 4],
        where=_is_worth_trying,
    ),
    baselines={"cublas": _cublas, "cublaslt-epilogue": _cublaslt_epilogue},
    flops=flops,
    shapes={
        "square-4096": {"M": 4096, "N": 4096, "K": 4096},
        "square-8192": {"M": 8192, "N": 8192, "K": 8192},
        "up-projection": {"M": 8192, "N": 14336, "K": 4096},
        "ragged-1000": {"M": 1000, "N": 1000, "K": 1000},
        "skinny": {"M": 16, "N": 4096, "K": 4096},
    },
)
def matmul(
    a: Float[Tensor, "M K"],
    b: Float[Tensor, "K N"],
    bias: Float[Tensor, "N"] | None = None,
    *,
    activation: Literal["none", "relu", "gelu", "gelu_tanh", "silu"] = "none",
    input_precision: Literal["ieee", "tf32", "tf32x3"] = "ieee",
    BLOCK_M: int | None = None,
    BLOCK_N: int | None = None,
    BLOCK_K: int | None = None,
    GROUP_M: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
) -> Float[Tensor, "M N"]:
    """``activation(a @ b + bias)``, accumulated and activated in float32, rounded once to the dtype of ``a``.

    ``gelu`` is the exact one, by the error function. ``input_precision`` is that of float32 products. Any strides are
    taken; an empty sum (``K == 0``) is 0. A meta-parameter left None is chosen from the sizes and the dtype.

    Raises ValueError for shapes that do not fit each other or an unknown activation, TypeError for a dtype that is not
    taken.
    """
    _check(a, b, bias, activation)
    (M, K), N = a.shape, b.shape[1]
    given = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "BLOCK_K": BLOCK_K, "GROUP_M": GROUP_M}
    given |= {"num_warps": num_warps, "num_stages": num_stages}
    chosen = {name: value for name, value in given.items() if value is not None}
    config = _default(M, N, a.dtype, input_precision) | chosen
    out = torch.empty((M, N), device=a.device, dtype=a.dtype)
    programs = triton.cdiv(M, config["BLOCK_M"]) * triton.cdiv(N, config["BLOCK_N"])
    if programs:
        matmul_kernel[(programs,)](
            a, b, out if bias is None else bias, out,
            *a.stride(), *b.stride(), 0 if bias is None else bias.stride(0), *out.stride(), M, N, K,
            **_alignment(a, b),
            MASK_M=M % config["BLOCK_M"] != 0, MASK_N=N % config["BLOCK_N"] != 0, MASK_K=K % config["BLOCK_K"] != 0,
            WIDE=any(256 * sum(t.stride()) >= 2**31 for t in (a, b, out)),
            HAS_BIAS=bias is not None, ACTIVATION=activation, PRECISION=input_precision, **config,
        )  # fmt: skip
    return out
