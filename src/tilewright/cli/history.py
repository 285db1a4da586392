"""``tilewright history``: the runs in the store, and how an operator's ratios went."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from tilewright.cli import common


def command(
    operator: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="An operator by its name: its ratios over the runs, and where they changed."
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many runs, newest first.")] = 20,
    json: common.Json = None,
    store: common.StorePath = None,
) -> None:
    db = importlib.import_module("tilewright.store.db")
    kept = db.Store(store or db.default_path())
    console = common.console(json)
    if operator is None:
        runs = kept.runs(limit)
        console.runs(runs)
        common.write_json(json, "history", 0, runs)
        return
    earlier = importlib.import_module("tilewright.bench.earlier")
    history = importlib.import_module("tilewright.bench.history")
    found = history.series(earlier.from_store(kept, operator))
    if not found:
        console.line(f"no comparison of {operator} in the store")
    console.series(found)
    common.write_json(json, f"history {operator}", 0, found)
