"""A plain model of a configuration's time, to order what is to be tried. It ranks; it promises nothing.

Time is the largest of three floors (arithmetic, device memory, tile traffic through L2), stretched by what
keeps a chip from its floors: a last wave that is not full, too few warps to hide latency, spills.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tilewright.hardware.occupancy import occupancy, tail_efficiency, waves
from tilewright.hardware.target import Target
from tilewright.launch.compile import Lowered
from tilewright.launch.launch import Launch
from tilewright.records import Resources

LAUNCH_SECONDS = 3e-6
# A program's own latency, paid once a wave: what narrow rows on a large grid are made of. Set by the recorded
# H200 trials of masked_softmax over 262,144 rows of 64 (1.3 µs a wave).
WAVE_SECONDS = 1e-6
# Assumptions of the ranking, not measurements: L2 serves about this many times the device memory's rate;
L2_OVER_MEMORY = 2.5
# a unit needs about this many warps in flight to keep its pipelines busy;
BUSY_WARPS = 8
# a tile below 64 rows cannot use Hopper's warp-group instructions, which give about half more;
SMALL_TILE = 0.6
# and each this many spilled bytes per thread add the time of the kernel once more.
SPILL_BYTES = 512

_DOT = re.compile(r"tt\.dot .*?tensor<(\d+)x(\d+)x\w+>\s*\*\s*tensor<(\d+)x(\d+)x(\w+)>")


def predict(
    target: Target,
    launches: Sequence[Launch],
    lowered: Sequence[Lowered],
    resources: Sequence[Resources],
    *,
    flops: float | None,
    dtype: str | None,
    bytes: int,
) -> float:
    """Seconds the model gives one call; comparable between configurations of one operator only."""
    tiles = [tile for job in lowered for tile in _dot_tiles(job.ttir)]
    floor = max(
        _arithmetic(target, flops, dtype, tiles), bytes / target.memory_bandwidth, _tile_traffic(target, flops, tiles)
    )
    total = 0.0
    programs = sum(launch.programs for launch in launches) or 1
    for launch, needs in zip(launches, resources, strict=True):
        share = floor * launch.programs / programs
        total += LAUNCH_SECONDS + share * _stretch(target, launch, needs) + WAVE_SECONDS * _waves(target, launch, needs)
    return total


def _waves(target: Target, launch: Launch, needs: Resources) -> float:
    placed = occupancy(target, registers=needs.registers or 1, shared=needs.shared, warps=needs.warps)
    return waves(target, launch.programs, placed.blocks_per_unit) if placed.blocks_per_unit else 0.0


def _stretch(target: Target, launch: Launch, needs: Resources) -> float:
    placed = occupancy(target, registers=needs.registers or 1, shared=needs.shared, warps=needs.warps)
    if placed.blocks_per_unit == 0 or launch.programs == 0:
        return 1.0
    resident = min(placed.blocks_per_unit, math.ceil(launch.programs / target.compute_units))
    hidden = min(1.0, resident * needs.warps / BUSY_WARPS)
    spilled = (needs.spill_stores or 0) + (needs.spill_loads or 0)
    return (1 + spilled / SPILL_BYTES) / (
        tail_efficiency(target, launch.programs, placed.blocks_per_unit) * math.sqrt(hidden)
    )


def _arithmetic(
    target: Target, flops: float | None, dtype: str | None, tiles: list[tuple[int, int, int, int]]
) -> float:
    if flops is None:
        return 0.0
    if not tiles:
        return flops / target.peak["fp32"]
    key = {"bf16": "bf16", "fp16": "fp16", "fp8e4m3": "fp8", "fp8e5m2": "fp8", "int8": "int8"}.get(dtype or "", "fp32")
    rate = target.peak.get(key, target.peak["fp32"])
    smallest = min(rows for rows, *_ in tiles)
    return flops / (rate * (SMALL_TILE if smallest < 64 and target.arch == "sm_90" else 1.0))


def _tile_traffic(target: Target, flops: float | None, tiles: list[tuple[int, int, int, int]]) -> float:
    """Bytes that tiles of a matrix product read from L2: each operand once per tile of the other side."""
    if flops is None or not tiles:
        return 0.0
    rows, columns, _, size = max(tiles, key=lambda tile: tile[0] * tile[1])
    return flops / 2 * (1 / rows + 1 / columns) * size / (target.memory_bandwidth * L2_OVER_MEMORY)


def _dot_tiles(ttir: str) -> list[tuple[int, int, int, int]]:
    """(rows, columns, depth, bytes of an operand's element) of each dot."""
    sizes = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}
    return [(int(m), int(n), int(k), sizes.get(kind, 1)) for m, k, _, n, kind in _DOT.findall(ttir)]
