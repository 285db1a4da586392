"""``tilewright tune``: what fits, what is worth trying, what is best."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tilewright.cli import common, replay
from tilewright.cli import why as why_verb
from tilewright.errors import UsageError

Regime = Annotated[
    Literal["cold", "warm", "graph", "host"],
    typer.Option("--regime", help="What is timed on a GPU, as it will be run: see tilewright bench."),
]


def command(
    target: common.OptionalTarget = None,
    arch: common.Archs = None,
    shapes: common.Shapes = None,
    case: common.CaseOption = None,
    dtype: common.Dtype = None,
    workers: common.Workers = None,
    regime: Regime = "cold",
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Do everything that needs no GPU, and put it into a bundle (--output).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The bundle's file (default: OPERATOR.tune.zip).")
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", help="A bundle made by --prepare: nothing in it is compiled here.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS|auto", help="Compile and measure on a Ray cluster (extra: cluster)."),
    ] = None,
    why: Annotated[
        bool, typer.Option("--why", help="Say why one configuration is slow, by what the compiler made of it. No GPU.")
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="VALUES", help="With --why: 'BLOCK_M=128,num_warps=8'. Default: the launcher's."
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="Rows shown of each table; 0 for all.")] = 0,
    seed: common.Seed = 0,
    json: common.Json = None,
    store: common.StorePath = None,
    no_store: common.NoStore = False,
    replayed: replay.Files = None,
    search: replay.Search = None,
    seeds: replay.Seeds = replay.SEEDS,
    budget: replay.Budget = replay.BUDGET,
) -> None:
    if replayed:
        replay.command(replayed, search, seeds, budget, json, seed)
        return
    if target is None:
        raise UsageError("no operator named", "tilewright tune OPERATOR, or tilewright tune --replay FILE")
    if why or config is not None:
        _check_why(why, prepare, bundle)
        why_verb.command(target, arch, shapes, case, dtype, workers, config, seed, json, store, no_store)
        return
    common.interpreting()
    operators = common.operators(target)
    _check(operators, prepare, output, bundle)
    machine = importlib.import_module("tilewright.tune.cluster").Cluster(ray) if ray is not None else None
    with common.session(f"tune {target}", [o.name for o in operators], json, store, no_store) as session:
        for operator in operators:
            sizes = common.wanted_sizes(case, operator, session.store)
            tune(
                session,
                operator,
                options(
                    arch,
                    shapes=shapes,
                    cases=sizes,
                    dtype=dtype,
                    workers=workers,
                    regime=regime,
                    seed=seed,
                    keep=not no_store,
                    prepare=(output or Path(f"{operator.name}.tune.zip")) if prepare else None,
                    bundle=bundle,
                    machine=machine,
                ),
                top,
            )
    raise typer.Exit(session.exit_code)


def _check_why(why: bool, prepare: bool, bundle: Path | None) -> None:
    if not why:
        raise UsageError("--config goes with --why", "the tuner looks at all configurations of the space")
    if prepare or bundle is not None:
        raise UsageError("--why looks at one configuration, and makes no bundle", "leave --prepare and --bundle out")


def _check(operators: Sequence[Any], prepare: bool, output: Path | None, bundle: Path | None) -> None:
    if output is not None and not prepare:
        raise UsageError("--output is where --prepare puts its bundle", "give both, or neither")
    if prepare and bundle is not None:
        raise UsageError("--prepare makes a bundle, --bundle measures one", "give one of them")
    if (prepare or bundle is not None) and len(operators) > 1:
        names = ", ".join(operator.name for operator in operators)
        raise UsageError(f"a bundle is of one operator, and here are {names}", "name it: file.py:name")


def options(arch: str | None, *, shapes: str | None = None, keep: bool = True, **given: Any) -> Any:
    """Options of the stage from what was typed."""
    stage = importlib.import_module("tilewright.tune.stage")
    targets = importlib.import_module("tilewright.hardware.targets")
    table = importlib.import_module("tilewright.runtime.table")
    return stage.TuneOptions(
        targets=targets.find_all(arch) if arch else None,
        shapes=shapes.split(",") if shapes else None,
        table=table.Table() if keep else None,
        **given,
    )


def tune(session: common.Session, operator: Any, given: Any, top: int = 0) -> Any:
    """Runs the stage and shows a table for each shape and chip."""
    stage = importlib.import_module("tilewright.tune.stage")
    load = importlib.import_module("tilewright.spec.load")
    try:
        report = session.drain(stage.run(operator, load.address(operator), given, session.store))
    except KeyboardInterrupt:
        if session.store.path is not None:
            session.console.line("the same command goes on from here")
        raise
    for (shape, chip), trials in report.trials.items():
        session.console.trials(trials, title=f"{operator.name}, {shape}, {chip}", top=top)
    for label, choice in report.choices.items():
        session.console.choice(label, choice)
    if len(report.choices) > 1:
        export = importlib.import_module("tilewright.tune.export")
        timed = [t for trials in report.trials.values() for t in trials if t.status == "timed"]
        known = export.tuned(timed, tuple(report.choices.values()))
        session.console.line(export.as_text(known).rstrip(), as_is=True)
    session.worsen(report.exit_code)
    return report
