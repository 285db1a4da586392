"""``tilewright list``: which operators there are."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Annotated

import typer

from tilewright.cli import common
from tilewright.wording import count


@dataclass(frozen=True)
class Listed:
    """What a file declares of one operator; ``configurations`` are the points of its own space."""

    operator: str
    origin: str
    dims: tuple[str, ...]
    dtypes: tuple[str, ...]
    configurations: int
    shapes: tuple[str, ...]
    baselines: tuple[str, ...]

    def __str__(self) -> str:
        space = count(self.configurations, "configuration") if self.configurations else "no space"
        baselines = ", ".join(self.baselines) or "none"
        return f"{self.operator}  [{' '.join(self.dims)}]  {', '.join(self.dtypes)}  {space}  baselines: {baselines}"


def command(
    target: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A file or module; the library where left out.")
    ] = None,
    json: common.Json = None,
) -> None:
    common.interpreting()
    load = importlib.import_module("tilewright.spec.load")
    found = [
        Listed(
            operator=operator.name,
            origin=operator.origin,
            dims=tuple(operator.dims),
            dtypes=tuple(operator.dtypes),
            configurations=len(operator.space or ()),
            shapes=tuple(operator.shapes),
            baselines=tuple(operator.baselines),
        )
        for name in ([target] if target else load.library_names())
        for operator in load.load(name)
    ]
    console = common.console(json)
    for listed in found:
        console.line(str(listed), as_is=True)
    common.write_json(json, f"list {target}" if target else "list", 0, found)
