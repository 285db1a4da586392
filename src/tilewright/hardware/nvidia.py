"""NVIDIA's chips: data only.

To add a board, add one ``_board(...)`` entry to ``TARGETS``; a new compute capability also needs a row in ``_LIMITS``.
The first board of a capability is the one that the bare name of its arch (``sm_90``) stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.hardware.target import Target

KIB, MIB, GIB = 2**10, 2**20, 2**30

_TRAITS = (
    "NVIDIA CCCL, arch_traits.h, https://github.com/NVIDIA/cccl/blob/004ad1986064aaa82892ed00d0dbda88b90fa6e6/"
    "libcudacxx/include/cuda/__device/arch_traits.h"
)
_OCCUPANCY = "NVIDIA CUDA toolkit, cuda_occupancy.h (also in Triton's wheel, backends/nvidia/include)"

_LIMIT_SOURCES = {
    **dict.fromkeys(
        (
            "arch",
            "capability",
            "warp_size",
            "registers_per_unit",
            "max_registers_per_thread",
            "max_threads_per_unit",
            "max_warps_per_unit",
            "max_blocks_per_unit",
            "max_threads_per_block",
            "max_grid",
            "shared_per_block",
            "shared_per_unit",
            "shared_reserved_per_block",
        ),
        _TRAITS,
    ),
    **dict.fromkeys(
        ("register_allocation_unit", "warp_allocation_granularity", "shared_allocation_unit"),
        _OCCUPANCY,
    ),
}


class _Limits(NamedTuple):
    """What differs between compute capabilities."""

    shared_per_unit: int
    max_threads_per_unit: int
    max_blocks_per_unit: int


_LIMITS = {
    80: _Limits(164 * KIB, 2048, 32),
    86: _Limits(100 * KIB, 1536, 16),
    89: _Limits(100 * KIB, 1536, 24),
    90: _Limits(228 * KIB, 2048, 32),
    100: _Limits(228 * KIB, 2048, 32),
    120: _Limits(100 * KIB, 1536, 24),
}
_RESERVED = 1 * KIB


def _board(
    name: str,
    title: str,
    capability: int,
    *,
    compute_units: int,
    l2_bytes: int,
    memory_bytes: int,
    memory_bandwidth: float,
    boost_clock: float,
    tensor_clock: float | None = None,
    peak: Mapping[str, float],
    sources: Mapping[str, str],
    aliases: tuple[str, ...] = (),
    board: tuple[str, ...] = (),
) -> Target:
    limits = _LIMITS[capability]
    return Target(
        name=name,
        title=title,
        arch=f"sm_{capability}",
        backend="cuda",
        capability=capability,
        warp_size=32,
        compute_units=compute_units,
        registers_per_unit=65536,
        # cuda_occupancy.h lets 256 pass, but the instruction set names only 255 and ptxas never gives more.
        max_registers_per_thread=255,
        register_allocation_unit=256,
        warp_allocation_granularity=4,
        max_threads_per_unit=limits.max_threads_per_unit,
        max_warps_per_unit=limits.max_threads_per_unit // 32,
        max_blocks_per_unit=limits.max_blocks_per_unit,
        max_threads_per_block=1024,
        max_grid=(2**31 - 1, 65535, 65535),
        shared_per_block=limits.shared_per_unit - _RESERVED,
        shared_per_unit=limits.shared_per_unit,
        shared_reserved_per_block=_RESERVED,
        shared_allocation_unit=128,
        l2_bytes=l2_bytes,
        memory_bytes=memory_bytes,
        memory_bandwidth=memory_bandwidth,
        boost_clock=boost_clock,
        tensor_clock=boost_clock if tensor_clock is None else tensor_clock,
        peak=dict(peak),
        claims_timing=True,
        sources={**_LIMIT_SOURCES, **sources},
        aliases=aliases,
        board=board,
    )


def _from(source: str, **others: str) -> dict[str, str]:
    """``source`` for every figure of a board, except the fields named in ``others``."""
    fields = (
        "compute_units",
        "l2_bytes",
        "memory_bytes",
        "memory_bandwidth",
        "boost_clock",
        "tensor_clock",
        "peak",
    )
    return {**dict.fromkeys(fields, source), **others}


# FP64 of the boards without fast double precision is in no datasheet: two fused multiply-adds a clock and SM.
_SLOW_FP64 = (
    "fp64: compute_units x 4 FLOP x boost clock, from the arithmetic throughput table of the "
    "CUDA C++ Programming Guide, not re-read here"
)
_HOPPER_PEAKS = {
    "fp64": 66.9e12,
    "fp32": 66.9e12,
    "tf32": 494.7e12,
    "bf16": 989.4e12,
    "fp16": 989.4e12,
    "fp8": 1978.9e12,
    "int8": 1978.9e12,
}
_H100_SHEET = (
    "NVIDIA H100 datasheet and whitepaper, as tabulated at https://glennklockwood.com/garden/processors/h100; "
    "not re-read here"
)

A100 = _board(
    "a100",
    "NVIDIA A100 SXM 80 GB",
    80,
    compute_units=108,
    l2_bytes=40 * MIB,
    memory_bytes=80 * GIB,
    memory_bandwidth=2.039e12,
    boost_clock=1.41e9,
    peak={
        "fp64": 19.5e12,
        "fp32": 19.5e12,
        "tf32": 156e12,
        "bf16": 312e12,
        "fp16": 312e12,
        "int8": 624e12,
    },
    sources=_from(
        "NVIDIA A100 datasheet, as tabulated at https://glennklockwood.com/garden/processors/A100; not re-read here",
        **dict.fromkeys(
            ("l2_bytes", "boost_clock", "tensor_clock"),
            "deviceQuery of an A100 at "
            "https://upb-pc2.atlassian.net/wiki/spaces/PC2DOK/pages/1900609/NVIDIA+A100+40GB+with+NVLINK",
        ),
    ),
    board=("sxm", "sxm4", "80gb"),
)

A10 = _board(
    "a10",
    "NVIDIA A10",
    86,
    compute_units=72,
    l2_bytes=6 * MIB,
    memory_bytes=24 * GIB,
    memory_bandwidth=600e9,
    boost_clock=1.695e9,
    peak={
        "fp64": 0.488e12,
        "fp32": 31.2e12,
        "tf32": 62.5e12,
        "bf16": 125e12,
        "fp16": 125e12,
        "int8": 250e12,
    },
    sources=_from(
        "https://sysrqmts.com/ru/gpus/compare/nvidia-a10-pcie-vs-nvidia-quadro-rtx-4000",
        peak=f"NVIDIA A10 datasheet, not re-read here; {_SLOW_FP64}",
    ),
    board=("pcie", "24gb"),
)

RTX_3090 = _board(
    "rtx3090",
    "NVIDIA GeForce RTX 3090",
    86,
    compute_units=82,
    l2_bytes=6 * MIB,
    memory_bytes=24 * GIB,
    memory_bandwidth=936e9,
    boost_clock=1.695e9,
    peak={
        "fp64": 0.556e12,
        "fp32": 35.6e12,
        "tf32": 35.6e12,
        "bf16": 71.2e12,
        "fp16": 71.2e12,
        "int8": 284.7e12,
    },
    sources=_from(
        "NVIDIA Ampere GA102 GPU Architecture whitepaper V2.0, appendix A, not re-read here",
    ),
    aliases=("3090", "rtx30"),
    board=("24gb",),
)

L40S = _board(
    "l40s",
    "NVIDIA L40S",
    89,
    compute_units=142,
    # The L40 has the same die and as many SMs.
    l2_bytes=96 * MIB,
    memory_bytes=48 * GIB,
    memory_bandwidth=864e9,
    boost_clock=2.52e9,
    peak={
        "fp64": 1.43e12,
        "fp32": 91.6e12,
        "tf32": 183e12,
        # Half of the 733 with sparsity; the datasheet prints 362.05 for dense, which fits no clock of the board.
        "bf16": 366.5e12,
        "fp16": 366.5e12,
        "fp8": 733e12,
        "int8": 733e12,
    },
    sources=_from(
        "https://www.itcreations.com/nvidia-gpu/nvidia-l40s-gpu-accelerator",
        peak="NVIDIA L40S datasheet, as copied at https://www.mullet.se/product.html?product_id=355414; "
        f"int8 as fp8; {_SLOW_FP64}",
        l2_bytes="measured on an L40, https://arxiv.org/abs/2606.22588",
    ),
    board=("48gb",),
)

RTX_4090 = _board(
    "rtx4090",
    "NVIDIA GeForce RTX 4090",
    89,
    compute_units=128,
    l2_bytes=72 * MIB,
    memory_bytes=24 * GIB,
    memory_bandwidth=1.008e12,
    boost_clock=2.52e9,
    peak={
        "fp64": 1.29e12,
        "fp32": 82.6e12,
        "tf32": 82.6e12,
        "bf16": 165.2e12,
        "fp16": 165.2e12,
        "fp8": 330.3e12,
        "int8": 660.6e12,
    },
    sources=_from(
        "https://waredb.com/processor/nvidia-geforce-rtx-4090 (after the NVIDIA Ada whitepaper, not re-read here)"
    ),
    aliases=("4090", "rtx40"),
    board=("24gb",),
)

H100 = _board(
    "h100",
    "NVIDIA H100 SXM",
    90,
    compute_units=132,
    l2_bytes=50 * MIB,
    memory_bytes=80 * GIB,
    memory_bandwidth=3.35e12,
    boost_clock=1.98e9,
    tensor_clock=1.83e9,
    peak=_HOPPER_PEAKS,
    sources=_from(
        _H100_SHEET,
        l2_bytes="torch.cuda.get_device_properties of the board reports L2_cache_size=50MB",
    ),
    board=("sxm", "sxm5", "80gb", "hbm3"),
)

H200 = _board(
    "h200",
    "NVIDIA H200 SXM",
    90,
    compute_units=132,
    # More than the H100: the cache next to the sixth memory stack is in use.
    l2_bytes=60 * MIB,
    memory_bytes=141 * GIB,
    memory_bandwidth=4.8e12,
    boost_clock=1.98e9,
    tensor_clock=1.83e9,
    peak=_HOPPER_PEAKS,
    sources=_from(
        _H100_SHEET,
        **dict.fromkeys(
            ("compute_units", "memory_bytes", "memory_bandwidth"),
            "NVIDIA H200 datasheet, as tabulated at "
            "https://itkb.uw.cz/2026/06/nvidia-h200-vs-b300-precisions-cores.html; not re-read here",
        ),
        l2_bytes="torch.cuda.get_device_properties of the board reports L2_cache_size=60MB",
    ),
    board=("sxm", "sxm5", "141gb", "hbm3e"),
)

_B200_DEVICE = "device query of a B200, https://github.com/pytorch/ao/pull/4002"
B200 = _board(
    "b200",
    "NVIDIA B200 SXM",
    100,
    compute_units=148,
    l2_bytes=126 * MIB + 512 * KIB,
    memory_bytes=180 * GIB,
    # 7680 bits x 3996 MHz x 2; NVIDIA's early papers say 8 TB/s.
    memory_bandwidth=7.672e12,
    boost_clock=1.965e9,
    tensor_clock=1.856e9,
    peak={
        "fp64": 37e12,
        "fp32": 75e12,
        "tf32": 1125e12,
        "bf16": 2250e12,
        "fp16": 2250e12,
        "fp8": 4500e12,
        "int8": 4500e12,
    },
    sources=_from(
        _B200_DEVICE,
        memory_bytes="MLPerf system description, https://raw.githubusercontent.com/mlcommons/inference_results_v6.0/"
        "main/closed/Nebius/systems/nebius_b200_n1.json",
        boost_clock="https://github.com/flashinfer-ai/flashinfer/pull/2899",
        tensor_clock="solved from peak['bf16'], compute_units and 8192 FLOP a clock and SM",
        peak="tensor cores: https://glennklockwood.com/garden/processors/B200 (1000 W, tf32 half of bf16); fp32 and "
        "fp64: NVIDIA HGX B200 datasheet, not re-read here (early papers say 80 and 40)",
    ),
    board=("sxm", "sxm6", "180gb", "hbm3e"),
)

_RTX_5090_REVIEW = "https://pocketmags.com/linux-format-magazine/may-2025/articles/nvidia-geforce-rtx-5090"
RTX_5090 = _board(
    "rtx5090",
    "NVIDIA GeForce RTX 5090",
    120,
    compute_units=170,
    l2_bytes=96 * MIB,
    memory_bytes=32 * GIB,
    memory_bandwidth=1.792e12,
    boost_clock=2.407e9,
    peak={
        "fp64": 1.637e12,
        "fp32": 104.8e12,
        "tf32": 104.8e12,
        "bf16": 209.5e12,
        "fp16": 209.5e12,
        "fp8": 419e12,
        "int8": 838e12,
    },
    sources=_from(
        _RTX_5090_REVIEW,
        peak=f"NVIDIA RTX Blackwell GPU Architecture whitepaper, not re-read here; {_SLOW_FP64}",
    ),
    aliases=("5090", "rtx50"),
    board=("32gb",),
)

TARGETS = (A100, A10, RTX_3090, L40S, RTX_4090, H100, H200, B200, RTX_5090)
