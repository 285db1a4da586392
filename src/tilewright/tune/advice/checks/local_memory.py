"""Registers that spill, and arrays that lie in local memory: what each thread keeps in device memory for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tilewright.launch.ttir import Location
from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence
from tilewright.tune.advice.sass import Instruction

LITTLE = 64  # bytes
_LOCAL = ("LDL", "STL")
_PATIENCE = 8.0
"""Seconds that a compilation may have taken for another with more warps to be worth asking for."""


def check(seen: Evidence) -> Iterator[Advice]:
    spilled = (seen.resources.spill_stores or 0) + (seen.resources.spill_loads or 0)
    if seen.texts is None:
        if spilled:
            yield _spills(seen, [], "")
        return
    local = [one for one in seen.texts.sass if one.opcode.startswith(_LOCAL)]
    repeated = [one for one in local if one.in_loop]
    has_loops = any(op.name in ("scf.for", "scf.while") for op in seen.texts.flow.ops)
    if spilled and repeated:
        yield _spills(seen, repeated, f"; {len(repeated)} of the instructions for it stand in a loop")
    elif spilled and not has_loops:
        yield _spills(seen, local, "")
    elif arrays := [one for one in repeated if not spilled and _in_users_loop(seen, one)]:
        yield seen.advice(
            "local-memory",
            _most_common(seen, arrays),
            f"{len(arrays)} instructions of each iteration go to local memory ({seen.resources.stack} bytes a thread): an "
            "array that is indexed by what only the run knows has no place in registers",
            remedy="index it by constants (tl.static_range), or select with tl.where",
            cost="each goes through L1, and to device memory where that is full",
            instructions=len(arrays),
            stack=seen.resources.stack,
        )


def _spills(seen: Evidence, instructions: list[Instruction], where: str) -> Advice:
    needs = seen.resources
    stores, loads = needs.spill_stores or 0, needs.spill_loads or 0
    limit = seen.launch.options.get("maxnreg")
    held = f"maxnreg = {limit}" if limit else f"{needs.registers} registers a thread"
    cost = f"{stores + loads} bytes a thread to and from local memory"
    return seen.advice(
        "spills",
        _most_common(seen, instructions),
        f"at {held}, {stores} bytes are spilled and {loads} read back{where}",
        remedy=_remedy(seen, limit),
        cost=cost + ("; a kernel that spills so little can still be the fastest" if stores + loads <= LITTLE else ""),
        registers=needs.registers,
        spill_stores=stores,
        spill_loads=loads,
        instructions=len(instructions),
    )


def _remedy(seen: Evidence, limit: int | None) -> str:
    """What the compiler says of twice the warps, where asking it does not take long."""
    if limit:
        return f"a maxnreg above {limit}, or none; else a smaller tile"
    warps = seen.resources.warps
    more = f"num_warps={2 * warps} (each thread then holds half as much)"
    if 2 * warps * seen.target.warp_size > seen.target.max_threads_per_block:
        return "a smaller tile: there can be no more warps"
    if seen.resources.compile_seconds > _PATIENCE:
        return f"a smaller tile, or {more}"
    (texts,) = seen.compiled_with([{"num_warps": 2 * warps}], keep=("ttir",), until=None)
    if texts is None:
        return "a smaller tile"
    spilled = (texts.resources.spill_stores or 0) + (texts.resources.spill_loads or 0)
    if spilled == 0:
        return f"num_warps={2 * warps}: compiled so, nothing spills; or a smaller tile"
    return f"a smaller tile; num_warps={2 * warps} still spills ({spilled} bytes)"


def _most_common(seen: Evidence, instructions: list[Instruction]) -> Location | None:
    """The place that most instructions come from."""
    counted = Counter(one.origin for one in instructions if one.origin is not None)
    if seen.texts is None or not counted:
        return None
    return seen.texts.place.get(counted.most_common(1)[0][0])


def _in_users_loop(seen: Evidence, one: Instruction) -> bool:
    """Library functions keep arrays of their own for arguments that hardly occur: those do not count."""
    assert seen.texts is not None
    for op in seen.texts.flow.ops:
        if seen.texts.number[op.index] == one.origin:
            return bool(seen.texts.flow.loops_around(op)) and op.name != "tt.extern_elementwise"
    return False
