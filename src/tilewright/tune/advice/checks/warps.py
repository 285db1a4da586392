"""Too little on its way: units whose parts have no warp, and reads too few and small to keep the memory busy."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright.hardware.occupancy import occupancy
from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence
from tilewright.tune.dots import dots
from tilewright.wording import count, percent

# A read takes at least so long to come from device memory: 400 cycles (Ultrasonics Sonochemistry 99, 106546, table 3,
# for V100, A100 and H100) at the fastest clock there, H100's 1.755 GHz. Under load it takes longer, and more has to be
# on its way.
LATENCY_SECONDS = 228e-9
LEAST_SECONDS = 5e-6
"""A call that takes no longer ends before a steady state is reached."""


def check(seen: Evidence) -> Iterator[Advice]:
    resident = min(seen.occupancy.blocks_per_unit, math.ceil(seen.launch.programs / seen.target.compute_units))
    if resident == 0:
        return
    if dots(seen.lowered.ttir):
        yield from _idle_parts(seen, resident)
    elif seen.texts is not None and seen.launch.programs >= seen.target.compute_units * seen.occupancy.blocks_per_unit:
        yield from _little_on_its_way(seen, resident)


def _idle_parts(seen: Evidence, resident: int) -> Iterator[Advice]:
    """A unit has four parts, each with its own warps and its own share of the matrix unit."""
    parts, warps = seen.target.warp_allocation_granularity, resident * seen.resources.warps
    if warps >= parts or seen.floor_seconds < LEAST_SECONDS / 5:
        return
    yield seen.advice(
        "few-warps",
        None,
        f"{warps} of the {parts} parts of a unit have a warp: it holds {count(resident, 'program')} of "
        f"{count(seen.resources.warps, 'warp')}",
        remedy=f"num_warps={parts}" + (f"; {_one_more(seen)}" if _one_more(seen) else ""),
        cost=f"{percent(1 - warps / parts)} of the matrix units stand still",
        warps_per_unit=warps,
        limited_by=seen.occupancy.limited_by,
    )


def _little_on_its_way(seen: Evidence, resident: int) -> Iterator[Advice]:
    """Little's law: a rate of memory needs that much on its way for as long as a read takes."""
    tiles = [one for one in seen.accesses if one.op.name == "tt.load"]
    pipelined = any("tt.num_stages" in op.attributes for op in seen.texts.flow.ops) if seen.texts else False
    if not tiles or pipelined or seen.floor_seconds < LEAST_SECONDS:
        return
    each = sum(one.elements * one.element_bytes for one in tiles)
    needed = seen.target.memory_bandwidth * LATENCY_SECONDS / seen.target.compute_units
    if resident * each >= needed:
        return
    placed = seen.occupancy
    yield seen.advice(
        "few-warps",
        tiles[0].op.location,
        f"{count(resident, 'program')} of {count(seen.resources.warps, 'warp')} fit a unit ({percent(placed.fraction)} of "
        f"its warps, limited by {placed.limited_by}), and together load {resident * each / 1024:.1f} KiB at a time; memory "
        f"is only kept busy by {needed / 1024:.1f}",
        remedy="larger tiles, so that each program has more on its way"
        + (f"; or {_one_more(seen)}" if _one_more(seen) else ""),
        cost=f"at most {percent(resident * each / needed)} of the memory's rate, as a read takes "
        f"{LATENCY_SECONDS * 1e9:.0f} ns or more",
        on_its_way=resident * each,
        needed=round(needed),
        occupancy=placed.fraction,
        limited_by=placed.limited_by,
    )


def _one_more(seen: Evidence) -> str:
    """How much less one program would have to need for one more to fit."""
    needs, placed = seen.resources, seen.occupancy
    if placed.limited_by == "registers" and needs.registers:
        for registers in range(needs.registers - 1, 15, -1):
            if _fit(seen, registers, needs.shared) > placed.blocks_per_unit:
                return f"one more program fits at {registers} registers a thread (now {needs.registers})"
    if placed.limited_by == "shared":
        for shared in range(needs.shared - 1024, 0, -1024):
            if _fit(seen, needs.registers or 0, shared) > placed.blocks_per_unit:
                return (
                    f"one more program fits at {shared / 1024:.0f} KiB of shared memory (now {needs.shared / 1024:.0f})"
                )
    return ""


def _fit(seen: Evidence, registers: int, shared: int) -> int:
    return occupancy(seen.target, registers=registers, shared=shared, warps=seen.resources.warps).blocks_per_unit
