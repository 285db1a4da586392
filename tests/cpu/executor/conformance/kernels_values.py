"""Constants, promotions and choices between scalars and tiles."""

import triton
import triton.language as tl


@triton.jit
def constants_kernel(f32_ptr, f64_ptr, f16_ptr, bf16_ptr, i64_ptr, u64_ptr, i8_ptr, e5_ptr):
    tl.store(f32_ptr + 0, float("inf"))
    tl.store(f32_ptr + 1, -float("inf"))
    tl.store(f32_ptr + 2, float("nan"))
    tl.store(f32_ptr + 3, 0.1)
    tl.store(f32_ptr + 4, -0.0)
    tl.store(f32_ptr + 5, 1e-45)
    tl.store(f32_ptr + 6, 3.4028234663852886e38)
    tl.store(f64_ptr + 0, tl.full((), 0.1, tl.float64))
    tl.store(f64_ptr + 1, tl.full((), 1e300, tl.float64))
    tl.store(f16_ptr + tl.arange(0, 2), tl.full((2,), 0.1, tl.float16))
    tl.store(bf16_ptr + tl.arange(0, 2), tl.full((2,), 0.1, tl.bfloat16))
    tl.store(bf16_ptr + 2, tl.full((), float("-inf"), tl.bfloat16))
    tl.store(i64_ptr + 0, 0x7FFFFFFFFFFFFFFF)
    tl.store(i64_ptr + 1, -9223372036854775807)
    tl.store(i64_ptr + 2, 2**31)
    tl.store(u64_ptr + 0, tl.full((), 0xFFFFFFFFFFFFFFFF, tl.uint64))
    tl.store(i8_ptr + tl.arange(0, 2), tl.full((2,), -128, tl.int8))
    tl.store(e5_ptr + tl.arange(0, 2), tl.zeros((2,), tl.float8e5))


@triton.jit
def promotions_kernel(i8_ptr, u8_ptr, i32_ptr, u32_ptr, i64_ptr, f16_ptr, f32_ptr, out_ptr):
    i8, u8, i32 = tl.load(i8_ptr), tl.load(u8_ptr), tl.load(i32_ptr)
    u32, i64, f16, f32 = tl.load(u32_ptr), tl.load(i64_ptr), tl.load(f16_ptr), tl.load(f32_ptr)
    tl.store(out_ptr + 0, i8 + i32)
    tl.store(out_ptr + 1, i8 + u8)
    tl.store(out_ptr + 2, i32 + u32)
    tl.store(out_ptr + 3, u32 + i64)
    tl.store(out_ptr + 4, i32 * f16)
    tl.store(out_ptr + 5, f16 * f32)
    tl.store(out_ptr + 6, i32 / i8)
    tl.store(out_ptr + 7, u8 - 251)
    tl.store(out_ptr + 8, (i32 > u32).to(tl.int32))
    tl.store(out_ptr + 9, tl.cdiv(i32, i8))
    tl.store(out_ptr + 10, (i8 == u8).to(tl.int8) + 5)
    tl.store(out_ptr + 11, (u8 > 100) + i32)


@triton.jit
def choices_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + program * BLOCK + at)
    picked = tl.where(program % 2 == 0, x, 7)  # one condition for a whole tile
    picked += tl.where(at % 3 == 0, program, x)  # a value of the program for some lanes
    picked = tl.where((x > 0) & (program > 0), picked, -picked)
    tl.store(out_ptr + program * BLOCK + at, picked)


@triton.jit
def _steps(x, y):
    if x > y:
        low, high = y, x
    else:
        low, high = x, y
    return low * 3, high


@triton.jit
def elementwise_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low, high = tl.map_elementwise(_steps, tl.load(x_ptr + at), tl.load(y_ptr + at))
    tl.store(out_ptr + at, low - high)


@triton.jit
def _packed(x0, x1, y0, y1):
    return x0 + y1, x1 - y0


@triton.jit
def packed_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    found = tl.map_elementwise(_packed, tl.load(x_ptr + at), tl.load(y_ptr + at), pack=2)
    tl.store(out_ptr + at, found[0])


@triton.jit
def divisions_kernel(out_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    """Index arithmetic, whose numbers are known not to be negative."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, (at // D) * 10_000_000 + (at % D) * 1000 + (at // n) * 7 + at % n)
