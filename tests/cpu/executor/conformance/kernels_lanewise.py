"""Single operations as Triton functions."""

import triton
import triton.language as tl

ALL = tl.constexpr(tl.PropagateNan.ALL)


@triton.jit
def add(x, y):
    return x + y


@triton.jit
def sub(x, y):
    return x - y


@triton.jit
def mul(x, y):
    return x * y


@triton.jit
def truediv(x, y):
    return x / y


@triton.jit
def floordiv(x, y):
    return x // y


@triton.jit
def mod(x, y):
    return x % y


@triton.jit
def bit_and(x, y):
    return x & y


@triton.jit
def bit_or(x, y):
    return x | y


@triton.jit
def bit_xor(x, y):
    return x ^ y


@triton.jit
def shl(x, y):
    return x << y


@triton.jit
def shr(x, y):
    return x >> y


@triton.jit
def lt(x, y):
    return x < y


@triton.jit
def le(x, y):
    return x <= y


@triton.jit
def gt(x, y):
    return x > y


@triton.jit
def ge(x, y):
    return x >= y


@triton.jit
def eq(x, y):
    return x == y


@triton.jit
def ne(x, y):
    return x != y


@triton.jit
def maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def minimum(x, y):
    return tl.minimum(x, y)


@triton.jit
def maximum_nan(x, y):
    return tl.maximum(x, y, propagate_nan=ALL)


@triton.jit
def minimum_nan(x, y):
    return tl.minimum(x, y, propagate_nan=ALL)


@triton.jit
def umulhi(x, y):
    return tl.umulhi(x, y)


@triton.jit
def div_rn(x, y):
    return tl.div_rn(x, y)


@triton.jit
def fdiv(x, y):
    return tl.fdiv(x, y)


@triton.jit
def clamp(x, low, high):
    return tl.clamp(x, low, high)


@triton.jit
def clamp_nan(x, low, high):
    return tl.clamp(x, low, high, propagate_nan=ALL)


@triton.jit
def fma(x, y, z):
    return tl.fma(x, y, z)


@triton.jit
def where(condition, x, y):
    return tl.where(condition, x, y)


@triton.jit
def neg(x):
    return -x


@triton.jit
def invert(x):
    return ~x


@triton.jit
def absolute(x):
    return tl.abs(x)


@triton.jit
def logical_not(x):
    return not x


@triton.jit
def exp(x):
    return tl.exp(x)


@triton.jit
def exp2(x):
    return tl.exp2(x)


@triton.jit
def log(x):
    return tl.log(x)


@triton.jit
def log2(x):
    return tl.log2(x)


@triton.jit
def sin(x):
    return tl.sin(x)


@triton.jit
def cos(x):
    return tl.cos(x)


@triton.jit
def sqrt(x):
    return tl.sqrt(x)


@triton.jit
def sqrt_rn(x):
    return tl.sqrt_rn(x)


@triton.jit
def rsqrt(x):
    return tl.rsqrt(x)


@triton.jit
def erf(x):
    return tl.erf(x)


@triton.jit
def floor(x):
    return tl.floor(x)


@triton.jit
def ceil(x):
    return tl.ceil(x)


@triton.jit
def sigmoid(x):
    return tl.sigmoid(x)
