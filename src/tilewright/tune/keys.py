"""Hashes of what a Trial holds for: while an operator says and launches the same, nothing needs to be measured again."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Sequence
from typing import Any

import torch

from tilewright.launch.compile import Lowered
from tilewright.launch.launch import Launch, describe_value
from tilewright.runtime.source import source_hash
from tilewright.spec.operator import Operator


def source_of(operator: Operator) -> str:
    """A hash of what an operator says is right and how it launches: launcher, kernels, reference, values; not its space."""
    parts = [operator.run, operator.reference, operator.inputs, operator.grid]
    for name, value in sorted(operator.values.items()):
        parts += [name, _value_class(value)]
    return source_hash(*parts, (operator.mutates, operator.grad, operator.dtypes))


def _value_class(value: Any) -> Any:
    """What tells value classes apart: the text of a function, the fields of a dataclass, choices as they are."""
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return value
    if callable(value) and not dataclasses.is_dataclass(value):
        return type(value).__call__
    return repr(value)


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
