"""Fresh memory that shows: what ``torch.empty`` and its kin hand out is filled with a pattern first.

A float output that nobody wrote is then NaN with a payload no arithmetic makes, not last week's right
answer. The pattern's bits tell later which elements are still untouched.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tilewright.spec.mode import Mode
from tilewright.spec.virtual import virtual

ALLOCATIONS = frozenset(("empty", "empty_strided", "empty_like", "empty_permuted", "new_empty", "new_empty_strided"))
LARGE = 1 << 27
"""Bytes from which on memory is left as it is: filling it would take it from the system."""
# Operations that write some elements of what they are given, chosen by an index or a mask.
_IN_PART = frozenset(
    ("index_put_", "_index_put_impl_", "index_fill_", "index_copy_", "index_add_", "index_reduce_", "put_")
    + ("scatter_", "scatter_add_", "scatter_reduce_", "masked_fill_", "masked_scatter_")
)

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


class Poisoned(Mode):
    """While active, uninitialised allocations are poisoned and their storages remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, torch.UntypedStorage] = {}  # kept alive: an address must not be handed out twice
        self._dtypes: dict[int, torch.dtype] = {}  # of storages that are not known to be initialised as a whole
        self._written: dict[int, Tensor] = {}  # bool by element: what the host wrote of a storage
        self._blank: set[int] = set()  # too large to be filled, and untouched by the host

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        name = func._schema.name.removeprefix("aten::")
        result = _allocated(func, args, kwargs) if name in ALLOCATIONS else func(*args, **kwargs)
        if name in ALLOCATIONS and isinstance(result, Tensor):
            self._remember(result)
        elif func._schema.is_mutable:
            self._note_writes(name in _IN_PART, func, args, kwargs)
        return result

    def _remember(self, tensor: Tensor) -> None:
        if tensor.is_meta or tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        self.storages[address] = storage
        if storage.nbytes() >= LARGE:
            self._blank.add(address)
            return
        poison(tensor)
        self._dtypes[address] = tensor.dtype

    def _note_writes(self, in_part: bool, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        for position, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, Tensor) and not tensor.is_meta and tensor.layout == torch.strided:
                    self._note_write(tensor, in_part)

    def _note_write(self, tensor: Tensor, in_part: bool) -> None:
        """The host wrote the elements of a view, or some of them.

        Of some the pattern tells which, and only elements of 8 bits hold it by chance.
        """
        address = tensor.untyped_storage().data_ptr()
        self._blank.discard(address)
        dtype = self._dtypes.get(address)
        if dtype is None or (in_part and tensor.element_size() > 1):
            return
        own = tensor.element_size()
        elements = tensor.untyped_storage().nbytes() // own
        if own != dtype.itemsize or (tensor.numel() >= elements and tensor.is_contiguous()):
            del self._dtypes[address]  # seen as another type it is taken to be written as a whole
            self._written.pop(address, None)
            return
        written = self._written.setdefault(address, torch.zeros(elements, dtype=torch.bool))
        written.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)

    def missing(self, address: int) -> Tensor | None:
        """True by element of a storage where the host wrote nothing, also not through NumPy; None if nowhere.

        What kernels wrote counts as written only as far as it changed the pattern.
        """
        if address not in self._dtypes:
            return None
        flat = torch.empty(0, dtype=self._dtypes[address]).set_(self.storages[address])
        left = untouched(flat)
        return left & ~self._written[address] if address in self._written else left

    def is_blank(self, address: int) -> bool:
        """Whether a storage too large for the pattern was handed out uninitialised, and the host wrote nothing."""
        return address in self._blank

    def allocated(self, tensor: Tensor) -> bool:
        """Whether a tensor lives in memory that was handed out uninitialised."""
        return tensor.untyped_storage().data_ptr() in self.storages


class Zeroed(Poisoned):
    """Uninitialised allocations hold zeros instead; what is remembered of each is the stack it was made on."""

    def __init__(self) -> None:
        super().__init__()
        self.stacks: list[traceback.StackSummary] = []

    def _remember(self, tensor: Tensor) -> None:
        self.stacks.append(traceback.extract_stack())
        if not tensor.is_meta and tensor.layout == torch.strided and tensor.untyped_storage().nbytes() < LARGE:
            tensor.zero_()


def _allocated(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Fresh memory; where the system refuses that much, memory that is only reserved."""
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        like = func(*args, **{**kwargs, "device": "meta"})
        return virtual([like.untyped_storage().nbytes() // like.element_size()], like.dtype).as_strided(
            like.size(), like.stride()
        )


def poison(tensor: Tensor) -> None:
    """Fills a tensor's elements with the pattern of its dtype."""
    if tensor.numel() == 0 or tensor.is_meta:
        return
    if tensor.is_complex():
        tensor.fill_(complex("nan"))
        return
    with torch.no_grad():
        tensor.view(_bits_dtype(tensor)).fill_(_pattern(tensor.dtype, tensor.element_size()))


def untouched(tensor: Tensor) -> Tensor:
    """True where an element still holds the pattern, bit for bit; never for complex numbers.

    A bool's is a byte that no bool has.
    """
    if tensor.is_complex():
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.detach().view(_bits_dtype(tensor)) == _pattern(tensor.dtype, tensor.element_size())


def _bits_dtype(tensor: Tensor) -> torch.dtype:
    return _INTEGERS[tensor.element_size()]


def _pattern(dtype: torch.dtype, size: int) -> int:
    return _NAN_BITS.get(dtype, int.from_bytes(b"\x5a" * size, "little"))
