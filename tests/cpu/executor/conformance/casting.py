"""Conversions between all pairs of dtypes, and bitcasts."""

import numpy as np
import torch
import triton
import triton.language as tl

from .samples import DTYPES, FLOAT8, FLOATS, INTEGERS, SAME_SIZE

TRITON = {
    **{name: getattr(tl, name) for name in INTEGERS},
    "fp16": tl.float16,
    "bf16": tl.bfloat16,
    "fp32": tl.float32,
    "fp64": tl.float64,
    "fp8e5": tl.float8e5,
    "fp8e4nv": tl.float8e4nv,
    "bool": tl.int1,
}


@triton.jit
def cast_kernel(x_ptr, out_ptr, TO: tl.constexpr, ROUNDING: tl.constexpr, BITCAST: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(TO, fp_downcast_rounding=ROUNDING, bitcast=BITCAST))


def pairs() -> list[tuple[str, str]]:
    """All conversions that the compiler has: fp8 is no number to integers and fp64, nor to the other fp8."""
    return [(a, b) for a in DTYPES for b in DTYPES if a != b and has(a, b)]


def has(a: str, b: str) -> bool:
    if a not in FLOAT8 and b not in FLOAT8:
        return True
    return all(name in FLOAT8 or name in ("fp16", "bf16", "fp32") for name in (a, b)) and not {a, b} <= set(FLOAT8)


def bitcasts() -> list[tuple[str, str]]:
    return [
        (a, b)
        for a, x in DTYPES.items()
        for b, y in DTYPES.items()
        if a != b and x.itemsize == y.itemsize and "bool" not in (a, b)
    ]


def bits_as(x: torch.Tensor, to: str) -> torch.Tensor:
    return x.view(DTYPES[to])


def cast(x: torch.Tensor, source: str, to: str) -> torch.Tensor:
    """What PTX's conversions give: rounded once to nearest even, saturated for integers and fp8."""
    if (source, to) == ("fp8e5", "bf16"):
        return shifted(x)
    if source in FLOAT8:
        return x.float().to(DTYPES[to])
    if to == "bool":
        return (x.double() if x.dtype.is_floating_point else torch.from_numpy(x.numpy().astype("float64"))) != 0
    if source == "bool":
        return x.to(torch.uint8).float().to(DTYPES[to]) if to in FLOATS else torch.from_numpy(x.numpy().astype(to))
    if to in INTEGERS:
        return to_integer(x, source, to) if source in FLOATS else torch.from_numpy(x.numpy().astype(to))
    if to in FLOAT8:
        largest = torch.finfo(DTYPES[to]).max
        return x.float().clamp(-largest, largest).to(DTYPES[to])
    exact = [int(v) for v in x.tolist()] if source in INTEGERS else x.double().tolist()
    return nearest(exact, to)


def shifted(x: torch.Tensor) -> torch.Tensor:
    """What Triton's own sequence makes of fp8e5 in bf16: exponent 31 is one like any other."""
    bits = x.view(torch.uint8).numpy().astype(int)
    exponent, fraction = bits >> 2 & 31, bits & 3
    size = np.where(exponent == 0, fraction / 4 * 2.0**-14, (1 + fraction / 4) * 2.0 ** (exponent - 15))
    return torch.from_numpy(np.where(bits > 127, -size, size)).to(torch.bfloat16)


def to_integer(x: torch.Tensor, source: str, to: str) -> torch.Tensor:
    """Through 16 bits to 8; NaN is 0, or the top bit where 64 bits are involved."""
    width = max(np.iinfo(to).bits, 16)
    signed = not to.startswith("u")
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    nan = (1 << (width - 1)) if width == 64 or source == "fp64" else 0
    found = []
    for value in x.double().tolist():
        if value != value:
            found.append(nan)
        else:
            found.append(low if value < low else high if value > high else int(value))
    return torch.from_numpy(np.array([v % (1 << 64) for v in found], dtype=np.uint64).astype(to))


def nearest(exact: list, to: str) -> torch.Tensor:
    """Rounded once: to 24 bits of fp32 and from there only what is no tie, ties being broken by the exact value."""
    dtype = DTYPES[to]
    if to == "fp64":
        return torch.tensor([float(v) for v in exact], dtype=dtype)
    down = cut([as_float(v) for v in exact], to)
    bits = down.view(SAME_SIZE[dtype.itemsize])
    up = (bits + 1).view(dtype)
    chosen = []
    for value, a, b, even in zip(exact, down.double().tolist(), up.double().tolist(), (bits & 1 == 0).tolist()):
        chosen.append(upper(value, a, b, even, to))
    return torch.where(torch.tensor(chosen), up, down)


def as_float(value: int | float) -> float:
    """Towards zero, so that cutting it short again cuts the exact value short."""
    if isinstance(value, float):
        return value
    near = float(value)
    return near if abs(int(near)) <= abs(value) else float(np.nextafter(near, 0.0))


def cut(values: list[float], to: str) -> torch.Tensor:
    """Doubles cut short to the bits of a narrower type, towards zero."""
    x = torch.tensor(values, dtype=torch.float64)
    near = x.to(DTYPES[to])
    over = near.double().abs() > x.abs()
    plain = SAME_SIZE[near.dtype.itemsize]
    return torch.where(over, near.view(plain) - 1, near.view(plain)).view(near.dtype)


def upper(value: int | float, a: float, b: float, even: bool, to: str) -> bool:
    """Whether a value between two neighbours rounds to the one that is farther from zero."""
    if value == a or value != value or abs(a) == float("inf"):
        return False
    limit = {"fp16": 2.0**16, "bf16": 2.0**128, "fp32": 2.0**128}[to]
    farther = limit if abs(b) == float("inf") else abs(b)
    middle = abs(a) + (farther - abs(a)) / 2  # exact: both have few bits
    return abs(value) > middle or (abs(value) == middle and not even)


def towards_zero(x: torch.Tensor, to: str) -> torch.Tensor:
    if to == "fp8e5":
        half = (x if x.dtype == torch.float16 else cut(x.double().tolist(), "fp16")).view(torch.int16)
        return ((half >> 8) & 255).to(torch.uint8).view(torch.float8_e5m2)
    return cut(x.double().tolist(), to)


CUT_SHORT = [
    ("fp32", "fp16"),
    ("fp32", "bf16"),
    ("fp64", "fp16"),
    ("fp64", "bf16"),
    ("fp64", "fp32"),
    ("fp32", "fp8e5"),
    ("fp16", "fp8e5"),
]
"""Conversions that can round towards zero."""
