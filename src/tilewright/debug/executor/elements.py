"""Element types of TTIR: how their values are kept in tensors.

Integers of every width are kept as int64, sign-extended, so that one set of operations serves all and a
result's true value is at hand before it is cut to its width. i1 is bool. fp16, bf16, fp32 and fp64 are kept
as what they are. fp8 is kept as its bits in uint8: nothing computes in it. Pointers are byte addresses.
"""

from __future__ import annotations

import torch
from torch import Tensor

FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
FLOAT8 = {
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "f8E4M3FNUZ": torch.float8_e4m3fnuz,
    "f8E5M2FNUZ": torch.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": None,
}
MEMORY = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer types that bits of a size are read and written as."""


def is_float(element: str) -> bool:
    return element in FLOATS


def is_integer(element: str) -> bool:
    return element == "index" or (element[0] == "i" and element[1:].isdigit())


def bits(element: str) -> int:
    """Width of an element in bits; 64 for pointers and ``index``."""
    if element.startswith("ptr<") or element == "index":
        return 64
    if element.startswith("f8"):
        return 8
    return int(element.lstrip("bfiu"))


def size(element: str) -> int:
    """Bytes an element takes in memory."""
    return max(bits(element) // 8, 1)


def kept_as(element: str) -> torch.dtype:
    """dtype of the tensor that holds values of an element type."""
    if element in FLOATS:
        return FLOATS[element]
    if element == "i1":
        return torch.bool
    return torch.uint8 if element in FLOAT8 else torch.int64


def integer_range(width: int) -> tuple[int, int]:
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1)


def wrapped(values: Tensor, width: int) -> Tensor:
    """int64 values cut to a width, sign-extended."""
    if width == 64:
        return values
    if width == 1:
        return (values & 1).bool()
    return values.to(MEMORY[width // 8] if width > 8 else torch.int8).to(torch.int64)


def unsigned(values: Tensor, width: int) -> Tensor:
    """The unsigned reading of sign-extended values; of 64-bit ones only as far as int64 holds them."""
    return values if width == 64 else values & ((1 << width) - 1)


def from_memory(raw: Tensor, element: str) -> Tensor:
    """Values of integers read as :data:`MEMORY` types, as they are kept."""
    if element in FLOATS:
        return raw.view(FLOATS[element])
    if element == "i1":
        return raw != 0
    if element in FLOAT8:
        return raw
    if raw.dtype == torch.uint8:
        raw = raw.view(torch.int8)
    return raw.to(torch.int64)


def to_memory(values: Tensor, element: str) -> Tensor:
    """Bits of kept values, as :data:`MEMORY` types."""
    storage = MEMORY[size(element)]
    if element in FLOATS:
        return values.contiguous().view(storage)
    if element in FLOAT8:
        return values
    if storage == torch.uint8 and values.dtype != torch.bool:
        return values.to(torch.int8).view(torch.uint8)
    return values.to(storage)
