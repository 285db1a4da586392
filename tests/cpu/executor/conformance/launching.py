"""Launches of generic kernels in the checked executor."""

import torch
import triton
import triton.language as tl

from tilewright.debug.executor.executor import Executor
from tilewright.hardware.targets import find
from tilewright.launch.capture import capture

TARGET = find("h100")


def run(kernel, grid, *arguments, allowed=(), **options):
    """Runs a kernel; anything that the executor finds, but for ``allowed`` kinds, is an error."""
    executor = Executor(TARGET)
    with capture(executor, TARGET):
        kernel[grid](*arguments, **options)
    found = [f for f in executor.findings() if f.kind not in allowed]
    assert not found, [(f.kind, f.line, f.message) for f in found]
    return executor


@triton.jit
def unary_kernel(x_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, OP(tl.load(x_ptr + at)))


@triton.jit
def binary_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, OP(tl.load(x_ptr + at), tl.load(y_ptr + at)))


@triton.jit
def ternary_kernel(x_ptr, y_ptr, z_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, OP(tl.load(x_ptr + at), tl.load(y_ptr + at), tl.load(z_ptr + at)))


@triton.jit
def outer_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, BLOCK: tl.constexpr):
    """A column that differs from program to program and a row that is the same in all."""
    row = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + row)
    at = (tl.program_id(0) * BLOCK + row[:, None]) * BLOCK + row[None, :]
    tl.store(out_ptr + at, OP(x[:, None], tl.load(y_ptr + row)[None, :]))


@triton.jit
def scalar_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr):
    """0-d values: one per program, and one for all."""
    tl.store(out_ptr + tl.program_id(0), OP(tl.load(x_ptr + tl.program_id(0)), tl.load(y_ptr)))


KERNELS = {1: unary_kernel, 2: binary_kernel, 3: ternary_kernel}


def lanewise(op, inputs, dtype, block=64):
    """``op`` on every lane of flat tensors."""
    out = torch.zeros(inputs[0].numel(), dtype=dtype)
    run(KERNELS[len(inputs)], (inputs[0].numel() // block,), *inputs, out, OP=op, BLOCK=block)
    return out
