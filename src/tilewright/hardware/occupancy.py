"""How many programs are resident on one unit, and what stops there being more.

The rules are those of NVIDIA's occupancy calculator (``cuda_occupancy.h`` of the CUDA toolkit, compute capability 8.0
and later): registers are handed out a warp at a time, in whole allocation units, from the share of the sub-partition
the warp sits on; shared memory is handed out a block at a time, in whole allocation units, and the driver's own share
comes on top of what the program asks for.

AMD's chips are put through the same rules with their own numbers, which is simpler than the hardware: 512 vector
registers a lane on each of 4 SIMDs in units of 8, up to 8 wavefronts a SIMD, 64 KiB (gfx942) or 160 KiB (gfx950) of
LDS. Scalar registers and barriers are left out: they never bind there before the 32 wavefronts of a CU do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tilewright.errors import UsageError
from tilewright.hardware.target import Target

Limit = Literal["warps", "blocks", "registers", "shared", "none fits"]


class Limits(NamedTuple):
    """Blocks that one unit could hold if this were the only limit; 0 where not even one block fits."""

    # In the order in which a tie is told: first what no change to the kernel's resources can lift.
    warps: int
    blocks: int
    registers: int
    shared: int


@dataclass(frozen=True)
class Occupancy:
    """What one unit (SM, CU) holds at a time."""

    blocks_per_unit: int
    warps_per_unit: int
    fraction: float  # of the warps that the unit could hold, 0 to 1
    limited_by: Limit
    limits: Limits


def occupancy(target: Target, *, registers: int, shared: int, warps: int) -> Occupancy:
    """The theoretical occupancy of a kernel on ``target``.

    Args:
        registers: per thread, as the compiler reports them (on AMD architectural and accumulation registers
            together); 0 if not known, which then limits nothing.
        shared: bytes per block, static and dynamic, without what the driver reserves.
        warps: per block; with warp specialisation, of all its partitions together.

    A block that fits on no unit at all gives 0 blocks and ``limited_by="none fits"``; ``limits`` then tells why.

    Raises:
        UsageError: for a negative resource, or a block with no warp.
    """
    if registers < 0 or shared < 0 or warps < 1:
        raise UsageError(
            f"occupancy of {registers} registers, {shared} bytes of shared memory, {warps} warps",
            "registers and shared are 0 or more, warps 1 or more",
        )
    limits = Limits(
        warps=_by_warps(target, warps),
        blocks=target.max_blocks_per_unit,
        registers=_by_registers(target, registers, warps),
        shared=_by_shared(target, shared),
    )
    blocks = min(limits)
    limiting: Limit = Limits._fields[limits.index(blocks)] if blocks else "none fits"  # type: ignore[assignment]
    resident = blocks * warps
    return Occupancy(blocks, resident, resident / target.max_warps_per_unit, limiting, limits)


def waves(target: Target, programs: int, blocks_per_unit: int) -> float:
    """How many times ``programs`` fill all units, ``blocks_per_unit`` resident on each; 1.5 is one wave and a half.

    Raises:
        UsageError: if there is no program, or no block fits.
    """
    if programs < 1 or blocks_per_unit < 1:
        raise UsageError(
            f"waves of {programs} programs with {blocks_per_unit} resident on a unit",
            "both are 1 or more; a kernel that fits on no unit has no waves",
        )
    return programs / (target.compute_units * blocks_per_unit)


def tail_efficiency(target: Target, programs: int, blocks_per_unit: int) -> float:
    """The share of block slots in use over all waves, the last one often part empty: 1.0 if all are full.

    It bounds what a grid of equal programs can reach, however good each program is.

    Raises:
        UsageError: as ``waves``.
    """
    filled = waves(target, programs, blocks_per_unit)
    return filled / math.ceil(filled)


def _by_warps(target: Target, warps: int) -> int:
    if warps * target.warp_size > target.max_threads_per_block:
        return 0
    return target.max_warps_per_unit // warps


def _by_registers(target: Target, registers: int, warps: int) -> int:
    if registers == 0:
        return target.max_blocks_per_unit
    if registers > target.max_registers_per_thread:
        return 0
    partitions = target.warp_allocation_granularity
    per_warp = _round_up(registers * target.warp_size, target.register_allocation_unit)
    # The launch is checked as if each sub-partition got as many warps as the fullest one.
    if per_warp * _round_up(warps, partitions) > target.registers_per_unit:
        return 0
    warps_per_partition = target.registers_per_unit // partitions // per_warp
    return warps_per_partition * partitions // warps


def _by_shared(target: Target, shared: int) -> int:
    if shared > target.shared_per_block:
        return 0
    per_block = _round_up(shared + target.shared_reserved_per_block, target.shared_allocation_unit)
    return target.shared_per_unit // per_block if per_block else target.max_blocks_per_unit


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
