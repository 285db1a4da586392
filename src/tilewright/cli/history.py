"""``tilewright history``: the runs in the store."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from tilewright.cli import common


def command(
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many, newest first.")] = 20,
    json: common.Json = None,
    store: common.StorePath = None,
) -> None:
    db = importlib.import_module("tilewright.store.db")
    runs = db.Store(store or db.default_path()).runs(limit)
    common.console(json).runs(runs)
    common.write_json(json, "history", 0, runs)
