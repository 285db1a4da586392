"""Products in a loop that do not run on the chip's own matrix instructions: wgmma on Hopper, tcgen05 on Blackwell.

Only where the arithmetic of a call outweighs its bytes: a product of 16 rows waits for memory whatever multiplies it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.launch.ttir import Op
from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence, Texts
from tilewright.tune.advice.flow import flow_of

GROUP = 4  # warps that issue one wgmma or tcgen05 instruction together
ROWS = 64  # of its smallest tile


def check(seen: Evidence) -> Iterator[Advice]:
    assert seen.texts is not None
    best = _best(seen.target.arch)
    if best is None or not seen.arithmetic_bound:
        return
    flow = flow_of(seen.texts.ttgir)
    told: set[int | None] = set()
    for op in flow.ops:
        if op.name != "tt.dot" or flow.loop_of(op) is None or op.location.line in told:
            continue
        used = _unit(seen.texts, op)
        if used is None or used == best:
            continue
        told.add(op.location.line)
        why, remedy = _reason(seen, op, used)
        if not why:
            continue
        yield seen.advice(
            "matrix-unit",
            seen.texts.place_of(op),
            f"the product runs on {_INSTRUCTIONS[used]}, not on {_INSTRUCTIONS[best]}: {why}",
            remedy=remedy,
            cost=_cost(seen, used, best),
            unit=used,
            rows=op.result_types[0].shape[-2],
            num_warps=seen.resources.warps,
        )


_INSTRUCTIONS = {
    "fma": "ordinary multiply-adds (FMA)",
    "mma": "mma.sync",
    "wgmma": "wgmma",
    "tcgen05": "tcgen05.mma",
}


def _best(arch: str) -> str | None:
    return {
        "sm_80": "mma",
        "sm_86": "mma",
        "sm_89": "mma",
        "sm_90": "wgmma",
        "sm_100": "tcgen05",
        "sm_103": "tcgen05",
    }.get(arch, "mma" if arch.startswith("sm_12") else None)


def _unit(texts: Texts, op: Op) -> str | None:
    """What a ``tt.dot`` that is left in TTGIR runs on, by the layout of its result."""
    _, _, layout = op.result_types[0].element.partition(", ")
    layout = texts.layouts.get(layout, layout)
    if layout.startswith("#ttg.nvidia_mma"):
        return "mma"
    return "fma" if layout.startswith("#ttg.blocked") else None


def _reason(seen: Evidence, op: Op, used: str) -> tuple[str, str]:
    """Why, and what to try; empty where it is not certain."""
    tile = op.result_types[0].shape
    element = op.types[0].element.partition(",")[0]
    if used == "fma":
        if element == "f32" and op.attributes.get("inputPrecision", "ieee") == "ieee":
            return (
                "fp32 operands with input_precision='ieee', for which it has no instruction",
                "if 10 bits of mantissa are enough, input_precision='tf32'; 'tf32x3' is nearly fp32 at three products for one",
            )
        return "", ""
    if len(tile) > 2 or element == "f64":
        return "", ""
    rows, columns = tile
    if rows < ROWS:
        words = f"its tile has {rows} rows, and one instruction takes {ROWS}"
        if columns >= ROWS:
            return words, f"tiles of {ROWS} rows or more; or compute the transpose, whose tile has {columns} rows"
        return words, f"tiles of {ROWS} rows or more"
    warps = seen.resources.warps
    if warps % GROUP:
        return f"num_warps = {warps}, and {GROUP} warps issue one together", f"num_warps={GROUP}"
    return "", ""


def _cost(seen: Evidence, used: str, best: str) -> str:
    if used == "fma":
        peak, matrix = seen.target.peak.get("fp32"), seen.target.peak.get("tf32")
        if peak and matrix:
            return f"{seen.target.title} does {peak / 1e12:.0f} TFLOP/s so, {matrix / 1e12:.0f} in tf32"
        return ""
    return f"the peak of {seen.target.title} is that of {_INSTRUCTIONS[best]}; mma.sync stays well below it"
