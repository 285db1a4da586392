"""PTX instructions that work on registers alone, by name. A register holds bits: an int64, of 32 and fewer unsigned.

PTX ISA 8.7, chapter 9. Approximate functions (``.approx``) are computed as well as fp32 can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.ops.functions import FUNCTIONS
from tilewright.debug.executor.ops.rounding import fused, narrowed, square_root

Sources = Sequence[Tensor]
Work = Callable[[Sources, tuple[str, ...], str], Tensor]
"""From the bits of sources, the modifiers and the type of an instruction to the bits of its result."""

_FLOATS = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}
_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}
_NARROW = {"e4m3x2": torch.float8_e4m3fn, "e5m2x2": torch.float8_e5m2}
_E2M1_MIDDLES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Halfway between the numbers of e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6. Ties go to those with an even code."""
_DIRECTED = frozenset({"rz", "rm", "rp", "rzi", "rs", "sat", "relu"})


class UnknownInstructionError(Exception):
    """An instruction, or a form of one, that is not modelled."""


def width(kind: str) -> int:
    """Bits of a register of a type."""
    if kind in _HALVES:
        return 32
    return 1 if kind == "pred" else 16 if kind.endswith("x2") else int(kind.lstrip("bsuf"))


def cut(values: Tensor, bits: int) -> Tensor:
    """The lowest bits, read without a sign; int64 holds 64 as they are."""
    return values if bits == 64 else values & ((1 << bits) - 1)


def floats(bits: Tensor, kind: str) -> Tensor:
    """Bits as the floats they stand for."""
    size = width(kind)
    return elements.wrapped(bits, size).to(elements.MEMORY[size // 8]).contiguous().view(elements.FLOATS[kind])


def bits_of(values: Tensor, kind: str) -> Tensor:
    size = width(kind)
    return cut(values.contiguous().view(elements.MEMORY[size // 8]).to(torch.int64), size)


def number(bits: Tensor, kind: str) -> Tensor:
    """Bits as the integers they stand for: unsigned ones of 64 bits only as far as int64 holds them."""
    return elements.wrapped(bits, width(kind)) if kind[0] == "s" else cut(bits, width(kind))


def _float_work(function: Callable[..., Tensor]) -> Work:
    """A function of floats, on registers that hold one or two of them."""

    def work(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
        if _DIRECTED.intersection(modifiers):
            raise UnknownInstructionError
        half = _HALVES.get(kind)
        if half is None:
            return bits_of(function(*(floats(s, kind) for s in sources)), kind)
        low = bits_of(function(*(floats(cut(s, 16), half) for s in sources)), half)
        high = bits_of(function(*(floats(s >> 16, half) for s in sources)), half)
        return high << 16 | low

    return work


def _either(on_floats: Callable[..., Tensor], on_integers: Callable[..., Tensor]) -> Work:
    """An instruction that floats and integers have."""
    of_floats = _float_work(on_floats)

    def work(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
        if kind in _FLOATS or kind in _HALVES:
            return of_floats(sources, modifiers, kind)
        if not {"sat", "hi", "cc", "wide"}.isdisjoint(modifiers) or width(kind) not in (8, 16, 32, 64):
            raise UnknownInstructionError
        return cut(on_integers(*(number(s, kind) for s in sources)), width(kind))

    return work


def _product(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    if kind in _FLOATS or kind in _HALVES:
        return _float_work(torch.mul)(sources, modifiers, kind)
    a, b = (number(s, kind) for s in sources)
    if width(kind) == 64 and "lo" not in modifiers:
        raise UnknownInstructionError
    if "wide" in modifiers:
        return cut(a * b, 2 * width(kind))
    return cut(a * b >> width(kind) if "hi" in modifiers else a * b, width(kind))


def _multiply_add(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    if kind in _FLOATS or kind in _HALVES:
        return _float_work(fused)(sources, modifiers, kind)
    if "wide" in modifiers:
        return cut(_product(sources[:2], modifiers, kind) + sources[2], 2 * width(kind))
    return cut(_product(sources[:2], modifiers, kind) + number(sources[2], kind), width(kind))


def _shift_left(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    amount = cut(sources[1], 32)
    size = width(kind)
    return torch.where(amount < size, cut(sources[0] << amount.clamp(max=size - 1), size), 0)


def _shift_right(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    amount, size = cut(sources[1], 32), width(kind)
    if size == 64 and kind[0] != "s":
        raise UnknownInstructionError
    value = number(sources[0], kind)
    return cut(torch.where(amount < size, value >> amount.clamp(max=size - 1), value >> 63), size)


def _permuted(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    """``prmt.b32``: each nibble of the selector picks one of eight bytes, or the sign of it."""
    if modifiers[:-1]:
        raise UnknownInstructionError
    a, b, selector = sources
    eight = a | b << 32
    whole = torch.zeros_like(eight)
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = eight >> (nibble & 7) * 8 & 255
        sign = torch.where(byte > 127, 255, 0)
        whole = whole | torch.where(nibble > 7, sign, byte) << 8 * place
    return whole


def _looked_up(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    """``lop3.b32``: any function of three bits, by its table."""
    a, b, c, table = sources
    whole = torch.zeros_like(a)
    for row in range(8):
        if int(table.reshape(-1)[0]) >> row & 1:
            whole = whole | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return cut(whole, 32)


def _extracted(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    if kind != "u32":
        raise UnknownInstructionError
    value, start, count = sources[0], cut(sources[1], 8), cut(sources[2], 8)
    return value >> start.clamp(max=32) & (1 << count.clamp(max=32)) - 1


def _inserted(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    if kind != "b32":
        raise UnknownInstructionError
    field, into, start, count = sources[0], sources[1], cut(sources[2], 8).clamp(max=32), cut(sources[3], 8)
    mask = cut((1 << count.clamp(max=32)) - 1 << start, 32)
    return into & ~mask | field << start & mask


def _population(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    return sum((sources[0] >> place & 1 for place in range(width(kind))), torch.zeros_like(sources[0]))


def _same(sources: Sources, modifiers: tuple[str, ...], kind: str) -> Tensor:
    return cut(sources[0], width(kind))


def _bitwise(function: Callable[..., Tensor]) -> Work:
    return lambda sources, modifiers, kind: cut(function(*sources), width(kind))


def converted(sources: Sources, modifiers: tuple[str, ...], target: str, source: str) -> Tensor:
    """``cvt`` of one value, or of two into the halves of a register, the first into the upper."""
    if target in _HALVES or target in _NARROW or target == "e2m1x2":
        return _converted_pair(sources, modifiers, target, source)
    if source in _FLOATS and target in _FLOATS:
        if _DIRECTED.intersection(modifiers):
            raise UnknownInstructionError
        value = floats(sources[0], source)
        return bits_of(narrowed(value.double(), elements.FLOATS[target]), target)
    if source in _FLOATS:
        rounded = {"rni": torch.round, "rzi": torch.trunc, "rmi": torch.floor, "rpi": torch.ceil}
        direction = next((m for m in modifiers if m in rounded), "rzi")
        value = rounded[direction](floats(sources[0], source).double()).nan_to_num(0.0)
        size = width(target)
        if size == 64:
            raise UnknownInstructionError
        low, high = (-(1 << size - 1), (1 << size - 1) - 1) if target[0] == "s" else (0, (1 << size) - 1)
        return cut(value.clamp(low, high).to(torch.int64), size)
    value = number(sources[0], source)
    if target not in _FLOATS:
        if "sat" in modifiers:
            raise UnknownInstructionError
        return cut(value, width(target))
    if width(source) == 64:
        raise UnknownInstructionError
    return bits_of(narrowed(value.double(), elements.FLOATS[target]), target)


def _converted_pair(sources: Sources, modifiers: tuple[str, ...], target: str, source: str) -> Tensor:
    if source in _NARROW and target == "f16x2":
        halves = [cut(sources[0] >> 8 * i, 8).to(torch.uint8).view(_NARROW[source]).to(torch.float16) for i in (0, 1)]
        return bits_of(halves[1], "f16") << 16 | bits_of(halves[0], "f16")
    if source != "f32" or len(sources) != 2 or not _DIRECTED.isdisjoint(modifiers):
        raise UnknownInstructionError
    high, low = (floats(s, "f32") for s in sources)
    if target in _HALVES:
        kind = _HALVES[target]
        up, down = (bits_of(v.to(elements.FLOATS[kind]), kind) for v in (high, low))
        return up << 16 | down
    encode = _to_e2m1 if target == "e2m1x2" else _to_float8(_NARROW[target])
    return encode(high) << (4 if target == "e2m1x2" else 8) | encode(low)


def _to_e2m1(values: Tensor) -> Tensor:
    size = values.abs()
    code = torch.zeros(values.shape, dtype=torch.int64)
    for place, middle in enumerate(_E2M1_MIDDLES):
        code += (size > middle) | (size == middle) & (place % 2 == 1)
    return torch.where(values.isnan(), 7, code | values.signbit().long() << 3)


def _to_float8(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    most = torch.finfo(dtype).max

    def encode(values: Tensor) -> Tensor:
        return values.clamp(-most, most).to(dtype).view(torch.uint8).to(torch.int64)

    return encode


def _quotient(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b == 0, -1, a.div(torch.where(b == 0, 1, b), rounding_mode="trunc"))


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b == 0, a, torch.fmod(a, torch.where(b == 0, 1, b)))


COMPARISONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
    "lo": torch.lt, "ls": torch.le, "hi": torch.gt, "hs": torch.ge,
}  # fmt: skip

INSTRUCTIONS: dict[str, Work] = {
    "mov": _same,
    "add": _either(torch.add, torch.add),
    "sub": _either(torch.sub, torch.sub),
    "mul": _product,
    "mad": _multiply_add,
    "fma": _multiply_add,
    "div": _either(torch.div, _quotient),
    "rem": _either(torch.fmod, _remainder),
    "min": _either(FUNCTIONS["fmin"], torch.minimum),
    "max": _either(FUNCTIONS["fmax"], torch.maximum),
    "abs": _either(torch.abs, torch.abs),
    "neg": _either(torch.neg, torch.neg),
    "rcp": _float_work(torch.reciprocal),
    "sqrt": _float_work(square_root),
    "rsqrt": _float_work(torch.rsqrt),
    "ex2": _float_work(torch.exp2),
    "lg2": _float_work(torch.log2),
    "sin": _float_work(torch.sin),
    "cos": _float_work(torch.cos),
    "tanh": _float_work(torch.tanh),
    "and": _bitwise(torch.bitwise_and),
    "or": _bitwise(torch.bitwise_or),
    "xor": _bitwise(torch.bitwise_xor),
    "not": _bitwise(torch.bitwise_not),
    "shl": _shift_left,
    "shr": _shift_right,
    "prmt": _permuted,
    "lop3": _looked_up,
    "bfe": _extracted,
    "bfi": _inserted,
    "popc": _population,
}
WITHOUT_EFFECT = frozenset({"griddepcontrol", "membar", "fence", "bar", "barrier", "nanosleep", "prefetch"})
"""They order what threads and grids do, which takes place in order here."""
