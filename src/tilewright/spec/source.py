"""The hash of what an operator says: while it is the same, what was measured of it holds."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

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
