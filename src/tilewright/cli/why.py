"""``tilewright tune --why``: why a configuration is slow, from what the compiler made of it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from tilewright.cli import common
from tilewright.errors import UsageError


def command(
    target: str,
    arch: str | None,
    shapes: str | None,
    case: Sequence[str] | None,
    dtype: str | None,
    workers: int | None,
    config: str | None,
    seed: int,
    json: str | None,
    store: Path | None,
    no_store: bool,
) -> None:
    """The verb; options as ``tilewright tune`` takes them."""
    common.interpreting()
    if config is not None and "=" not in config:
        raise UsageError(f"--config {config}", "give names and values: --config 'BLOCK_M=128,num_warps=8'")
    stage = importlib.import_module("tilewright.tune.advice.stage")
    targets = importlib.import_module("tilewright.hardware.targets")
    operators = common.operators(target)
    with common.session(f"tune {target} --why", [o.name for o in operators], json, store, no_store) as session:
        for operator in operators:
            options = stage.WhyOptions(
                targets=targets.find_all(arch) if arch else None,
                shapes=shapes.split(",") if shapes else None,
                cases=common.wanted_sizes(case, operator, session.store),
                dtype=dtype,
                seed=seed,
                config=common.sizes_in(config) if config else {},
                workers=workers,
            )
            show(session, operator, session.drain(stage.run(operator, options)))
    raise typer.Exit(session.exit_code)


def show(session: common.Session, operator: Any, report: Any) -> None:
    """Keeps what is advised, and shows it shape by shape."""
    for advice in report.all:
        session.keep(advice)
    for shape in dict.fromkeys(shape for shape, _ in report.advice):
        found = [one for (label, _), some in report.advice.items() if label == shape for one in some]
        silent = [chip for (label, chip), some in report.advice.items() if label == shape and not some]
        config = report.config if report.config.values else "as it is launched"
        session.console.line(f"{operator.name}, {shape}, {config}")
        session.console.advice(found)
        if silent:
            session.console.line(f"nothing to advise on {', '.join(silent)}")
