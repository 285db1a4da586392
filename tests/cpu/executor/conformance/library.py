"""libdevice and the fused multiply-add, against fractions and double precision."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch
from triton.language.extra.cuda import libdevice

from . import kernels_lanewise as k
from .casting import nearest, to_integer
from .lanewise import Case, by_numpy, in_float, widened
from .samples import FLOATS, flushing, without_subnormals


def fused(name: str) -> Callable[..., torch.Tensor]:
    """``x * y + z`` as a fraction, rounded once."""

    def expected(*tensors: torch.Tensor) -> torch.Tensor:
        a, b, c = (t.double() for t in tensors)
        plain = torch.where(c.isinf() & a.isfinite() & b.isfinite(), c, a * b + c).tolist()
        exact = []
        for x, y, z, near in zip(*(t.double().tolist() for t in tensors), plain, strict=True):
            finite = all(map(math.isfinite, (x, y, z)))
            value = Fraction(x) * Fraction(y) + Fraction(z) if finite else 0
            exact.append(value if value else near)
        if name != "fp64":
            return nearest(exact, name)
        return torch.tensor([rounded(v) for v in exact], dtype=torch.float64)

    return expected


def rounded(value: float | Fraction) -> float:
    if isinstance(value, float):
        return value
    try:
        return float(value) or math.copysign(0.0, value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def within(low: float, high: float) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Keeps operands where a function is not all poles or overflow."""
    return lambda tensors: [torch.where((t >= low) & (t <= high), t, 0.5 * (low + high)) for t in tensors]


def by_torch(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *t: function(*(v.double() for v in t)).to(t[0].dtype)


def directed(
    function: Callable[..., Fraction], up: Callable[[Fraction], bool], zero: float = 0.0
) -> Callable[..., torch.Tensor]:
    """fp32 rounded by a rule: ``up`` says whether the neighbour above the exact value is taken.

    ``zero`` is what terms that cancel give.
    """

    def expected(*tensors: torch.Tensor) -> torch.Tensor:
        found = []
        for values in zip(*(t.double().tolist() for t in tensors), strict=True):
            exact = function(*map(Fraction, values))
            near = float(np.float32(float(exact)))
            while Fraction(near) < exact:
                near = float(np.nextafter(np.float32(near), np.float32(np.inf)))
            while Fraction(near) > exact:
                near = float(np.nextafter(np.float32(near), np.float32(-np.inf)))
            if up(exact) and Fraction(near) != exact:
                near = float(np.nextafter(np.float32(near), np.float32(np.inf)))
            found.append(near or zero)
        return torch.tensor(found, dtype=torch.float32)

    return expected


def positive(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Of a size at which nothing overflows, and never zero."""
    return [torch.where((t.abs() > 1e-9) & (t.abs() < 1e9), t, 1.7) for t in tensors]


def quiet_fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.fmod(a.numpy(), b.numpy()))


_ONE = {
    "acos": (torch.acos, 3, within(-1, 1)),
    "acosh": (torch.acosh, 4, within(1, 1e30)),
    "asin": (torch.asin, 3, within(-1, 1)),
    "asinh": (torch.asinh, 3, list),
    "atan": (torch.atan, 3, list),
    "atanh": (torch.atanh, 3, within(-1, 1)),
    "cbrt": (lambda x: cube_root(x), 2, list),
    "cosh": (torch.cosh, 3, list),
    "cospi": (lambda x: of_half_turns(torch.cos, x).add(0.0), 2, within(-1e6, 1e6)),
    "cyl_bessel_i0": (torch.special.i0, 6, within(-20, 20)),
    "cyl_bessel_i1": (torch.special.i1, 6, within(-20, 20)),
    "erf": (torch.erf, 3, list),
    "erfc": (torch.erfc, 6, within(-5, 5)),
    "erfinv": (torch.erfinv, 4, within(-0.99, 0.99)),
    "erfcx": (torch.special.erfcx, 6, within(-3, 10)),
    "exp10": (lambda x: torch.pow(10.0, x), 2, list),
    "expm1": (torch.expm1, 3, list),
    "lgamma": (torch.lgamma, 8, within(3, 1e6)),
    "log10": (torch.log10, 3, list),
    "log1p": (torch.log1p, 3, list),
    "normcdf": (torch.special.ndtr, 3, within(-5, 5)),
    "rcbrt": (lambda x: 1 / cube_root(x), 2, list),
    "sinh": (torch.sinh, 3, list),
    "sinpi": (lambda x: of_half_turns(torch.sin, x), 2, within(-1e6, 1e6)),
    "tan": (torch.tan, 3, within(-100, 100)),
    "tanh": (torch.tanh, 3, list),
    "tgamma": (lambda x: torch.tensor([math.gamma(v) for v in x.tolist()], dtype=torch.float64), 12, within(0.1, 30)),
    "rsqrt": (lambda x: 1 / x.sqrt(), 2, list),
    "nearbyint": (torch.round, 0, list),
    "rint": (torch.round, 0, list),
    "trunc": (torch.trunc, 0, list),
    "floor": (torch.floor, 0, list),
    "ceil": (torch.ceil, 0, list),
    "round": (lambda x: half_away(x), 0, list),
    "sqrt": (torch.sqrt, 1, list),
}
_TWO = {
    "atan2": (torch.atan2, 3),
    "copysign": (torch.copysign, 0),
    "fdim": (lambda a, b: torch.where(a <= b, 0.0, a - b), 0),
    "fmod": (quiet_fmod, 0),
    "hypot": (torch.hypot, 2),
    "pow": (torch.pow, 2),
}
_FLUSHING = {
    *("asin", "asinh", "atan", "atan2", "atanh", "ceil", "cyl_bessel_i1", "erf", "erfcx", "expm1", "floor", "fmod"),
    *("hypot", "log1p", "rsqrt", "sin", "sinh", "sinpi", "sqrt", "tan", "tanh"),
}
_FLUSHED_AFTER = {"normcdf", "pow"}
_INTEGER = {
    "popc": (lambda x: [bin(v).count("1") for v in x], libdevice.popc),
    "clz": (lambda x: [32 - v.bit_length() for v in x], libdevice.clz),
    "ffs": (lambda x: [(v & -v).bit_length() for v in x], libdevice.ffs),
    "brev": (lambda x: [int(f"{v:032b}"[::-1], 2) for v in x], libdevice.brev),
}


def cube_root(x: torch.Tensor) -> torch.Tensor:
    """Of an fp32 number; libdevice has none of subnormal ones."""
    subnormal = (x != 0) & (x.abs() < torch.finfo(torch.float32).smallest_normal)
    return torch.from_numpy(np.cbrt(x.numpy())).masked_fill(subnormal, math.nan)


def of_half_turns(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Exact at multiples of a half, where the zeros of a sine have the sign of x."""
    found = function(torch.fmod(x, 2) * math.pi)
    exact = torch.copysign(found.round(), torch.where(found.abs() < 0.5, x, found))
    return torch.where(torch.fmod(x, 0.5) == 0, exact, found)


def flushed_like(name: str, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    if name in _FLUSHING:
        return flushing(function)
    if name in _FLUSHED_AFTER:
        return lambda *tensors: without_subnormals(function(*tensors))
    return function


def half_away(x: torch.Tensor) -> torch.Tensor:
    whole = x.trunc()
    return torch.where((x - whole).abs() >= 0.5, whole + x.sign(), whole)


def cases() -> list[Case]:
    found = [Case("fma", k.fma, (name,) * 3, name, fused(name)) for name in FLOATS]
    for n, (function, ulps, prepare) in _ONE.items():
        expected = flushed_like(n, by_torch(function))
        found.append(Case(n, getattr(libdevice, n), ("fp32",), "fp32", expected, ulps, prepare))
    for n, (function, ulps) in _TWO.items():
        expected = flushed_like(n, by_torch(function))
        found.append(Case(n, getattr(libdevice, n), ("fp32", "fp32"), "fp32", expected, ulps))
    for n, (bits, op) in _INTEGER.items():
        found.append(Case(n, op, ("int32",), "int32", by_numpy(of_bits(bits), "int32")))
    for n, test in (("isnan", np.isnan), ("isinf", np.isinf), ("signbit", np.signbit), ("finitef", np.isfinite)):
        found.append(Case(n, getattr(libdevice, n), ("fp32",), "bool", in_float(test, "bool")))
    for n in ("fmod", "sqrt", "exp", "log", "nextafter"):
        if n == "nextafter":
            found.append(Case(n, libdevice.nextafter, ("fp64",) * 2, "fp64", in_float(np.nextafter, "fp64")))
        elif n == "fmod":
            found.append(Case(n, libdevice.fmod, ("fp64",) * 2, "fp64", in_float(np.fmod, "fp64")))
        else:
            function = widened(getattr(np, n), "fp64")
            found.append(Case(n, getattr(libdevice, n), ("fp64",), "fp64", in_float(function, "fp64"), 2))
    found.append(
        Case("float2int_rz", libdevice.float2int_rz, ("fp32",), "int32", lambda x: to_integer(x, "fp32", "int32"))
    )
    found.append(
        Case("double2uint_rz", libdevice.double2uint_rz, ("fp64",), "uint32", lambda x: to_integer(x, "fp64", "uint32"))
    )
    found.append(
        Case("float2ll_rz", libdevice.float2ll_rz, ("fp32",), "int64", lambda x: to_integer(x, "fp32", "int64"))
    )
    found.append(
        Case("float2ull_rz", libdevice.float2ull_rz, ("fp32",), "uint64", lambda x: to_integer(x, "fp32", "uint64"))
    )
    return found + rounding_cases()


def of_bits(function: Callable[[list[int]], list[int]]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array(function([int(v) % (1 << 32) for v in x]), dtype=np.uint64).astype("uint32").view("int32")


def rounding_cases() -> list[Case]:
    found = []
    rules = {"rz": lambda v: v < 0, "ru": lambda v: True, "rd": lambda v: False}
    for rounding, up in rules.items():
        zero = -0.0 if rounding == "rd" else 0.0
        for n, function in (
            ("add", lambda a, b: a + b),
            ("sub", lambda a, b: a - b),
            ("mul", lambda a, b: a * b),
            ("div", lambda a, b: a / b),
        ):
            op = getattr(libdevice, f"{n}_{rounding}")
            expected = directed(function, up, zero)
            found.append(Case(f"{n}_{rounding}", op, ("fp32", "fp32"), "fp32", expected, 0, positive))
        expected = directed(lambda a, b, c: a * b + c, up, zero)
        op = getattr(libdevice, f"fma_{rounding}")
        found.append(Case(f"fma_{rounding}", op, ("fp32",) * 3, "fp32", expected, 0, positive))
    return found
