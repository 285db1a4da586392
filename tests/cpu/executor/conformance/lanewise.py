"""Operations of one lane: what each is to give, worked out by NumPy or in twice the precision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import kernels_lanewise as k
from .comparing import first_wrong
from .launching import outer_kernel, run, scalar_kernel
from .samples import DTYPES, FLOATS, INTEGERS, flushing, np_take, operands


@dataclass(frozen=True)
class Case:
    """One operation on operands of given dtypes.

    Attributes:
        expected: from the operands' tensors to the result's.
        ulps: how far off a result may be; 0 for bit for bit.
        prepare: makes operands legal (no division by zero, no shift beyond the width).
        allowed: kinds of findings that the inputs rightly give.
    """

    name: str
    op: Any
    inputs: tuple[str, ...]
    output: str
    expected: Callable[..., torch.Tensor]
    ulps: int = 0
    prepare: Callable[[list[torch.Tensor]], list[torch.Tensor]] = list

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join(self.inputs)}"

    def draw(self, lanes: int, seed: int) -> list[torch.Tensor]:
        return self.prepare(operands(self.inputs, lanes, seed))


def by_numpy(function: Callable[..., np.ndarray], output: str) -> Callable[..., torch.Tensor]:
    def expected(*tensors: torch.Tensor) -> torch.Tensor:
        with np.errstate(all="ignore"):
            found = np.asarray(function(*(t.numpy() for t in tensors)))
        return torch.from_numpy(found.astype(numpy_name(output)))

    return expected


def numpy_name(name: str) -> str:
    return {"fp16": "float16", "fp32": "float32", "fp64": "float64"}.get(name, name)


def in_float(function: Callable[..., np.ndarray], output: str) -> Callable[..., torch.Tensor]:
    """By NumPy; bf16 in fp32 and rounded, which rounds right for one operation."""

    def expected(*tensors: torch.Tensor) -> torch.Tensor:
        arrays = [t.float().numpy() if t.dtype == torch.bfloat16 else t.numpy() for t in tensors]
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.asarray(function(*arrays))).to(DTYPES[output])

    return expected


def truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division of integers towards zero, as C has it; the least by -1 wraps."""
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a - truncated(a, b) * b


def high_half(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    width = a.dtype.itemsize * 8
    x, y = (v.astype(object) % (1 << width) for v in (a, b))
    return ((x * y) >> width).astype(f"uint{width}").view(a.dtype)


def nonzero(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    a, b = (t.numpy().copy() for t in tensors)
    b[b == 0] = 3
    return [torch.from_numpy(a), torch.from_numpy(b)]


def short(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Shifts by less than the width."""
    a, b = (t.numpy().copy() for t in tensors)
    return [torch.from_numpy(a), torch.from_numpy((b.astype("int64") % (8 * b.itemsize)).astype(b.dtype))]


def without_zeros(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [t.masked_fill(t == 0, 1.0) for t in tensors]


def ordered_limits(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    x, low, high = tensors
    a, b = torch.fmin(low.double(), high.double()), torch.fmax(low.double(), high.double())
    return [x, a.nan_to_num(nan=0.0).to(x.dtype), b.nan_to_num(nan=0.0).to(x.dtype)]


def signed_max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The greater, where 0 is above -0, and the number where the other is NaN."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def signed_min(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def nan_if_any(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda *v: np.where(np.any([np.isnan(x) for x in v], axis=0), np.array(np.nan, v[0].dtype), function(*v))


def clamped(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return signed_min(signed_max(x, low), high)


def hardware_remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a - trunc(a / b) * b``, the product not rounded: what PTX has for ``%``."""
    wide = np.longdouble
    small = a.dtype == np.float16
    x, y = (v.astype("float32") if small else v for v in (a, b))
    quotient = np.trunc(x / y)
    exact = (x.astype(wide) - quotient.astype(wide) * y.astype(wide)).astype(x.dtype)
    return np.where(np.isinf(b) & ~np.isnan(a), x, exact).astype(a.dtype)


_COMPARE = {
    "lt": (k.lt, np.less),
    "le": (k.le, np.less_equal),
    "gt": (k.gt, np.greater),
    "ge": (k.ge, np.greater_equal),
    "eq": (k.eq, np.equal),
    "ne": (k.ne, np.not_equal),
}
_INTEGER = {
    "add": (k.add, np.add, list),
    "sub": (k.sub, np.subtract, list),
    "mul": (k.mul, np.multiply, list),
    "floordiv": (k.floordiv, truncated, nonzero),
    "mod": (k.mod, remainder, nonzero),
    "and": (k.bit_and, np.bitwise_and, list),
    "or": (k.bit_or, np.bitwise_or, list),
    "xor": (k.bit_xor, np.bitwise_xor, list),
    "shl": (k.shl, np.left_shift, short),
    "shr": (k.shr, np.right_shift, short),
    "maximum": (k.maximum, np.maximum, list),
    "minimum": (k.minimum, np.minimum, list),
}
_FLOATING = {
    "add": (k.add, np.add),
    "sub": (k.sub, np.subtract),
    "mul": (k.mul, np.multiply),
    "maximum": (k.maximum, signed_max),
    "minimum": (k.minimum, signed_min),
    "maximum_nan": (k.maximum_nan, nan_if_any(signed_max)),
    "minimum_nan": (k.minimum_nan, nan_if_any(signed_min)),
}
_MATHS = {
    "exp": (k.exp, np.exp, 2),
    "exp2": (k.exp2, np.exp2, 2),
    "log": (k.log, np.log, 2),
    "log2": (k.log2, np.log2, 2),
    "sin": (k.sin, np.sin, 2),
    "cos": (k.cos, np.cos, 2),
    "sqrt": (k.sqrt, np.sqrt, 1),
    "rsqrt": (k.rsqrt, lambda x: 1 / np.sqrt(x), 2),
    "erf": (k.erf, lambda x: torch.erf(torch.from_numpy(np.asarray(x, "float64"))).numpy(), 2),
    "floor": (k.floor, np.floor, 0),
    "ceil": (k.ceil, np.ceil, 0),
}
_FLUSHING = {"ceil", "erf", "exp2", "floor", "rsqrt", "sin", "sqrt"}
"""What the hardware's fp32 has no subnormal numbers in (measured, and so in the PTX)."""


def integer_cases() -> list[Case]:
    found = []
    for name in INTEGERS:
        found += [Case(n, op, (name, name), name, by_numpy(f, name), prepare=p) for n, (op, f, p) in _INTEGER.items()]
        found += [Case(n, op, (name, name), "bool", by_numpy(f, "bool")) for n, (op, f) in _COMPARE.items()]
        if name.endswith(("32", "64")):
            found.append(Case("umulhi", k.umulhi, (name, name), name, by_numpy(high_half, name)))
        if not name.startswith("u"):
            found.append(Case("abs", k.absolute, (name,), name, by_numpy(np.abs, name)))
        found.append(Case("neg", k.neg, (name,), name, by_numpy(np.negative, name)))
        found.append(Case("invert", k.invert, (name,), name, by_numpy(np.invert, name)))
        found.append(Case("where", k.where, ("bool", name, name), name, by_numpy(np.where, name)))
    for n in ("and", "or", "xor", "maximum", "minimum"):
        op, function, _ = _INTEGER[n]
        found.append(Case(n, op, ("bool", "bool"), "bool", by_numpy(function, "bool")))
    found += [Case(n, op, ("bool", "bool"), "bool", by_numpy(f, "bool")) for n, (op, f) in _COMPARE.items()]
    found.append(Case("not", k.logical_not, ("bool",), "bool", by_numpy(np.logical_not, "bool")))
    found.append(Case("invert", k.invert, ("bool",), "bool", by_numpy(np.logical_not, "bool")))
    return found


def floating_cases() -> list[Case]:
    found = []
    for name in FLOATS:
        two = (name, name)
        found += [Case(n, op, two, name, in_float(f, name)) for n, (op, f) in _FLOATING.items()]
        found += [Case(n, op, two, "bool", in_float(f, "bool")) for n, (op, f) in _COMPARE.items()]
        found.append(Case("truediv", k.truediv, two, name, in_float(np.divide, name), ulps=1))
        found.append(Case("abs", k.absolute, (name,), name, in_float(np.abs, name)))
        # Some versions of Triton subtract from 0, others turn the sign: they differ for zero.
        found.append(Case("neg", k.neg, (name,), name, in_float(np.negative, name), prepare=without_zeros))
        found.append(Case("where", k.where, ("bool", name, name), name, in_float(np.where, name)))
        three = (name,) * 3
        found.append(Case("clamp", k.clamp, three, name, in_float(clamped, name), prepare=ordered_limits))
        found.append(
            Case("clamp_nan", k.clamp_nan, three, name, in_float(nan_if_any(clamped), name), prepare=ordered_limits)
        )
        if name != "fp64":  # NumPy has nothing wider to work its remainder out in
            found.append(Case("mod", k.mod, two, name, in_float(hardware_remainder, name)))
    for name in ("fp32", "fp64"):
        for n, (op, function, ulps) in _MATHS.items():
            expected = in_float(widened(function, name), name)
            found.append(Case(n, op, (name,), name, flushing(expected) if n in _FLUSHING else expected, ulps=ulps))
    found.append(Case("sqrt_rn", k.sqrt_rn, ("fp32",), "fp32", in_float(np.sqrt, "fp32")))
    found.append(Case("div_rn", k.div_rn, ("fp32", "fp32"), "fp32", in_float(np.divide, "fp32")))
    return found


def widened(function: Callable[..., np.ndarray], name: str) -> Callable[..., np.ndarray]:
    """In twice the precision where there is one."""
    wide = {"fp32": "float64", "fp64": "float64"}[name]
    return lambda *v: np.asarray(function(*(x.astype(wide) for x in v))).astype(numpy_name(name))


def uneven_cases() -> list[Case]:
    """Of each operation with two operands one dtype: for tiles of which some axes, or programs, are alike."""
    every = [c for c in integer_cases() + floating_cases() if len(c.inputs) == 2]
    return [
        c for c in every if c.inputs in (("int32", "int32"), ("uint8", "uint8"), ("fp32", "fp32"), ("bool", "bool"))
    ]


def check_outer(case: Case, seed: int, block: int = 8, programs: int = 3) -> str:
    """A column of each program with a row of all."""
    x, y = (t[: block * programs].clone() for t in case.draw(64, seed))
    out = torch.zeros(programs, block, block, dtype=DTYPES[case.output])
    run(outer_kernel, (programs,), x, y, out, OP=case.op, BLOCK=block)
    shape = (programs, block, block)
    left = np_take(x, torch.arange(programs * block).reshape(programs, block, 1).expand(shape)).reshape(-1)
    right = np_take(y, torch.arange(block).reshape(1, 1, block).expand(shape)).reshape(-1)
    return first_wrong(out.reshape(-1), case.expected(left, right), case.ulps, [left, right])


def check_scalar(case: Case, seed: int, programs: int = 16) -> str:
    """A value of each program with one of all, neither of them a tile."""
    x, y = (t[:programs].clone() for t in case.draw(64, seed))
    out = torch.zeros(programs, dtype=DTYPES[case.output])
    run(scalar_kernel, (programs,), x, y, out, OP=case.op)
    right = np_take(y, torch.zeros(programs, dtype=torch.int64))
    return first_wrong(out, case.expected(x, right), case.ulps, [x, right])
