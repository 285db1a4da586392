"""Disagreements and faults in words: what happened, where, with the figures a person can act on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.records import Disagreement, Finding
from tilewright.spec import dtypes
from tilewright.spec.golden import Expected


def mismatch(found: Disagreement, *, non_finite: bool) -> Finding:
    """The finding of an output whose values are wrong."""
    words = (
        f"{found.output} differs in {found.wrong} of {found.total} elements ({_share(found.wrong, found.total)}), {_tiles(found)}; "
        f"worst {_index(found.output, found.worst_index)} = {_number(found.worst_value)}, golden {_number(found.worst_expected)}"
    )
    if math.isfinite(found.worst_over_tolerance):
        off = abs(found.worst_value - found.worst_expected)
        words += f": off by {_number(off)}, {_number(found.worst_over_tolerance)} times the tolerance"
        if found.worst_own_error is not None:
            own = _number(found.worst_own_error)
            words += f"; PyTorch itself is off by {own}" if found.worst_own_error else "; PyTorch itself is exact"
    kind = "non-finite" if non_finite else "mismatch"
    return Finding(kind, words, argument=found.output, element=found.worst_index, lanes=found.wrong, cause="unknown")


def other_kind(found: Disagreement, gold: Expected) -> Finding:
    """The finding of an output that has another shape or dtype than the reference's."""
    if found.kind == "shape":
        words = f"{found.output} has shape {_shape(found.shape)}, the reference {_shape(tuple(gold.values.shape))}"
    else:
        words = f"{found.output} is {found.dtype}, the reference {dtypes.short(gold.dtype)}"
    return Finding("mismatch", words, argument=found.output, cause="unknown")


def unwritten(output: str, count: int, shape: tuple[int, ...], first: tuple[int, ...]) -> Finding:
    total = math.prod(shape)
    words = f"no launch wrote {count} of {total} elements of {output}; first: {_index(output, first)} of shape {_shape(shape)}"
    return Finding("unwritten-output", words, argument=output, element=first, lanes=count)


def tile_rows(found: Disagreement) -> list[str]:
    """The tile map as text: one character a tile, ``.`` right, ``#`` wrong."""
    rows, columns = found.tile_grid
    return ["".join("#" if found.tiles[r * columns + c] > 1 else "." for c in range(columns)) for r in range(rows)]


def _tiles(found: Disagreement) -> str:
    wrong = sum(value > 1 for value in found.tiles)
    rows, columns = found.tile_grid
    shape = "x".join(map(str, found.tile_shape))
    if wrong == rows * columns:
        return f"in every {shape} tile"
    bad_rows = sorted({i // columns for i, v in enumerate(found.tiles) if v > 1})
    bad_columns = sorted({i % columns for i, v in enumerate(found.tiles) if v > 1})
    words = f"in {wrong} of {rows * columns} {shape} tiles"
    if rows > 1 and bad_rows == [rows - 1]:
        return words + ", all in the last row of tiles"
    if columns > 1 and bad_columns == [columns - 1]:
        return words + ", all in the last column of tiles"
    return words


def _index(name: str, index: Sequence[int]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def _shape(shape: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _share(part: int, total: int) -> str:
    share = 100 * part / total
    return f"{share:.0f} %" if share >= 1 or part == 0 else "under 1 %"


def _number(value: float) -> str:
    return f"{value:.4g}"
