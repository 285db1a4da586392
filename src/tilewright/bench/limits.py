"""Results above what the card can do: no verdict rests on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.bench.plan import OURS, OWN_SIDES
from tilewright.bench.verdict import Judgement
from tilewright.records import Timing

SLACK = 1.15
"""So much above a ceiling may be: copies do not reach a memory's peak, nor cuBLAS always the cores'."""


def judged(judgement: Judgement, timings: Mapping[str, Timing], side: str) -> Judgement:
    """UNDECIDED where ours or the other side is above the ceiling, unless all sides are."""
    if _is_overcounted(timings):
        return judgement
    for name in (OURS, side):
        if _is_above(timings[name]):
            share = timings[name].of_ceiling or 0.0
            return replace(judgement, verdict="UNDECIDED", why=_words(name, share))
    return judgement


def conditions(timings: Mapping[str, Timing]) -> tuple[str, ...]:
    if not _is_overcounted(timings):
        return ()
    return ("bytes or operations are overcounted: every side is above what the card was measured to be able to do",)


def _words(name: str, share: float) -> str:
    return (
        f"{name} reaches {share:.2f} of what the card was measured to be able to do: work is left out, or bytes or "
        "operations are counted that are not needed"
    )


def _is_above(timing: Timing) -> bool:
    return timing.of_ceiling is not None and timing.of_ceiling > SLACK


def _is_overcounted(timings: Mapping[str, Timing]) -> bool:
    """Whether others than ours are above the ceiling too, all of them: then it is the count that is wrong."""
    others = [timing for name, timing in timings.items() if name not in OWN_SIDES]
    return bool(others) and all(map(_is_above, others)) and _is_above(timings[OURS])
