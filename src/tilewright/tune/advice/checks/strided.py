"""Tiles of which no two elements lie side by side: each costs a sector of memory of its own."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence
from tilewright.tune.advice.tiles import Access

SECTOR = 32  # bytes that memory is read and written in
SMALL = 8  # a tile with so many times fewer elements than the largest is not what a kernel waits for


def check(seen: Evidence) -> Iterator[Advice]:
    largest = max((one.elements for one in seen.accesses), default=0)
    for one in seen.accesses:
        apart = _apart(one)
        if apart is None or one.elements < max(seen.target.warp_size, largest // SMALL):
            continue
        size = apart * one.element_bytes
        if size < SECTOR:
            continue
        yield seen.advice(
            "strided-access",
            one.op.location,
            f"neighbours of the {one.tile} tile that it {one.verb} are {apart} elements ({size} bytes) apart, in no dim "
            f"side by side: each element costs a sector of {SECTOR} bytes",
            remedy=f"let the tile run along the dim of {one.pointer or 'the tensor'} whose stride is 1, or lay the tensor "
            "out the other way round before",
            cost=f"{SECTOR // one.element_bytes} times as many sectors as the elements fill",
            apart=apart,
            sectors=SECTOR // one.element_bytes,
        )


def _apart(one: Access) -> int | None:
    """The least distance of neighbours; None where it is not known, or where some are the same or side by side."""
    steps = [step for step, size in zip(one.steps, one.shape, strict=True) if size > 1]
    if not steps or any(step is None or step == 0 for step in steps):
        return None
    return min(abs(step) for step in steps if step is not None)
