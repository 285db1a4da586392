"""``tilewright store``: stores of records as files; ``merge`` makes one of several."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import common
from tilewright.errors import UsageError
from tilewright.wording import count

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _store() -> None:
    """Stores of records, such as .tilewright/store.db."""


@app.command()
def merge(
    stores: Annotated[list[Path], typer.Argument(metavar="STORE...", help="The first takes in the others.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Take all of them into this one instead, made where it is not.")
    ] = None,
    json: common.Json = None,
) -> None:
    """Take the runs of stores into one: nothing is lost, and what is there already is not taken twice."""
    db = importlib.import_module("tilewright.store.db")
    merging = importlib.import_module("tilewright.store.merge")
    into, sources = (stores[0], stores[1:]) if out is None else (out, stores)
    if not sources:
        raise UsageError("merge needs two stores", "tilewright store merge A B, or store merge A -o OUT")
    if out is None and not into.is_file():
        raise UsageError(
            f"no store at {into}", f"to make one: tilewright store merge {' '.join(map(str, sources))} -o {into}"
        )
    console = common.console(json)
    found = []
    for path in sources:
        with db.Store(into) as target, db.Store(path) as source:
            merged = merging.merge(target, source)
        found.append(merged)
        console.line(
            f"{into}: {count(merged.runs, 'run')} and {count(merged.records, 'record')} of {path}, "
            f"{count(merged.known_runs, 'run')} known before"
        )
    common.write_json(json, f"store merge {' '.join(map(str, stores))}", 0, found)
