"""Values as Python text: plain ones, and the elements of tensors, bit for bit."""

from __future__ import annotations

import base64
import itertools
import math
import textwrap
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tilewright.errors import UsageError

MOST_WRITTEN = 2048
"""Elements of a tensor that are written one by one; of more their bytes are, compressed."""
MOST_TEXT = 4 << 20
"""Characters of one tensor from which on a script would be of no use."""
_HUGE = 1 << 26  # bytes from which on only what is not zero is written
_MOST_RUNS = 256
_DIGITS = {torch.float32: 9, torch.float16: 5, torch.bfloat16: 4}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WIDTH = 108


def literal(value: Any) -> str:
    """A plain value as Python text.

    Raises:
        UsageError: it is none.
    """
    if value is None or isinstance(value, (bool, str, bytes)) or type(value) in (int, range, slice):
        return repr(value)
    if isinstance(value, (float, np.floating)):
        return _float(float(value), None)
    if isinstance(value, np.integer):
        return repr(int(value))
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if type(value) in (tuple, list):
        inner = ", ".join(map(literal, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    raise UsageError(f"an argument is a {type(value).__name__}, which a script cannot hold", "give plain values")


def elements(tensor: Tensor) -> str:
    """An expression for a contiguous tensor on the CPU that holds these elements, bit for bit.

    Beside torch it uses ``repro_packed`` and ``repro_sparse`` of the harness.

    Raises:
        UsageError: they are too many.
    """
    if tensor.numel() * tensor.element_size() >= _HUGE:
        return _sparse(tensor)
    for text in _readable(tensor):
        if _gives(text, tensor):
            return text
    packed = base64.b85encode(zlib.compress(_bits(tensor).contiguous().numpy().tobytes(), 9)).decode()
    _refuse_beyond(len(packed))
    lines = "\n".join(f'    "{packed[i : i + _WIDTH]}"' for i in range(0, len(packed), _WIDTH))
    return f"repro_packed(\n{lines},\n    {tensor.dtype}, {literal(tuple(tensor.shape))},\n)"


def _readable(tensor: Tensor) -> Iterator[str]:
    """Expressions that a reader can read, some of which may not give the same bits."""
    shape = literal(tuple(tensor.shape))
    bits = _bits(tensor).reshape(-1)
    if bits.numel() > 4 and bool((bits == bits[0]).all()):
        yield f"torch.full({shape}, {_number(tensor.reshape(-1)[0])}, dtype={tensor.dtype})"
    if tensor.numel() <= MOST_WRITTEN:
        yield f"torch.tensor({_nested(tensor)}, dtype={tensor.dtype})" + _reshaped(tensor)
        yield f"torch.tensor({_nested(_bits(tensor))}, dtype={_bits(tensor).dtype}){_reshaped(tensor)}.view({tensor.dtype})"


def _reshaped(tensor: Tensor) -> str:
    """Nothing, but for empty tensors: a list of no elements has no shape."""
    return "" if tensor.numel() else f".reshape({literal(tuple(tensor.shape))})"


def _gives(text: str, tensor: Tensor) -> bool:
    try:
        made = eval(text, {"torch": torch})
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False  # torch makes no tensors of some dtypes from numbers
    same = made.dtype == tensor.dtype and made.shape == tensor.shape
    return same and torch.equal(_bits(made), _bits(tensor))


def _sparse(tensor: Tensor) -> str:
    """What of a tensor too large to be written is not zero."""
    flat = tensor.reshape(-1).view(_BITS[tensor.element_size()])
    chunks = range(0, flat.numel(), _HUGE)
    places = torch.cat([flat[i : i + _HUGE].nonzero().reshape(-1) + i for i in chunks]).tolist()
    runs = [[place for _, place in run] for _, run in itertools.groupby(enumerate(places), lambda p: p[1] - p[0])]
    if len(runs) > _MOST_RUNS:
        raise UsageError(f"a tensor of {flat.numel()} elements is too large for a script", "take a smaller case")
    written = [f"({r[0]}, {elements(tensor.reshape(-1)[r[0] : r[-1] + 1])})" for r in runs]
    return f"repro_sparse({literal(tuple(tensor.shape))}, {tensor.dtype}, [{', '.join(written)}])"


def _bits(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return torch.view_as_real(tensor).view(torch.int32 if tensor.element_size() == 8 else torch.int64)
    return tensor.reshape(tensor.shape or (1,)).view(_BITS[tensor.element_size()]).reshape(tensor.shape)


def _nested(tensor: Tensor) -> str:
    """Nested lists of a tensor's elements, with lines of some length."""
    if tensor.dim() == 0:
        return _number(tensor)
    if tensor.dim() > 1:
        inner = [textwrap.indent(_nested(part), "    ") for part in tensor]
        text = "[" + ", ".join(map(str.strip, inner)) + "]"
        return (
            text if len(text) <= _WIDTH and "\n" not in text else "[\n" + ",\n".join(inner) + ",\n]" if inner else "[]"
        )
    text = ", ".join(map(_number, tensor))
    if len(text) <= _WIDTH:
        return f"[{text}]"
    return "[\n" + textwrap.indent(textwrap.fill(text, _WIDTH, break_long_words=False), "    ") + ",\n]"


def _number(element: Tensor) -> str:
    value = element.item() if element.element_size() > 1 or not element.is_floating_point() else float(element.float())
    return _float(value, _DIGITS.get(element.dtype)) if isinstance(value, float) else repr(value)


def _float(value: float, digits: int | None) -> str:
    """The shortest text of a float that so many digits tell apart from its neighbours; None for all."""
    if not math.isfinite(value):
        sign = "-" if value == -math.inf else ""
        return f"{sign}torch.{'nan' if math.isnan(value) else 'inf'}"
    text = repr(value) if digits is None else f"{value:.{digits}g}"
    return text if any(c in text for c in ".e") else text + ".0"


def _refuse_beyond(size: int) -> None:
    if size > MOST_TEXT:
        raise UsageError(f"a tensor takes {size >> 20} MiB of text, too much for a script", "take a smaller case")
