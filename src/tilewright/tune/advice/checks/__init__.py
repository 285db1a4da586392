"""One kind of advice a file: ``check(evidence)`` yields what it has to say. A new one is a file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.records import Advice
from tilewright.tune.advice.checks import (
    arithmetic,
    atomics,
    layout,
    local_memory,
    matrix_unit,
    narrow,
    overlap,
    strided,
    tail,
    warps,
)
from tilewright.tune.advice.evidence import Evidence

Check = Callable[[Evidence], Iterator[Advice]]

# What the texts of NVIDIA's compiler show,
OF_TEXTS: tuple[Check, ...] = (
    narrow.check,
    strided.check,
    matrix_unit.check,
    overlap.check,
    layout.check,
    arithmetic.check,
    atomics.check,
)
# and what follows from resources and grid on any chip.
OF_RESOURCES: tuple[Check, ...] = (local_memory.check, warps.check, tail.check)
