"""Searches judged on recorded trials, as a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.report import words
from tilewright.report.tables import Cell, Column, Table

if TYPE_CHECKING:
    from tilewright.tune.replay import Replayed


def table(found: Sequence[Replayed]) -> Table:
    """A row for each truth: the fraction of the exhaustive best, and how soon it came."""
    columns = (
        Column("truth"), Column("configurations", "", True, spare=2), Column("that fit", "", True, spare=1),
        Column("mean", "", True), Column("worst seed", "", True),
        Column("0.95 after", "", True), Column("0.98 after", "", True),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(words.clean(one.truth)), Cell(str(one.configurations)), Cell(str(one.configurations - one.infeasible)),
            Cell(f"{statistics.fmean(one.fraction_of_best):.4f}"), Cell(f"{min(one.fraction_of_best):.4f}"),
            Cell(_count(one.evaluations_to(0.95))), Cell(_count(one.evaluations_to(0.98))),
        )
        for one in found
    )  # fmt: skip
    first = found[0]
    seeds, budget = len(first.curves), len(first.curves[0])
    line = f"{words.count(seeds, 'seed')}, {words.count(budget, 'evaluation')} each: the exhaustive best over the best found; how many evaluations the mean over seeds needs to 0.95 and 0.98"
    return Table(f"search {words.clean(first.search)} on recorded trials", columns, rows, (line,))


def _count(evaluations: float) -> str:
    return "" if math.isinf(evaluations) else f"{evaluations:.0f}"
