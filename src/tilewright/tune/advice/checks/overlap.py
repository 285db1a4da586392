"""Loops around matrix products in which nothing overlaps: each iteration loads, waits, multiplies, and loads again.

A load that is not copied ahead stands in the loop as a plain load whose result the product of the same iteration
needs. And copies may be waited for to the last one before each product, so that none is on its way meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.launch.pipeline import number_at
from tilewright.launch.ttir import Location, Op, integer
from tilewright.records import Advice
from tilewright.tune.advice.checks.narrow import ASYNC, narrow_accesses
from tilewright.tune.advice.evidence import Evidence, Texts, loops_with
from tilewright.tune.advice.flow import flow_of
from tilewright.tune.advice.places import own_frames

PRODUCTS = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
MOST_STAGES = 4


def check(seen: Evidence) -> Iterator[Advice]:
    assert seen.texts is not None
    for loop in _loops(seen.texts):
        waiting = _plain_loads(seen.texts, loop)
        if waiting:
            yield _unpipelined(seen, loop, waiting)
        elif product := _drained(loop):
            found = _drains(seen, loop, product)
            if found is not None:
                yield found


def _loops(texts: Texts) -> list[Op]:
    flow = flow_of(texts.ttgir)
    return loops_with(iter(flow.ops), flow, PRODUCTS)


def _plain_loads(texts: Texts, loop: Op) -> list[Op]:
    """Loads of tiles that a product of the same iteration waits for.

    Those of a descriptor are copies in any case, and here into memory that the iteration itself sets up.
    """
    flow = flow_of(texts.ttgir)
    found = []
    for op in loop.regions[-1].ops():
        if op.name == "tt.load" and op.result_types[0].shape:
            loaded = list(op.results)
        elif op.name == "ttng.async_tma_copy_global_to_local":
            makers = {name: flow.maker[name] for name in op.operands if name in flow.maker}
            loaded = [
                n for n, maker in makers.items() if maker.name == "ttg.local_alloc" and flow.loop_of(maker) is loop
            ]
        else:
            continue
        users = [user for value in loaded for user in flow.follows_within(value, loop)]
        if flow.loop_of(op) is loop and any(user.name in PRODUCTS for user in users):
            found.append(op)
    return found


def _drained(loop: Op) -> str | None:
    """The product of a loop that finds all copies waited for, and the next not yet started; None where there is none.

    Of several products the copies for one may run during another.
    """
    on_its_way: int | None = None
    products = []
    for op in loop.regions[-1].ops():
        if op.name == "ttg.async_wait":
            on_its_way = integer(op.attributes, "num")
        elif op.name == "ttg.async_commit_group":
            on_its_way = None if on_its_way is None else on_its_way + 1
        elif op.name in PRODUCTS:
            products.append(op.name)
            if on_its_way != 0:
                return None
    return products[0] if products and (len(products) == 1 or set(products) == {"tt.dot"}) else None


# ----------------------------------------------------------------------------------------------------- in words


def _unpipelined(seen: Evidence, loop: Op, loads: list[Op]) -> Advice:
    assert seen.texts is not None
    lines = [line for op in loads if (line := _line(seen.texts.place_of(op))) is not None]
    named = f"the load of line {lines[0]}" if len(set(lines)) == 1 else f"the loads of lines {_listed(lines)}"
    why, remedy = _reason(seen, loop, loads)
    return seen.advice(
        "no-overlap",
        seen.texts.place_of(loads[0]),
        f"{named} {'is' if len(set(lines)) == 1 else 'are'} waited for in each iteration, none is copied ahead{why}",
        remedy=remedy,
        cost=f"each iteration waits for memory once; {_others(seen)}",
        loads=len(loads),
        num_stages=seen.stages,
        programs_per_unit=seen.occupancy.blocks_per_unit,
    )


def _reason(seen: Evidence, loop: Op, loads: list[Op]) -> tuple[str, str]:
    """Why the loop is not pipelined, and what to try; only what is certain."""
    assert seen.texts is not None
    own = _own_stages(seen.texts, loop)
    stages = seen.stages if own is None else own
    if loop.name == "scf.while":
        return (
            ": Triton pipelines for loops only, and this is a while loop",
            "write it as a for loop over a known range",
        )
    if stages <= 1:
        where = f": num_stages = {stages}" + (" at this loop's tl.range" if own is not None else "")
        return where, _more_stages(seen, loop) if own is None else "leave num_stages out of tl.range, or give 3"
    numbers = {number_at(op.location.line) for op in loads}
    small = [one for one in narrow_accesses(seen) if seen.texts.number[one.access.op.index] in numbers]
    small = [one for one in small if one.width < ASYNC]
    if small:
        words = f": {small[0].width} bytes at a time are less than the {ASYNC} of an asynchronous copy"
        return words, "wider accesses (narrow-access says what keeps them narrow, where there is something to be done)"
    for access in seen.accesses:
        before = [op for op in access.loaded if seen.texts.flow.loop_of(op) is access.loop and op is not access.op]
        if seen.texts.number[access.op.index] in numbers and before:
            line = before[0].location.line
            words = f": its address follows from what line {line} loads in the same iteration"
            return words, "load the indices of a later iteration ahead, or of all before the loop"
    branch = next((op for op in loop.regions[-1].ops() if op.name == "scf.if" and _holds(op, loads)), None)
    if branch is not None:
        words = f": the product or its load stands in the branch of line {_line(seen.texts.place_of(branch))}"
        return words, "let each iteration do the same: a bound of the loop, or a mask, in place of the branch"
    return "", f"load and multiply in the loop's own body: num_stages = {stages} should have copied ahead, and did not"


def _holds(branch: Op, loads: list[Op]) -> bool:
    inside = [op for region in branch.regions for op in region.ops()]
    return any(op.name in PRODUCTS or any(op is load for load in loads) for op in inside)


def _more_stages(seen: Evidence, loop: Op) -> str:
    """The first number of stages with which the compiler overlaps this loop, and what it needs."""
    for stages in range(max(2, seen.stages + 1), MOST_STAGES + 1):
        (texts,) = seen.compiled_with([{"num_stages": stages}], keep=("ttir", "ttgir", "ptx"))
        if texts is None:
            continue
        same = [other for other in _loops(texts) if other.location.line == loop.location.line]
        if not same or _plain_loads(texts, same[0]) or _drained(same[0]):
            continue
        needs, has = texts.resources.shared, seen.target.shared_per_block
        if needs > has:
            return (
                f"num_stages={stages} overlaps, but needs {needs / 1024:.0f} KiB of shared memory where "
                f"{seen.target.name} has {has / 1024:.0f}: with smaller tiles it fits"
            )
        return f"num_stages={stages}: compiled so, copies are on their way meanwhile ({needs / 1024:.0f} KiB of shared memory)"
    return ""


def _drains(seen: Evidence, loop: Op, product: str) -> Advice | None:
    """Of a program that has few beside it on its unit, or none: others would fill the gaps.

    mma.sync holds up what stands behind it, so the next copies start when it is done. wgmma runs on while they start;
    they have the time of one product, which recorded H200 trials of a matmul show to be too short for one program.
    """
    assert seen.texts is not None
    behind = {"tt.dot": "behind it: none is on its way while it runs", "ttng.warp_group_dot": "with it: one tile ahead"}
    alone = {"tt.dot": 2, "ttng.warp_group_dot": 1}
    if product not in behind or seen.occupancy.blocks_per_unit > alone[product]:
        return None
    remedy = _more_stages(seen, loop)
    if not remedy:
        return None
    wait = next(op for op in loop.regions[-1].ops() if op.name == "ttg.async_wait")
    return seen.advice(
        "no-overlap",
        seen.texts.place_of(wait),
        f"with num_stages = {seen.stages} all copies are waited for before each product (cp.async.wait_group 0), and the "
        f"next start {behind[product]}",
        remedy=remedy,
        cost=f"each iteration waits for memory; {_others(seen)}",
        num_stages=seen.stages,
        programs_per_unit=seen.occupancy.blocks_per_unit,
    )


def _others(seen: Evidence) -> str:
    resident = seen.occupancy.blocks_per_unit
    if resident <= 1:
        return "no other program is on the unit to fill the gap"
    return f"only the other programs on the unit ({resident} fit) fill the gap"


def _own_stages(texts: Texts, loop: Op) -> int | None:
    """What ``tl.range(…, num_stages=)`` says at this very loop."""
    for op in texts.ttir.ops():
        if (
            op.name == "scf.for"
            and texts.number[op.index] == number_at(loop.location.line)
            and "tt.num_stages" in op.attributes
        ):
            return integer(op.attributes, "tt.num_stages")
    return None


def _line(location: Location) -> int | None:
    frames = own_frames(location)
    return frames[0].line if frames else None


def _listed(lines: list[int]) -> str:
    *first, last = [str(line) for line in dict.fromkeys(lines)]
    return f"{', '.join(first)} and {last}"
