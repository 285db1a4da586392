"""Short names of dtypes as kernel authors write them, and their torch counterparts."""

from __future__ import annotations

import torch

from tilewright.errors import AnnotationError

TORCH: dict[str, torch.dtype] = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8e4m3": torch.float8_e4m3fn,
    "fp8e5m2": torch.float8_e5m2,
    "fp8e4m3fnuz": torch.float8_e4m3fnuz,
    "fp8e5m2fnuz": torch.float8_e5m2fnuz,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
_SHORT = {dtype: name for name, dtype in TORCH.items()}
_ALIASES = {"fp8": "fp8e4m3", "float": "fp32", "half": "fp16"}

# Unit roundoff: half the distance from 1 to the next value, per significand bit count. (The eps that
# PyTorch gives of float8_e5m2fnuz is half of what its bits make it.)
_SIGNIFICAND_BITS = {
    "fp64": 53,
    "fp32": 24,
    "fp16": 11,
    "bf16": 8,
    "fp8e4m3": 4,
    "fp8e5m2": 3,
    "fp8e4m3fnuz": 4,
    "fp8e5m2fnuz": 3,
}

TF32_ROUNDOFF = 2.0**-10
"""Of an operand of a tf32 product: tensor cores cut fp32 to 10 bits of fraction, they do not round."""


def to_torch(name: str) -> torch.dtype:
    """The torch dtype of a short name (``bf16``), an alias (``fp8``) or torch's own name (``bfloat16``)."""
    text = _ALIASES.get(name, name)
    if text in TORCH:
        return TORCH[text]
    candidate = getattr(torch, text.removeprefix("torch."), None)
    if isinstance(candidate, torch.dtype):
        return candidate
    raise AnnotationError(f"unknown dtype {name!r}", f"write one of {', '.join(TORCH)}")


def short(dtype: torch.dtype) -> str:
    """The short name of a torch dtype; torch's own where we have none."""
    return _SHORT.get(dtype, str(dtype).removeprefix("torch."))


def roundoff(dtype: torch.dtype) -> float:
    """Unit roundoff of a floating dtype (2**-24 for fp32); 0 for integers and bool, which are exact."""
    if not dtype.is_floating_point:
        return 0.0
    bits = _SIGNIFICAND_BITS.get(short(dtype))
    return torch.finfo(dtype).eps / 2 if bits is None else 2.0**-bits
