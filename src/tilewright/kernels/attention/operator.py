"""The attention operator: launcher, golden reference, space and baselines."""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
import triton
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tilewright.kernels.attention.kernel import attention_kernel
from tilewright.spec.operator import operator
from tilewright.spec.space import Space

LOG2_E = 1.4426950408889634


def reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    input_precision: str = "ieee",
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention by its definition, in the dtype of its inputs; ``(out, lse)`` if ``return_lse``."""
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    scores = q @ k.repeat_interleave(group, dim=1).transpose(2, 3) * scale
    last = torch.arange(queries, device=q.device)[:, None] + (keys - queries)
    if causal:
        scores = scores.masked_fill(torch.arange(keys, device=q.device) > last, -torch.inf)
    # A row that sees no key has no softmax; it is filled before and after, so that its gradient is 0 and not NaN.
    blind = (last < 0) if causal else torch.zeros_like(last, dtype=torch.bool)
    weights = torch.softmax(scores.masked_fill(blind, 0.0), dim=3).masked_fill(blind, 0.0)
    out = weights @ v.repeat_interleave(group, dim=1)
    if not return_lse:
        return out
    return out, torch.logsumexp(scores, dim=3).to(torch.promote_types(q.dtype, torch.float32))


def flops(*, B: int, H: int, M: int, N: int, D: int, causal: bool = False, **_: Any) -> int:
    """Two products of ``2 * D`` operations for every pair of a query and a key that it sees."""
    rows = min(M, N)  # of a causal head: the rows that see N, N - 1, … keys; any others see none
    pairs = rows * (2 * N - rows + 1) // 2 if causal else M * N
    return 4 * B * H * D * pairs


def _sdpa(backend: SDPBackend) -> Callable[..., Tensor]:
    """PyTorch's attention, pinned to one backend: left alone it would pick a slower one on Hopper."""

    def baseline(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: bool = False,
        scale: float | None = None,
        return_lse: bool = False,
        input_precision: str = "ieee",
    ) -> Tensor:
        if return_lse:
            raise NotImplementedError("scaled_dot_product_attention returns no log-sum-exp")
        if causal and q.shape[2] not in (1, k.shape[2]):
            raise NotImplementedError("scaled_dot_product_attention aligns its causal mask to the top left")
        causal = causal and q.shape[2] > 1  # one query, aligned to the bottom right, sees all keys
        grouped = q.shape[1] != k.shape[1]
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)

    return baseline


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    if not (q.dim() == k.dim() == 4 and k.shape == v.shape and (q.shape[0], q.shape[3]) == (k.shape[0], k.shape[3])):
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} are not B H M D and 2 × B G N D")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"the {q.shape[1]} heads of q are no multiple of the {k.shape[1]} heads of k and v")
    if not 1 <= q.shape[3] <= 256:
        raise ValueError(f"head dim {q.shape[3]} is not within 1 … 256")
    if not (q.dtype == k.dtype == v.dtype and q.dtype in (torch.bfloat16, torch.float16, torch.float32)):
        raise TypeError(f"dtypes {q.dtype}, {k.dtype}, {v.dtype} are not one of bfloat16, float16, float32")


def _alignment(*tensors: Tensor) -> int:
    """The largest power of two, at most 16 bytes, that divides all strides but the innermost (in elements)."""
    outer = [t.stride(dim) for t in tensors for dim in range(3) if t.shape[dim] > 1]
    return math.gcd(16 // tensors[0].element_size(), *outer)


def _is_wide(*tensors: Tensor) -> bool:
    """Whether an offset inside a tile, of at most 256 rows and 256 columns, may pass 31 bits."""
    return any(256 * (t.stride(2) + t.stride(3)) >= 2**31 for t in tensors)


def _default(M: int, D: int, dtype: torch.dtype, input_precision: str) -> dict[str, int]:
    """A configuration that fits A100 and H100; which is best there is the tuner's to find."""
    if dtype == torch.float32 and input_precision == "ieee":  # no tensor cores: operands fill the registers
        return {"BLOCK_M": 32 if D <= 64 else 16, "BLOCK_N": 32, "num_warps": 8, "num_stages": 1}
    if M <= 16:
        return {"BLOCK_M": 16, "BLOCK_N": 64 if D <= 128 else 32, "num_warps": 4, "num_stages": 2}
    if D > 128:
        return {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 8, "num_stages": 2}
    if dtype == torch.float32:
        return {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2}
    return {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}


# The key tiles worth trying, by BLOCK_M and num_warps: 8 warps want a tall tile, a long head (64 rows), or the few rows
# of a decoding step and of float32; a tall tile on 4 warps spills once its keys are many.
KEY_TILES = {
    (16, 4): (32, 64),
    (16, 8): (32, 64),
    (64, 4): (32, 64, 128),
    (64, 8): (32,),
    (128, 4): (32, 64),
    (128, 8): (64, 128),
}


def _is_worth_trying(*, BLOCK_M: int, BLOCK_N: int, num_warps: int, **_: int) -> bool:
    return BLOCK_N in KEY_TILES[BLOCK_M, num_warps]


@operator(
    reference=reference,
    dtypes=("bf16", "fp16", "fp32"),
    where="G > 0 and H % G == 0 and 1 <= D <= 256",
    space=Space(
        BLOCK_M=[16, 64, 128],
        BLOCK_N=[32, 64, 128],
        num_warps=[4, 8],
        num_stages=[2, 3],
        where=_is_worth_trying,
    ),
    baselines={
        "sdpa-cudnn": _sdpa(SDPBackend.CUDNN_ATTENTION),
        "sdpa-flash": _sdpa(SDPBackend.FLASH_ATTENTION),
        "sdpa-efficient": _sdpa(SDPBackend.EFFICIENT_ATTENTION),  # the one that takes float32
    },
    flops=flops,
    shapes={
        "prefill-2k": {"B": 4, "H": 16, "G": 16, "M": 2048, "N": 2048, "D": 128},
        "prefill-8k-grouped": {"B": 1, "H": 64, "G": 8, "M": 8192, "N": 8192, "D": 128},
        "prefill-4k-d64": {"B": 2, "H": 32, "G": 32, "M": 4096, "N": 4096, "D": 64},
        "ragged-1000": {"B": 4, "H": 16, "G": 16, "M": 1000, "N": 1000, "D": 128},
        "decode-4k": {"B": 64, "H": 32, "G": 8, "M": 1, "N": 4096, "D": 128},
    },
)
def attention(
    q: Float[Tensor, "B H M D"],
    k: Float[Tensor, "B G N D"],
    v: Float[Tensor, "B G N D"],
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    input_precision: Literal["ieee", "tf32", "tf32x3"] = "ieee",
    BLOCK_M: int | None = None,
    BLOCK_N: int | None = None,
    num_warps: int | None = None,
    num_stages: int | None = None,
) -> Float[Tensor, "B H M D"]:
    """Softmax of ``q @ k.T * scale`` times ``v``, by head; ``scale`` is ``1 / sqrt(D)`` unless given.

    ``H / G`` query heads share one head of ``k`` and ``v``. A ``causal`` mask is aligned to the bottom right: query
    ``i`` sees the keys ``j <= i + N - M``. A query that sees no key gives 0. With ``return_lse`` the result is
    ``(out, lse)``, ``lse`` being the natural logarithm of the sum of exponentials, float32, ``B H M``, and ``-inf``
    where no key is seen. ``input_precision`` is that of float32 products. Any strides are taken. A meta-parameter left
    None is chosen from the sizes and the dtype.

    Raises ValueError for shapes that do not fit each other, TypeError for a dtype that is not taken.
    """
    _check(q, k, v)
    B, H, M, D = q.shape
    scale = 1 / math.sqrt(D) if scale is None else scale
    out = torch.empty_like(q)
    lse = torch.empty((B, H, M) if return_lse else 0, device=q.device, dtype=torch.float32)
    given = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "num_warps": num_warps, "num_stages": num_stages}
    chosen = {name: value for name, value in given.items() if value is not None}
    config = _default(M, D, q.dtype, input_precision) | chosen
    programs = triton.cdiv(M, config["BLOCK_M"]) * B * H
    if programs:
        attention_kernel[(programs,)](
            q, k, v, out, lse, *q.stride(), *k.stride(), *v.stride(), *out.stride(),
            H, H // k.shape[1], M, k.shape[2],
            max(abs(scale) * LOG2_E, 1e-30),  # never 0: a masked score is -inf, and -inf * 0 is NaN
            D=D, BLOCK_D=max(16, triton.next_power_of_2(D)),
            ALIGN=_alignment(q, k, v, out), WIDE=_is_wide(q, k, v, out),
            CAUSAL=causal, NEGATE=scale < 0, HAS_LSE=return_lse, PRECISION=input_precision, **config,
        )  # fmt: skip
    return (out, lse) if return_lse else out  # type: ignore[return-value]  # the annotation is of the plain call
