"""Atomic additions in a loop to an address that stays the same: they can be added up in a register first."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.launch.ttir import Op
from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence

_REDUCING = ("fadd", "add", "max", "min", "umax", "umin", "and", "or")


def check(seen: Evidence) -> Iterator[Advice]:
    assert seen.texts is not None
    flow = seen.texts.flow
    for op in flow.ops:
        loop = flow.loop_of(op)
        if op.name != "tt.atomic_rmw" or loop is None or loop.name != "scf.for" or not _reduces(op):
            continue
        used = any(op.results[0] in other.operands for other in flow.ops)
        if used or _changes(seen, op.operands[0], loop):
            continue
        yield seen.advice(
            "atomic-in-loop",
            op.location,
            "an atomic operation in each iteration, always to the same address",
            remedy="add up in a variable, and do it once after the loop",
            cost="each goes to L2 and waits for those of other programs",
        )


def _reduces(op: Op) -> bool:
    return any(word in op.body.replace(",", " ").split() for word in _REDUCING)


def _changes(seen: Evidence, pointer: str, loop: Op) -> bool:
    """Whether an address follows from what differs from one iteration to the next."""
    assert seen.texts is not None
    flow = seen.texts.flow
    for value in flow.behind([pointer]):
        maker = flow.maker.get(value)
        if value == loop.operands[0] or value in loop.operands[4::2]:
            return True
        if maker is not None and maker.name in ("tt.load", "tt.atomic_rmw") and flow.loop_of(maker) is loop:
            return True
    return False
