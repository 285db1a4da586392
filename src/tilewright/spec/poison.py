"""Fresh memory that shows: what ``torch.empty`` and its kin hand out is filled with a pattern first.

A float output that nobody wrote is then NaN with a payload no arithmetic makes, not last week's right
answer. The pattern's bits tell later which elements are still untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ALLOCATIONS = frozenset(("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"))

# Bits of the pattern by element size: quiet NaNs with a payload for floats, 0x5a5a… for integers.
_NAN_BITS = {
    torch.float64: 0x7FFD_5A5A_5A5A_5A5A,
    torch.float32: 0x7FDA_5A5A,
    torch.float16: 0x7EDA,
    torch.bfloat16: 0x7FDA,
    torch.float8_e4m3fn: 0x7F,
    torch.float8_e5m2: 0x7F,
    torch.float8_e4m3fnuz: 0x80,
    torch.float8_e5m2fnuz: 0x80,
}
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Poisoned(TorchDispatchMode):
    """While active, uninitialised allocations are poisoned and their storages remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, torch.UntypedStorage] = {}  # kept alive: an address must not be handed out twice
        self._dtypes: dict[int, torch.dtype] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.name.removeprefix("aten::") in ALLOCATIONS and isinstance(result, Tensor):
            poison(result)
            storage = result.untyped_storage()
            self.storages[storage.data_ptr()] = storage
            self._dtypes[storage.data_ptr()] = result.dtype
        elif func._schema.is_mutable:
            self._note_writes(func, args, kwargs or {})
        return result

    def _note_writes(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Memory that the host writes whole is initialised, whatever its bits.

        Written in part it is judged by its pattern, which only floats cannot hold by chance.
        """
        for position, argument in enumerate(func._schema.arguments):
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            if argument.alias_info is None or not argument.alias_info.is_write or not isinstance(value, Tensor):
                continue
            storage = value.untyped_storage()
            dtype = self._dtypes.get(storage.data_ptr())
            if dtype is not None and (
                not dtype.is_floating_point or value.numel() * value.element_size() == storage.nbytes()
            ):
                del self._dtypes[storage.data_ptr()]

    def fresh(self, address: int) -> Tensor | None:
        """The storage at an address as a flat tensor of the dtype it was handed out in; None once initialised."""
        if address not in self._dtypes:
            return None
        return torch.empty(0, dtype=self._dtypes[address]).set_(self.storages[address])

    def allocated(self, tensor: Tensor) -> bool:
        """Whether a tensor lives in memory that was handed out uninitialised."""
        return tensor.untyped_storage().data_ptr() in self.storages


def poison(tensor: Tensor) -> None:
    """Fills a tensor's elements with the pattern of its dtype."""
    if tensor.numel() == 0 or tensor.is_meta:
        return
    if tensor.dtype == torch.bool or tensor.is_complex():
        tensor.fill_(True if tensor.dtype == torch.bool else complex("nan"))
        return
    with torch.no_grad():
        tensor.view(_bits_dtype(tensor)).fill_(_pattern(tensor.dtype, tensor.element_size()))


def untouched(tensor: Tensor) -> Tensor:
    """True where an element still holds the pattern, bit for bit; never for bool, which has no spare value."""
    if tensor.dtype == torch.bool or tensor.is_complex():
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.detach().view(_bits_dtype(tensor)) == _pattern(tensor.dtype, tensor.element_size())


def _bits_dtype(tensor: Tensor) -> torch.dtype:
    return _INTEGERS[tensor.element_size()]


def _pattern(dtype: torch.dtype, size: int) -> int:
    return _NAN_BITS.get(dtype, int.from_bytes(b"\x5a" * size, "little"))
