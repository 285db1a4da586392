"""Launchers as people write them for a GPU: some reach for it, one compiles its kernel ahead."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.runtime import driver

import tilewright as tw


@triton.jit
def double_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < N), mask=offsets < N)


def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


def enters_the_device(x):
    with torch.cuda.device(x.device):
        return double(x)


def asks_for_properties(x):
    torch.cuda.get_device_properties(x.device).multi_processor_count
    return double(x)


def asserts_a_capability(x):
    assert torch.cuda.get_device_capability()[0] >= 8
    return double(x)


def asserts_is_cuda(x):
    assert x.is_cuda
    return double(x)


def asserts_the_type(x):
    assert x.device.type == "cuda", "wrong place"
    return double(x)


def raises_for_the_type(x):
    if x.device.type != "cuda":
        raise ValueError("unsupported device")
    return double(x)


def allocates_on_cuda(x):
    torch.empty(x.shape, device="cuda")
    return double(x)


def moves(x):
    return double(x.cuda())


def takes_a_stream(x):
    torch.cuda.current_stream()
    return double(x)


def makes_an_event(x):
    torch.cuda.Event(enable_timing=True)
    return double(x)


def synchronizes(x):
    torch.cuda.synchronize()
    return double(x)


def makes_a_generator(x):
    torch.Generator("cuda")
    return double(x)


def is_merely_wrong(x):
    assert x.numel() % 64 == 0, "a multiple of 64"
    return double(x)


def inputs(N=100):
    return (torch.randn(N),)


def doubled(x):
    return 2 * x


reaching = tw.Operator(name="reaching", run=asserts_is_cuda, reference=doubled, inputs=inputs)
wrong_sizes = tw.Operator(name="wrong_sizes", run=is_merely_wrong, reference=doubled, inputs=inputs)


@triton.jit
def softmax_kernel(y_ptr, x_ptr, x_stride, y_stride, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * y_stride + cols, e / tl.sum(e, axis=0), mask=mask)


@tw.operator(reference=lambda x: torch.softmax(x, -1), shapes={"rows": dict(M=4096, N=1000)})
def persistent_softmax(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    """As many programs as the chip holds at a time, which the kernel compiled ahead tells."""
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, cols = x.shape
    chip = driver.active.utils.get_device_properties(x.device.index)
    block, warps = triton.next_power_of_2(cols), 8
    stages = 4 if chip["max_shared_mem"] > 200000 else 2
    sizes = (x.stride(0), y.stride(0), rows, cols)
    kernel = softmax_kernel.warmup(y, x, *sizes, BLOCK=block, STAGES=stages, num_warps=warps, grid=(1,))
    kernel._init_handles()
    resident = chip["max_num_regs"] // (kernel.n_regs * chip["warpSize"] * warps)
    resident = min(resident, chip["max_shared_mem"] // kernel.metadata.shared)
    programs = min(chip["multiprocessor_count"] * resident, rows)
    kernel[(programs, 1, 1)](y, x, *sizes, block, stages)
    return y
