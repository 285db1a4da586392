"""``tilewright export``: what was tuned, for programs that know nothing of tilewright."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli import common
from tilewright.errors import UsageError


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A tuned operator, by its name.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="A folder for all forms, or a .py (configurations and a function that picks one) or .txt file (the "
            "decision tree). Default: the tree, printed.",
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="The board, as the driver calls it. Default: the only one tuned on.")
    ] = None,
    within: Annotated[
        float, typer.Option("--within", min=0, help="Per cent that a shape may lose to its best configuration.")
    ] = 5.0,
    json: common.Json = None,
    store: common.StorePath = None,
) -> None:
    db = importlib.import_module("tilewright.store.db")
    export = importlib.import_module("tilewright.tune.export")
    kept = db.Store(store or db.default_path())
    trials = latest([t for t in kept.records("Trial", name) if t.status == "timed"], device)
    if not trials:
        where = f" on {device}" if device else ""
        raise UsageError(f"no timed trial of {name}{where} in {kept.path}", "tilewright tune times them, on a GPU")
    board, cases = trials[0].device, {trial.case.id for trial in trials}
    choices = [c for c in kept.records("Choice", name) if c.case.id in cases and board in (None, c.device)]
    known = export.tuned(trials, choices, within / 100)
    console = common.console(json)
    if out is None:
        console.line(export.as_text(known).rstrip(), as_is=True)
    else:
        for path in written(export, known, out):
            console.line(f"wrote {path}", as_is=True)
    common.write_json(json, f"export {name}", 0, [known.chosen, known.rule])


def latest(trials: Sequence[Any], device: str | None) -> list[Any]:
    """The Trials of one board that belong together: of the operator, Triton and regime it was last tuned with there.

    Raises:
        UsageError: there are several boards, and none is named.
    """
    boards = {t.device or t.target for t in trials}
    if device is None and len(boards) > 1:
        raise UsageError(f"it was tuned on {', '.join(sorted(boards))}", "say which: --device NAME")
    of_board = [t for t in trials if device in (None, t.device, t.target)]
    shared = operator.attrgetter("device", "source", "triton", "regime")
    return [trial for trial in of_board if shared(trial) == shared(of_board[-1])]


def written(export: Any, known: Any, out: Path) -> list[Path]:
    """Writes the files, or says why not in one line."""
    try:
        paths: list[Path] = export.write(known, out)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from None
    return paths
