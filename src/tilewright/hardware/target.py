"""What one chip can do: the record behind every limit, occupancy and roofline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Target:
    """A chip, with the vendor's limits and peaks.

    A *unit* is what programs are placed on: an SM (NVIDIA) or a CU (AMD). A *warp* is AMD's wavefront, a *block* is
    one program, *shared* memory is AMD's LDS. Everything is in bytes, hertz, bytes per second, FLOP per second.

    ``peak`` holds dense rates, without structured sparsity, by dtype:

    ========================  ========================================================================================
    ``fp32``                  the ordinary cores (CUDA cores, vector ALUs), one fused multiply-add counted as two
    ``tf32`` ``bf16``         tensor cores (matrix cores), accumulating in fp32: GeForce boards run fp16 and fp8 twice
    ``fp16`` ``fp8``          as fast when they accumulate in fp16, which is not what ``tl.dot`` does unless asked
    ``int8``                  tensor cores, accumulating in int32; operations per second
    ``fp64``                  the faster of tensor cores and ordinary cores
    ========================  ========================================================================================

    A key that is absent means that the chip has no such unit (fp8 on an A100): a kernel there computes in another
    dtype, and must be judged by that one.

    ``sources`` says for each field where its figures come from.
    """

    name: str  # what a user types: "h100"
    title: str  # "NVIDIA H100 SXM"
    arch: str  # "sm_90", "gfx942"
    backend: str  # "cuda" or "hip"
    capability: int | str  # 90 or "gfx942": what Triton's GPUTarget(backend, arch, warp_size) takes as its arch
    warp_size: int

    compute_units: int
    registers_per_unit: int  # 32-bit registers
    max_registers_per_thread: int
    register_allocation_unit: int  # registers; a warp gets a multiple of this
    warp_allocation_granularity: int  # sub-partitions (SIMDs) of a unit: each has its share of registers and warps
    max_threads_per_unit: int
    max_warps_per_unit: int
    max_blocks_per_unit: int
    max_threads_per_block: int
    max_grid: tuple[int, int, int]  # programs along x, y, z

    shared_per_block: int  # the most one program can ask for, after opting in
    shared_per_unit: int
    shared_reserved_per_block: int  # taken by the driver from each resident block, on top of what the program asks for
    shared_allocation_unit: int

    l2_bytes: int
    memory_bytes: int  # the nominal size; the driver and ECC keep some of it
    memory_bandwidth: float
    boost_clock: float  # the clock behind peak["fp32"] and peak["fp64"]
    tensor_clock: float  # the clock behind the tensor-core peaks; lower than the boost clock on H100, H200 and B200
    peak: Mapping[str, float] = field(hash=False)

    claims_timing: bool  # False: used to tell what compiles and fits, never to predict or judge a time
    sources: Mapping[str, str] = field(hash=False, repr=False)
    aliases: tuple[str, ...] = ()  # further names, lower case, letters and digits only
    board: tuple[str, ...] = ()  # words that a driver adds to this very board's name: "sxm4", "80gb"
