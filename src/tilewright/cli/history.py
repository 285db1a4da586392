"""``tilewright history``: the runs in the store."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from tilewright.cli import common


def command(
    limit: Annotated[int, typer.Option("--limit", help="How many, newest first.")] = 20,
    store: common.StorePath = None,
) -> None:
    db = importlib.import_module("tilewright.store.db")
    console = importlib.import_module("tilewright.report.console").Console()
    console.runs(db.Store(store or db.default_path()).runs(limit))
