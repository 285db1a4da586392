"""``tilewright bench``: how fast is it, against the strongest there is?"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from tilewright.cli import common


def command(
    target: common.Target,
    device: Annotated[
        str, typer.Option("--device", help="cuda, or cpu: time what runs on a CPU, with a host timer.")
    ] = "cuda",
    shapes: common.Shapes = None,
    case: common.CaseOption = None,
    dtype: common.Dtype = None,
    gate: Annotated[
        bool,
        typer.Option(
            "--gate/--quick",
            help="--gate: up to 16 processes, 30 s a shape, finds 1 %. --quick (default): one process, 2 s, finds 2 %.",
        ),
    ] = False,
    seconds: common.Seconds = None,
    compile: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Include torch.compile of the reference.")
    ] = True,
    seed: common.Seed = 0,
    json: common.Json = None,
    store: common.StorePath = None,
    no_store: common.NoStore = False,
) -> None:
    common.interpreting()
    if device not in ("cuda", "cpu"):
        raise typer.BadParameter("--device takes cuda or cpu")
    operators = common.operators(target)
    with common.session(f"bench {target}", [o.name for o in operators], json, store, no_store) as session:
        stage = importlib.import_module("tilewright.bench.stage")
        for operator in operators:
            sizes = common.wanted_sizes(case, operator, session.store)
            options = stage.BenchOptions(
                device=device,
                shapes=shapes.split(",") if shapes else None,
                cases=sizes,
                dtype=dtype,
                plan="gate" if gate else "quick",
                seconds=seconds,
                compile=compile,
                seed=seed,
            )
            bench(session, operator, options)
    raise typer.Exit(session.exit_code)


def bench(session: common.Session, operator: Any, options: Any) -> Any:
    """Runs the stage and shows its table."""
    stage = importlib.import_module("tilewright.bench.stage")
    load = importlib.import_module("tilewright.spec.load")
    report = session.drain(stage.run(operator, load.address(operator), options))
    session.console.environment(session.environment)
    session.console.comparisons(list(report.comparisons))
    session.worsen(report.exit_code)
    return report
