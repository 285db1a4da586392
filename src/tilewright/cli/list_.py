"""``tilewright list``: which operators there are."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from tilewright.cli import common


def command(
    target: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A file or module; the library where left out.")
    ] = None,
) -> None:
    common.interpreting()
    load = importlib.import_module("tilewright.spec.load")
    names = [target] if target else load.library_names()
    for name in names:
        for operator in load.load(name):
            dims = " ".join(operator.dims)
            space = f"{len(operator.space)} configurations" if operator.space else "no space"
            print(
                f"{operator.name}  [{dims}]  {', '.join(operator.dtypes)}  {space}  baselines: {', '.join(operator.baselines) or 'none'}"
            )
