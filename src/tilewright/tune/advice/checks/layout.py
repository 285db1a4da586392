"""Tiles that change their layout in a loop, through shared memory: written, waited for by all warps, and read again."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright.launch.pipeline import number_at
from tilewright.launch.ttir import Op
from tilewright.records import Advice
from tilewright.tune.advice.checks.overlap import PRODUCTS
from tilewright.tune.advice.evidence import Evidence
from tilewright.tune.advice.flow import Flow, flow_of

LEAST_BYTES = 4096
LEAST_INSTRUCTIONS = 8
"""A row of numbers, or a small tile, changes its layout for next to nothing."""
_WRITES, _READS = ("st.shared", "stmatrix"), ("ld.shared", "ldmatrix")
_BITS = {"f8": 8, "i1": 8, "i8": 8, "f16": 16, "bf16": 16, "i16": 16, "f32": 32, "i32": 32, "f64": 64, "i64": 64}


def check(seen: Evidence) -> Iterator[Advice]:
    assert seen.texts is not None
    flow = flow_of(seen.texts.ttgir)
    shared = _through_shared(seen)
    reduced = {number_at(op.location.line) for op in flow.ops if op.name in ("tt.reduce", "tt.scan")}
    for op in flow.ops:
        loop = flow.loop_of(op)
        number = number_at(op.location.line)
        if op.name != "ttg.convert_layout" or loop is None or number in reduced or number not in shared:
            continue
        size = _bytes(op)
        if size < LEAST_BYTES or shared[number] < LEAST_INSTRUCTIONS or _is_needed(op, loop, flow):
            continue
        shape = "x".join(map(str, op.result_types[0].shape))
        element = op.result_types[0].element.partition(",")[0]
        yield seen.advice(
            "layout-conversion",
            seen.texts.place_of(op),
            f"a {shape} {element} tile changes its layout in each iteration, through shared memory "
            f"({shared[number]} instructions a thread)",
            remedy="what stays the same in the loop can change before it, what is only added up after it; a tile that is "
            "added to a product can be its accumulator: tl.dot(a, b, tile)",
            cost=f"{2 * size / 1024:.0f} KiB written and read, and a barrier, in each iteration",
            bytes=size,
            instructions=shared[number],
        )


def _through_shared(seen: Evidence) -> dict[int, int]:
    """How many instructions in loops write and read shared memory for an operation; only where it does both."""
    assert seen.texts is not None
    writes: dict[int, int] = {}
    reads: dict[int, int] = {}
    for one in seen.texts.ptx:
        if one.origin is not None and one.loop is not None:
            for counts, names in ((writes, _WRITES), (reads, _READS)):
                if one.opcode.startswith(names):
                    counts[one.origin] = counts.get(one.origin, 0) + 1
    return {number: writes[number] + reads[number] for number in writes.keys() & reads.keys()}


def _bytes(op: Op) -> int:
    element = op.result_types[0].element.partition(",")[0]
    bits = _BITS.get("f8" if element.startswith("f8") else element, 0)
    return math.prod(op.result_types[0].shape) * bits // 8


def _is_needed(op: Op, loop: Op, flow: Flow) -> bool:
    """An operand of a product goes through shared memory anyway, and a result is stored in rows."""
    users = [other for other in loop.regions[-1].ops() if op.results[0] in other.operands]
    source = flow.maker.get(op.operands[0])
    from_memory = source is not None and source.name == "tt.load"
    return (from_memory and any(user.name in PRODUCTS for user in users)) or all(
        user.name in ("tt.store", "tt.atomic_rmw") for user in users
    )
