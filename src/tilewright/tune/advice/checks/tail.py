"""Grids that leave units without work: fewer programs than units, or a last round that only some take part in."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence
from tilewright.tune.dots import parsed
from tilewright.wording import percent

LEAST_LOSS = 0.25
LEAST_SECONDS = 1e-6
"""What takes no longer on the whole chip is over before its units are missed."""


def check(seen: Evidence) -> Iterator[Advice]:
    programs, units = seen.launch.programs, seen.target.compute_units
    rounds = math.ceil(programs / units)
    # By unit, not by slot: programs that share a unit share its rate too.
    loss = 1 - programs / units / rounds
    if loss < LEAST_LOSS or seen.floor_seconds < LEAST_SECONDS or _unequal(seen):
        return
    grid = "x".join(str(size) for size in seen.launch.grid if size > 1) or "1"
    figures = {"programs": programs, "units": units, "per_unit": rounds, "loss": round(loss, 3)}
    if rounds == 1:
        yield seen.advice(
            "tail-wave",
            None,
            f"a grid of {grid} is {programs} programs, and {seen.target.title} has {units} units: {units - programs} have "
            "no work at all",
            remedy="smaller tiles, so that there are more programs; or split the dim that a program walks along "
            "(split-K), and add the parts up",
            cost=f"{percent(loss)} of the chip",
            **figures,
        )
        return
    last = programs - (rounds - 1) * units
    yield seen.advice(
        "tail-wave",
        None,
        f"a grid of {grid} is {programs} programs on {units} units: {last} of them get {rounds}, the others {rounds - 1}",
        remedy="tile sizes that give a number of programs just below a multiple of the units; a persistent kernel (one "
        "program a unit, each walking over tiles) with smaller tiles; or split-K",
        cost=f"up to {percent(loss)} of the chip's time, where programs take equally long",
        **figures,
    )


def _unequal(seen: Evidence) -> bool:
    """Whether how long a program runs follows from which one it is."""
    if seen.texts is None:
        return any(op.name in ("scf.for", "scf.while", "scf.if") for op in parsed(seen.lowered.ttir).ops())
    flow = seen.texts.flow
    for op in flow.ops:
        deciding = op.operands[1:4] if op.name == "scf.for" else op.operands[:1] if op.name == "scf.if" else ()
        makers = (flow.maker[value].name for value in flow.behind(deciding) if value in flow.maker)
        if op.name == "scf.while" or any(name in ("tt.get_program_id", "tt.load") for name in makers):
            return True
    return False
