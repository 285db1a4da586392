"""Inline PTX as kernels hold it: functions of one instruction, packed conversions, tricks with bits, dependent launches."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

Pairs = list[tuple[Tensor, Tensor]]


@triton.jit
def _floats(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cuda.gdc_wait()
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    third = tl.inline_asm_elementwise("div.rn.f32 $0, $1, $2;", "=r,r,r", [x, 3.0], tl.float32, is_pure=True, pack=1)
    y = tl.inline_asm_elementwise(
        "{ .reg .f32 t; ex2.approx.ftz.f32 t, $1; fma.rn.f32 $0, t, 0f40000000, $2; } // twice, and more",
        constraints="=f,f,f",
        args=[t, third],
        dtype=tl.float32,
        is_pure=True,
        pack=1,
    )
    cuda.gdc_launch_dependents()
    tl.store(y_ptr + lanes, y, mask=lanes < n)


def functions_of_one_instruction() -> Pairs:
    x = torch.randn(70)
    y = torch.empty_like(x)
    _floats[(3,)](x, y, 70, BLOCK=32)
    return [(y, 2 * torch.exp2(torch.tanh(x)) + x / 3)]


@triton.jit
def _unpacked(a_ptr, b_ptr, c_ptr, d_ptr, BLOCK: tl.constexpr):
    """Four bytes share a register; as in Triton's documentation."""
    lanes = tl.arange(0, BLOCK)
    c, d = tl.inline_asm_elementwise(
        """{
        .reg .b8 part<4>;
        mov.b32 {part0, part1, part2, part3}, $8;
        cvt.u32.u8 $0, part0;  cvt.u32.u8 $1, part1;
        cvt.u32.u8 $2, part2;  cvt.u32.u8 $3, part3;
        } // from here on b, whose lanes have a register each
        max.f32 $4, $9, 0f00000000;  max.f32 $5, $10, 0f00000000;
        max.f32 $6, $11, 0f00000000;  max.f32 $7, $12, 0f00000000;""",
        constraints="=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r",
        args=[tl.load(a_ptr + lanes), tl.load(b_ptr + lanes)],
        dtype=(tl.int32, tl.float32),
        is_pure=True,
        pack=4,
    )
    tl.store(c_ptr + lanes, c)
    tl.store(d_ptr + lanes, d)


def lanes_that_share_registers() -> Pairs:
    a, b = torch.randint(0, 256, (32,), dtype=torch.uint8), torch.randn(32)
    c, d = torch.empty(32, dtype=torch.int32), torch.empty(32)
    _unpacked[(1,)](a, b, c, d, BLOCK=32)
    return [(c, a.int()), (d, b.relu())]


@triton.jit
def _narrowed(x_ptr, four_ptr, eight_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    low = tl.load(x_ptr + 2 * lanes, mask=lanes < n, other=0.0)
    high = tl.load(x_ptr + 2 * lanes + 1, mask=lanes < n, other=0.0)
    four = tl.inline_asm_elementwise(
        "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, $2, $1; cvt.u32.u8 $0, t; }",
        constraints="=r,r,r",
        args=[low, high],
        dtype=tl.uint8,
        is_pure=True,
        pack=1,
    )
    eight = tl.inline_asm_elementwise(
        "cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;", "=h,r,r", [low], dtype=tl.float8e4nv, is_pure=True, pack=2
    )
    tl.store(four_ptr + lanes, four, mask=lanes < n)
    tl.store(eight_ptr + lanes, eight, mask=lanes < n)


def conversions_to_few_bits() -> Pairs:
    x = torch.randn(60) * 3
    numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = (x.abs()[:, None] - numbers).abs().argmin(1) | (x < 0) * 8
    four, eight = torch.empty(30, dtype=torch.uint8), torch.empty(30, dtype=torch.float8_e4m3fn)
    _narrowed[(1,)](x, four, eight, 30, BLOCK=32)
    packed = (codes[::2] | codes[1::2] << 4).to(torch.uint8)
    return [(four, packed), (eight.float(), x[::2].to(torch.float8_e4m3fn).float())]


@triton.jit
def _bits(x_ptr, y_ptr, half_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0)
    y = tl.inline_asm_elementwise(
        """{ .reg .pred p; .reg .b32 a;
        prmt.b32 a, $1, 0, 0x0123;
        setp.lt.s32 p, $1, 0;
        @p add.s32 a, a, 1;
        selp.b32 $0, a, $1, p; }""",
        constraints="=r,r",
        args=[x],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    nibble = (x & 255).to(tl.int16)
    half = tl.inline_asm_elementwise(
        "lop3.b32 $0, $1, 0x000f000f, 0x64006400, 0xea; sub.f16x2 $0, $0, 0x64086408;",
        constraints="=r,r",
        args=[nibble],
        dtype=tl.float16,
        is_pure=True,
        pack=2,
    )
    tl.store(y_ptr + lanes, y + cuda.smid() * 0, mask=lanes < n)
    tl.store(half_ptr + lanes, half, mask=lanes < n)


def tricks_with_bits() -> Pairs:
    x = torch.randint(-(2**31), 2**31 - 1, (100,), dtype=torch.int32)
    y, half = torch.empty_like(x), torch.empty(100, dtype=torch.float16)
    _bits[(4,)](x, y, half, 100, BLOCK=32)
    turned = x.view(torch.uint8).view(-1, 4).flip(1).contiguous().view(torch.int32).flatten()
    return [(y, torch.where(x < 0, turned + 1, x)), (half, ((x & 15) - 8).half())]


TECHNIQUES = [functions_of_one_instruction, lanes_that_share_registers, conversions_to_few_bits, tricks_with_bits]
