"""The hash of what a configuration launches: while it is the same, nothing needs to be measured again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch

from tilewright.launch.compile import Lowered
from tilewright.launch.launch import Launch, describe_value


def code_of(launches: Sequence[Launch], lowered: Sequence[Lowered]) -> str:
    """Sixteen hex digits for all that compiler and chip get of a configuration.

    TTIR, options, chip and Triton, the grids, and what kernels are given: sizes, strides and scalars.
    """
    words = [
        [job.key, launch.grid, {name: _argument(value) for name, value in launch.arguments.items()}]
        for launch, job in zip(launches, lowered, strict=True)
    ]
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]


def _argument(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return [describe_value(value), value.stride()]
    if isinstance(value, (tuple, list)):
        return [_argument(item) for item in value]
    if hasattr(value, "block_shape") and hasattr(value, "base"):  # a tensor descriptor
        return [
            _argument(value.base),
            *(list(map(int, part)) for part in (value.shape, value.strides, value.block_shape)),
        ]
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__
