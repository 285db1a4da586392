"""A plain model of a configuration's time, to order what is to be tried. It ranks; it promises nothing.

Time is the largest of three floors (arithmetic, device memory, tile traffic through L2), stretched by what
keeps a chip from its floors: a last wave that is not full, too few warps to hide latency, spills.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.hardware.occupancy import occupancy, tail_efficiency, waves
from tilewright.hardware.target import Target
from tilewright.launch.compile import Lowered
from tilewright.launch.launch import Launch
from tilewright.records import Resources
from tilewright.tune import arithmetic
from tilewright.tune.dots import Dot, dots, largest_tile

LAUNCH_SECONDS = 3e-6
# A program's own latency, paid once a wave: what narrow rows on a large grid are made of. Set by the recorded
# H200 trials of masked_softmax over 262,144 rows of 64 (1.3 µs a wave).
WAVE_SECONDS = 1e-6
# Assumptions of the ranking, not measurements: L2 serves about this many times the device memory's rate;
L2_OVER_MEMORY = 2.5
# a unit needs about this many warps in flight to keep its pipelines busy;
BUSY_WARPS = 8
# without dots, which keep data on its way by themselves, this many warps of 32 lanes (twice the time at a quarter of
# them, as the recorded H200 trials of masked_softmax have it), and this many elements;
STREAMING_WARPS = 32
STREAMING_ELEMENTS = 4096
LANES = 32
# an iteration of a loop with dots takes this long, shared by the stages of its pipeline (recorded H200 trials of
# matmul with 16 rows: 1.2 µs where it loads 32 deep, 1.6 µs at 64);
TRIP_SECONDS = 1.3e-6
# a tile below 64 rows cannot use Hopper's warp-group instructions, which give about half more;
SMALL_TILE = 0.6
# and each this many spilled bytes per thread add the time of the kernel once more.
SPILL_BYTES = 512

# What does the arithmetic where a chip has no unit for a dot's own dtype.
_INSTEAD = {"fp8": "fp16", "int8": "fp16", "tf32": "fp32", "bf16": "fp16", "fp64": "fp32"}


@dataclass(frozen=True)
class Work:
    """Floating-point operations of one call: those of each dot, padding included, and others.

    ``known`` is False where how often a dot runs depends on data and the declaration gives no ``flops``: what is
    predicted then is made of bytes alone.
    """

    dots: Mapping[Dot, float] = field(default_factory=dict)
    others: float = 0.0
    known: bool = True


def work_of(launches: Sequence[Launch], lowered: Sequence[Lowered], flops: float | None) -> Work:
    """The arithmetic of a call: counted in its kernels, where they have dots, else as declared (``flops``)."""
    written = list(dict.fromkeys(dot for job in lowered for dot in dots(job.ttir)))
    if not written:
        return Work(others=flops or 0.0)
    total: dict[Dot, float] = {}
    for launch, job in zip(launches, lowered, strict=True):
        counted = arithmetic.count(job.ttir, launch.arguments, launch.grid)
        if counted is None:
            return Work({dot: (flops or 0.0) / len(written) for dot in written}, known=flops is not None)
        for dot, some in counted.items():
            total[dot] = total.get(dot, 0.0) + some
    return Work(total)


def predict(
    target: Target,
    launches: Sequence[Launch],
    lowered: Sequence[Lowered],
    resources: Sequence[Resources],
    work: Work,
    *,
    bytes: int,
) -> float:
    """Seconds the model gives one call; comparable between configurations of one operator only."""
    floor = max(arithmetic_seconds(target, work), bytes / target.memory_bandwidth, _tile_traffic(target, work))
    total = 0.0
    programs = sum(launch.programs for launch in launches) or 1
    for launch, job, needs in zip(launches, lowered, resources, strict=True):
        share = floor * launch.programs / programs
        filled = _waves(target, launch, needs)
        busy = max(share * _stretch(target, launch, job, needs), math.ceil(filled) * _loop(launch, job, work))
        # However little there is to do, one program's latency is waited for: what is quicker ties.
        total += LAUNCH_SECONDS + max(WAVE_SECONDS * filled + busy, WAVE_SECONDS)
    return total


def _loop(launch: Launch, job: Lowered, work: Work) -> float:
    """Seconds that a program needs for its loop, were it alone: each iteration waits for its loads."""
    trips = max((work.dots.get(dot, 0.0) / dot.flops / max(launch.programs, 1) for dot in dots(job.ttir)), default=0.0)
    return trips * TRIP_SECONDS / max(int(launch.options.get("num_stages") or 3), 1)


def _waves(target: Target, launch: Launch, needs: Resources) -> float:
    placed = occupancy(target, registers=needs.registers or 1, shared=needs.shared, warps=needs.warps)
    return waves(target, launch.programs, placed.blocks_per_unit) if placed.blocks_per_unit else 0.0


def _stretch(target: Target, launch: Launch, job: Lowered, needs: Resources) -> float:
    placed = occupancy(target, registers=needs.registers or 1, shared=needs.shared, warps=needs.warps)
    if placed.blocks_per_unit == 0 or launch.programs == 0:
        return 1.0
    resident = min(placed.blocks_per_unit, math.ceil(launch.programs / target.compute_units))
    spilled = (needs.spill_stores or 0) + (needs.spill_loads or 0)
    hidden = _hidden(job.ttir, resident, needs.warps)
    return (1 + spilled / SPILL_BYTES) / (_filled(target, launch.programs, placed.blocks_per_unit) * math.sqrt(hidden))


def _hidden(ttir: str, resident: int, warps: int) -> float:
    """How much of the latency the programs resident on a unit hide, 0 to 1."""
    if dots(ttir):
        return min(1.0, resident * warps / BUSY_WARPS)
    elements = largest_tile(ttir)
    if elements == 0:  # scalars only
        return min(1.0, resident / STREAMING_WARPS)
    useful = min(warps, math.ceil(elements / LANES))
    return min(1.0, resident * useful / STREAMING_WARPS, resident * elements / STREAMING_ELEMENTS)


def _filled(target: Target, programs: int, blocks_per_unit: int) -> float:
    """The share of the chip that is at work on average: less where units get unequal numbers of programs."""
    if programs >= target.compute_units * blocks_per_unit:
        return tail_efficiency(target, programs, blocks_per_unit)
    return tail_efficiency(target, programs, 1)


def arithmetic_seconds(target: Target, work: Work) -> float:
    seconds = work.others / target.peak["fp32"]
    for dot, flops in work.dots.items():
        small = SMALL_TILE if dot.rows < 64 and target.arch == "sm_90" else 1.0
        seconds += dot.products * flops / (_peak(target, dot.peak) * small)
    return seconds


def _peak(target: Target, name: str) -> float:
    while name not in target.peak:
        name = _INSTEAD.get(name, "fp32")
    return target.peak[name]


def _tile_traffic(target: Target, work: Work) -> float:
    """Bytes that the tiles of matrix products read from L2: each operand once per tile of the other side."""
    moved = sum(flops / 2 * (1 / dot.rows + 1 / dot.columns) * dot.element_bytes for dot, flops in work.dots.items())
    return moved / (target.memory_bandwidth * L2_OVER_MEMORY)
