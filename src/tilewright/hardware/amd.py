"""AMD's chips: data only, and for feasibility only (``claims_timing`` is False).

To add a board, add one ``_board(...)`` entry to ``TARGETS``; a new arch also needs a row in ``_LDS``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.hardware.target import Target

KIB, MIB, GIB = 2**10, 2**20, 2**30

_SPECS = "AMD GPU specifications, https://rocm.docs.amd.com/en/latest/_sources/reference/gpu-specs.rst"
_LLVM = (
    "LLVM, lib/Target/AMDGPU/Utils/AMDGPUBaseInfo.cpp (gfx90a and later), and "
    "https://llvm.org/docs/CommandGuide/llvm-calc-occupancy.html"
)
_HIP = "ROCm clr, hipamd/src/hip_device.cpp, https://github.com/ROCm/clr"

_LIMIT_SOURCES = {
    **dict.fromkeys(
        (
            "arch",
            "capability",
            "warp_size",
            "compute_units",
            "registers_per_unit",
            "shared_per_block",
            "shared_per_unit",
            "l2_bytes",
            "memory_bytes",
        ),
        _SPECS,
    ),
    **dict.fromkeys(
        (
            "max_registers_per_thread",
            "register_allocation_unit",
            "warp_allocation_granularity",
            "max_threads_per_unit",
            "max_warps_per_unit",
        ),
        _LLVM,
    ),
    "max_blocks_per_unit": "at least one of the 32 resident wavefronts each",
    "max_threads_per_block": "HIP's maxThreadsPerBlock on these chips, not re-read here",
    "max_grid": _HIP,
    "shared_reserved_per_block": _HIP,
    "shared_allocation_unit": "LLVM, AMDGPUUsage, GRANULATED_LDS_SIZE, "
    "https://github.com/llvm/llvm-project/commit/5f38ae4a77d42a0165070a8ad9b6ea2dbbfdfb51",
}

# LDS of a CU, and the unit it is handed out in: 128 and 320 dwords.
_LDS = {"gfx942": (64 * KIB, 512), "gfx950": (160 * KIB, 1280)}


def _board(
    name: str,
    title: str,
    arch: str,
    *,
    compute_units: int,
    memory_bytes: int,
    memory_bandwidth: float,
    clock: float,
    peak: Mapping[str, float],
    sources: Mapping[str, str],
    aliases: tuple[str, ...] = (),
    board: tuple[str, ...] = (),
) -> Target:
    shared, shared_allocation_unit = _LDS[arch]
    return Target(
        name=name,
        title=title,
        arch=arch,
        backend="hip",
        capability=arch,
        warp_size=64,
        compute_units=compute_units,
        # 4 SIMDs x 512 vector registers x 64 lanes, architectural and accumulation registers being one file.
        registers_per_unit=4 * 512 * 64,
        max_registers_per_thread=512,
        register_allocation_unit=8 * 64,
        warp_allocation_granularity=4,
        max_threads_per_unit=2048,
        max_warps_per_unit=32,
        max_blocks_per_unit=32,
        max_threads_per_block=1024,
        max_grid=(2**31 - 1, 65536, 65536),
        shared_per_block=shared,
        shared_per_unit=shared,
        shared_reserved_per_block=0,
        shared_allocation_unit=shared_allocation_unit,
        # 4 MiB for each of the 8 dies: a program only ever meets the cache of its own die.
        l2_bytes=32 * MIB,
        memory_bytes=memory_bytes,
        memory_bandwidth=memory_bandwidth,
        boost_clock=clock,
        tensor_clock=clock,
        peak=dict(peak),
        claims_timing=False,
        sources={**_LIMIT_SOURCES, **sources},
        aliases=aliases,
        board=board,
    )


_MI300 = (
    "AMD Instinct MI300 series microarchitecture, "
    "https://rocm.docs.amd.com/en/docs-6.2.2/conceptual/gpu-arch/mi300.html"
)
_CLOCKS = (
    "https://wccftech.com/amd-instinct-mi350-gpuai-hardware-powerhouse-3nm-3d-chiplet-cdna-4-185-billion-transistors-"
    "1400w-tbp-over-4000b-llm-support//amp/"
)
_CDNA4 = {
    "memory_bandwidth": "AMD Instinct MI350 series datasheet, not re-read here",
    "boost_clock": _CLOCKS,
    "tensor_clock": _CLOCKS,
    "peak": "AMD CDNA 4 architecture whitepaper, not re-read here; no tf32 unit: "
    "https://rocm.docs.amd.com/projects/rocprofiler-compute/en/develop/conceptual/cdna/cdna-performance-model.html",
}

MI300X = _board(
    "mi300x",
    "AMD Instinct MI300X",
    "gfx942",
    compute_units=304,
    memory_bytes=192 * GIB,
    memory_bandwidth=5.3e12,
    clock=2.1e9,
    peak={
        "fp64": 163.4e12,
        "fp32": 163.4e12,
        "tf32": 653.7e12,
        "bf16": 1307.4e12,
        "fp16": 1307.4e12,
        "fp8": 2614.9e12,
        "int8": 2614.9e12,
    },
    sources={
        "memory_bandwidth": _MI300,
        "peak": _MI300,
        "boost_clock": f"solved from the peaks and the FLOP a clock and CU of {_MI300}",
        "tensor_clock": f"solved from the peaks and the FLOP a clock and CU of {_MI300}",
    },
    aliases=("mi300",),
    board=("oam", "192gb", "hbm3", "vf"),
)

MI350X = _board(
    "mi350x",
    "AMD Instinct MI350X",
    "gfx950",
    compute_units=256,
    memory_bytes=288 * GIB,
    memory_bandwidth=8e12,
    clock=2.2e9,
    peak={
        "fp64": 72.1e12,
        "fp32": 144.2e12,
        "bf16": 2306.9e12,
        "fp16": 2306.9e12,
        "fp8": 4613.7e12,
        "int8": 4613.7e12,
    },
    sources=_CDNA4,
    aliases=("mi350",),
    board=("oam", "288gb", "hbm3e", "vf"),
)

MI355X = _board(
    "mi355x",
    "AMD Instinct MI355X",
    "gfx950",
    compute_units=256,
    memory_bytes=288 * GIB,
    memory_bandwidth=8e12,
    clock=2.4e9,
    peak={
        "fp64": 78.6e12,
        "fp32": 157.3e12,
        "bf16": 2516.6e12,
        "fp16": 2516.6e12,
        "fp8": 5033.2e12,
        "int8": 5033.2e12,
    },
    sources=_CDNA4,
    aliases=("mi355",),
    board=("oam", "288gb", "hbm3e", "vf"),
)

TARGETS = (MI300X, MI350X, MI355X)
