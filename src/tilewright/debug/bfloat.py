"""bfloat16 in the stock interpreter, mended.

The interpreter keeps bfloat16 as the 16-bit integers of its bits, and computes on those: a product, a dot
or an exponential of bfloat16 tiles is that of unrelated whole numbers, and a cast from float32 truncates
(NumPy has no bfloat16; upstream documents the limit). Here each such operation runs in float32 and is
rounded to the nearest even bfloat16, as hardware does. A sum or scan of a whole tile is rounded once, at its end; where the kernel's own combine
function reduces one, neighbours are combined in pairs, as hardware does: one after the other, as the interpreter
does, 16-bit floats would be rounded far more often.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock
from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps, TensorHandle

_COMPUTING = (
    "binary_op",
    "ternary_op",
    "unary_op",
    "create_fma",
    "create_dot",
    "create_erf",
    "create_rsqrt",
    "create_fabs",
)
_CASTING = ("cast_impl", "create_fp_to_fp")
# What reductions and scans do without calling the kernel's combine function, which computes as any code of a kernel.
_REDUCING = ((ReduceOps, "sum"), (ReduceOps, "min_max"), (ScanOps, "cumsum"), (ScanOps, "cumprod"))


@contextlib.contextmanager
def mended() -> Iterator[None]:
    """Within it, the interpreter computes bfloat16 as numbers."""
    mends = [(InterpreterBuilder, name, _in_float32) for name in _COMPUTING]
    mends += [(InterpreterBuilder, name, _through_float32) for name in _CASTING]
    mends += [
        (ReduceOps, "generic_reduce", _in_pairs),
        (InterpreterBuilder, "create_print", _widening),
        *((c, name, _reduced_in_float32) for c, name in _REDUCING),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, mend in mends:
            original = getattr(owner, name)
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, mend(original))
        if not hasattr(InterpreterBuilder, "get_bf16"):  # Triton 3.6 knows no bfloat16 constants
            InterpreterBuilder.get_bf16 = _constant
            stack.callback(delattr, InterpreterBuilder, "get_bf16")
        stack.callback(setattr, stock, "_patch_lang_tensor", stock._patch_lang_tensor)
        stock._patch_lang_tensor = _shown(stock._patch_lang_tensor)
        yield


def widen(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: np.ndarray) -> np.ndarray:
    """float32 as bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def add_in_memory(raw: Any, addresses: np.ndarray, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """An atomic addition of bfloat16, lane after lane; what each lane found there. ``raw`` loads and stores."""
    mask = np.asarray(mask, dtype=bool)
    values = np.ascontiguousarray(np.broadcast_to(values, addresses.shape))
    found = np.zeros(addresses.shape, np.uint16)
    waiting = mask.copy()
    while waiting.any():
        # Of lanes that meet at an address one comes first; the others see what it left.
        lanes = np.flatnonzero(waiting)
        first = lanes[np.unique(addresses.reshape(-1)[lanes], return_index=True)[1]]
        turn = np.zeros(addresses.shape, dtype=bool)
        turn.reshape(-1)[first] = True
        old = raw.load(addresses, turn, found, np.dtype(np.uint16))
        raw.store(addresses, narrow(widen(old) + widen(values)), turn)
        found[turn] = old[turn]
        waiting &= ~turn
    return found


def readable(handle: TensorHandle) -> np.ndarray:
    """What a tile holds as numbers, not as bits."""
    values: np.ndarray = widen(handle.data) if _is_bf16(handle) else handle.data
    return values


def _constant(self: Any, value: float) -> TensorHandle:
    return TensorHandle(narrow(np.array([value], dtype=np.float32)), tl.bfloat16)


def _is_bf16(value: Any) -> bool:
    return isinstance(value, TensorHandle) and value.dtype.scalar == tl.bfloat16


def _in_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    def compute(self: Any, *operands: Any) -> Any:
        if not any(map(_is_bf16, operands)):
            return original(self, *operands)
        result = original(self, *(_widened(o) if _is_bf16(o) else o for o in operands))
        # A comparison gives bool, a dot its float32 accumulator; what stayed float32 by widening goes back.
        last = [o for o in operands if isinstance(o, TensorHandle)][-1]
        if result.data.dtype == np.float32 and _is_bf16(last):
            return TensorHandle(narrow(result.data), tl.bfloat16)
        return result

    return compute


def _through_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast(self: Any, source: Any, to: Any, *rounding: Any) -> Any:
        target = to.scalar
        if _is_bf16(source):
            wide = _widened(source)
            return wide if target == tl.float32 else original(self, wide, to, *rounding)
        if target == tl.bfloat16:
            values = (
                source.data if source.dtype.scalar == tl.float32 else original(self, source, tl.float32, *rounding).data
            )
            return TensorHandle(narrow(values), tl.bfloat16)
        return original(self, source, to, *rounding)

    return cast


def _reduced_in_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(self: Any, given: Any, *operations: Any, **named: Any) -> Any:
        tile = given[0] if isinstance(given, tuple) else given
        if not _is_bf16(tile.handle):
            return original(self, given, *operations, **named)
        kind = tile.type.with_element_ty(tl.float32) if tile.type.is_block() else tl.float32
        result = original(self, tl.core.tensor(_widened(tile.handle), kind), *operations, **named)
        if isinstance(result, tl.core.tensor):
            return _narrowed(result)
        return type(result)(map(_narrowed, result))

    return reduce


def _in_pairs(original: Callable[..., Any]) -> Callable[..., Any]:
    def generic_reduce(self: Any, given: tuple[Any, ...]) -> Any:
        if not any(t.dtype.is_floating() and t.dtype.primitive_bitwidth == 16 for t in given):
            return original(self, given)
        tiles, axis = self.unravel(given, self.axis)
        handles = [tile.handle for tile in tiles]
        while handles[0].data.shape[axis] > 1:
            halves = [_tensor(h, slice(start, None, 2), axis) for start in (0, 1) for h in handles]
            combined = self.combine_fn.fn(*halves)
            parts = combined if isinstance(combined, tuple) else (combined,)
            if [p.dtype for p in parts] != [t.dtype for t in tiles]:
                return original(self, given)  # the interpreter's way with what hardware refuses
            handles = [part.handle for part in parts]
        return [self.to_tensor(_shaped(h.data, axis, self), t.dtype) for h, t in zip(handles, tiles, strict=True)]

    return generic_reduce


def _tensor(handle: TensorHandle, lanes: slice, axis: int) -> Any:
    data = handle.data[(slice(None),) * axis + (lanes,)]
    return tl.core.tensor(TensorHandle(data, handle.dtype), tl.block_type(handle.dtype, list(data.shape)))


def _shaped(data: np.ndarray, axis: int, reduction: Any) -> Any:
    """A reduced tile, whose axis has one element left, in the shape that the language gives it."""
    if reduction.keep_dims:
        return data
    reduced = np.squeeze(data, axis)
    return reduced.item() if reduced.ndim == 0 else reduced


def _narrowed(result: Any) -> Any:
    """A float32 result as bfloat16; indices as they are."""
    if result.dtype != tl.float32:
        return result
    kind = result.type.with_element_ty(tl.bfloat16) if result.type.is_block() else tl.bfloat16
    return tl.core.tensor(TensorHandle(narrow(result.handle.data), tl.bfloat16), kind)


def _widening(original: Callable[..., Any]) -> Callable[..., Any]:
    def printed(self: Any, prefix: Any, base: Any, values: Any, *signs: Any) -> Any:
        return original(self, prefix, base, [_widened(v) if _is_bf16(v) else v for v in values], *signs)

    return printed


def _shown(original: Callable[..., Any]) -> Callable[..., Any]:
    def patch(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__str__", lambda self: str(readable(self.handle)))

    return patch


def _widened(handle: TensorHandle) -> TensorHandle:
    return TensorHandle(widen(handle.data), tl.float32)
