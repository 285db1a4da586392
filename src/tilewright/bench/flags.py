"""The process-wide settings on which the precision and the speed of PyTorch's own operations depend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_matmul: Any = torch.backends.cuda.matmul
_cudnn: Any = torch.backends.cudnn

Flags = Mapping[str, Any]


def _legacy_precision() -> str | None:
    """None where the newer setting was used: asked for the older one, PyTorch raises then."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _set_legacy_precision(value: str | None) -> None:
    if value is not None:
        torch.set_float32_matmul_precision(value)


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


_SETTINGS: Mapping[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "float32 matmul precision": (_legacy_precision, _set_legacy_precision),
    "float32 products": _attribute(_matmul, "fp32_precision"),
    "float32 convolutions": _attribute(_cudnn.conv, "fp32_precision"),
    "reduced-precision accumulation in fp16": _attribute(_matmul, "allow_fp16_reduced_precision_reduction"),
    "reduced-precision accumulation in bf16": _attribute(_matmul, "allow_bf16_reduced_precision_reduction"),
    "deterministic algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "threads": (torch.get_num_threads, torch.set_num_threads),
}


def read() -> dict[str, Any]:
    return {name: get() for name, (get, _) in _SETTINGS.items()}


def restore(wanted: Flags) -> str | None:
    """Sets back what differs; the name of one that did."""
    found = None
    for name, (get, put) in _SETTINGS.items():
        if get() != wanted[name]:
            put(wanted[name])
            found = found or name
    return found


def precision(flags: Flags) -> str:
    """What of them says how precise products are, in words."""
    products = flags["float32 products"]
    words = [f"float32 products in {'tf32' if products == 'tf32' else 'ieee'}"]
    return ", ".join(words + [name for name in flags if name.startswith("reduced") and flags[name]])
