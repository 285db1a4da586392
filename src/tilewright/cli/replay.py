"""``tilewright tune --replay FILE``: a search judged on recorded trials, on many seeds, with no GPU."""

from __future__ import annotations

import importlib
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli import common

if TYPE_CHECKING:
    from tilewright.tune.replay import Replayed

SEEDS, BUDGET = 30, 30

Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--replay", metavar="FILE", help="Judge the search on recorded trials instead, with no GPU. Repeatable."
    ),
]
Search = Annotated[str | None, typer.Option("--search", metavar="NAME", help="portfolio (default), prior or random.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="With --replay: searches, each from a seed of its own.")]
Budget = Annotated[int, typer.Option("--budget", min=1, help="With --replay: evaluations on a GPU that each may have.")]


def command(files: list[Path], search: str | None, seeds: int, budget: int, json: str | None, seed: int) -> None:
    """Replays the search on each truth in the files, shows a table, writes --json.

    Raises:
        UsageError: a file has no recorded trials, or there is no such search.
    """
    recorded = importlib.import_module("tilewright.tune.recorded")
    replaying = importlib.import_module("tilewright.tune.replay")
    truths = [replaying.truth_of(found) for file in files for found in recorded.read(file)]
    console = common.console(json)
    name = search or "portfolio"
    results: list[Replayed] = [
        replaying.replay(truth, name, seeds=seeds, budget=budget, first_seed=seed) for truth in truths
    ]
    # One number a seed: of several truths their mean.
    means = [statistics.fmean(column) for column in zip(*(r.fraction_of_best for r in results), strict=True)]
    console.replayed(results)
    words = " ".join(["tune", *(f"--replay {file}" for file in files)])
    answers: dict[str, Any] = {
        "fraction_of_best": means,
        "search": results[0].search,
        "seeds": seeds,
        "first_seed": seed,
        "budget": budget,
        "replays": [_plain(result) for result in results],
    }
    common.write_json(json, words, 0, [], **answers)


def _plain(result: Replayed) -> dict[str, Any]:
    needed = {str(share): result.evaluations_to(share) for share in (0.95, 0.98)}
    return {
        "truth": result.truth,
        "configurations": result.configurations,
        "infeasible": result.infeasible,
        "mean": statistics.fmean(result.fraction_of_best),
        "worst": min(result.fraction_of_best),
        "evaluations_to": {share: None if math.isinf(count) else count for share, count in needed.items()},
        "fraction_of_best": list(result.fraction_of_best),
        "curves": [list(curve) for curve in result.curves],
    }
