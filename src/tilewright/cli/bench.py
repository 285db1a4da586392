"""``tilewright bench``: how fast is it, against the strongest there is, and against what it was?"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli import common, page
from tilewright.errors import UsageError

REGRESSION = 1


def command(
    target: common.Target,
    device: Annotated[
        str, typer.Option("--device", help="cuda, or cpu: time what runs on a CPU, with a host timer.")
    ] = "cuda",
    gate: Annotated[
        bool,
        typer.Option(
            "--gate/--quick",
            help="--gate: up to 16 processes, 30 s a shape, finds 1 %. --quick (default): one process, 2 s, finds 2 %.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="REF",
            help="Compare with an earlier measurement too: a commit, a file that --json wrote, or a store. Ends with "
            "exit code 1 if a shape became slower.",
        ),
    ] = None,
    shapes: common.Shapes = None,
    case: common.CaseOption = None,
    dtype: common.Dtype = None,
    seconds: common.Seconds = None,
    go_on: Annotated[
        bool, typer.Option("--resume", help="Go on where the latest bench of this operator was interrupted.")
    ] = False,
    regime: Annotated[
        str | None,
        typer.Option(
            "--regime",
            help="cold (default): device time, L2 flushed; warm: L2 as the call before left it; graph: replay of a CUDA "
            "graph; host: what the host waits for.",
        ),
    ] = None,
    baselines: Annotated[
        str | None, typer.Option("--baselines", metavar="NAME,…", help="Only these baselines (default: all there are).")
    ] = None,
    compile: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Include torch.compile of the reference.")
    ] = True,
    seed: common.Seed = 0,
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="PATH|-", help="Write a summary for a pull request.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report with plots.")] = None,
    json: common.Json = None,
    store: common.StorePath = None,
    no_store: common.NoStore = False,
) -> None:
    common.interpreting()
    if device not in ("cuda", "cpu"):
        raise typer.BadParameter("--device takes cuda or cpu")
    if markdown == json == "-":
        raise typer.BadParameter("--json and --markdown cannot both go to stdout")
    operators = common.operators(target)
    reports, changes = [], []
    to_stderr = "-" in (json, markdown)
    names = [operator.name for operator in operators]
    with common.session(f"bench {target}", names, json, store, no_store, to_stderr=to_stderr) as session:
        stage = importlib.import_module("tilewright.bench.stage")
        for operator in operators:
            sizes = common.wanted_sizes(case, operator, session.store)
            options = stage.BenchOptions(
                device=device,
                plan="gate" if gate else "quick",
                shapes=shapes.split(",") if shapes else None,
                cases=sizes,
                dtype=dtype,
                seconds=seconds,
                compile=compile,
                regime=regime,
                baselines=baselines.split(",") if baselines else None,
                seed=seed,
                kept=_kept(operator, session) if go_on else {},
            )
            reference = _reference(against, operator, session)
            try:
                reports.append(bench(session, operator, options, judged_by_changes=reference is not None))
            except KeyboardInterrupt:
                session.console.line("--resume goes on from here" if not no_store else "nothing is kept: --no-store")
                raise
            if reference is not None:
                changes += compared(session, operator, options, reference, reports[-1])
        _write(session, f"bench {target}", reports, changes, markdown, html)
    raise typer.Exit(session.exit_code)


def bench(session: common.Session, operator: Any, options: Any, *, judged_by_changes: bool = False) -> Any:
    """Runs the stage and shows its table.

    With ``judged_by_changes`` an undecided comparison with a baseline is no shortcoming: the changes are what counts.
    """
    stage = importlib.import_module("tilewright.bench.stage")
    load = importlib.import_module("tilewright.spec.load")
    report = session.drain(stage.run(operator, load.address(operator), options))
    session.console.environment(session.environment)
    session.console.comparisons(list(report.comparisons))
    session.worsen(report.failure_code if judged_by_changes else report.exit_code)
    return report


def _kept(operator: Any, session: common.Session) -> Any:
    """What an interrupted run had measured.

    Raises:
        UsageError: there is none to go on with.
    """
    resume = importlib.import_module("tilewright.bench.resume")
    found = resume.interrupted(session.store, operator.name, session.environment)
    if not found:
        raise UsageError(
            f"--resume: the latest bench of {operator.name} in the store was not interrupted here",
            "leave --resume out",
        )
    return found


def _reference(against: str | None, operator: Any, session: common.Session) -> Any:
    """What to compare with, looked up before anything is measured: a name that stands for nothing ends at once."""
    if against is None:
        return None
    earlier = importlib.import_module("tilewright.bench.earlier")
    return earlier.locate(against, operator, session.store, session.environment)


def compared(session: common.Session, operator: Any, options: Any, reference: Any, report: Any) -> list[Any]:
    """What became of each shape since the reference; a slower one is a regression."""
    module = importlib.import_module("tilewright.bench.changes")
    found = list(reference.found)
    if not found:
        session.console.line(f"{operator.name} at {reference.label} is not in the store: measured now")
        earlier = importlib.import_module("tilewright.bench.earlier")
        found = earlier.measure(operator, _origin(operator), reference.commit, _again(options))
    changes = list(module.since(report.comparisons, session.environment, found, reference.label))
    for change in changes:
        session.keep(change)
    session.console.changes(changes)
    if any(change.verdict == "SLOWER" for change in changes):
        session.worsen(REGRESSION)
    elif any(change.verdict == "UNDECIDED" for change in changes):
        session.worsen(common.INCOMPLETE)
    return changes


def _origin(operator: Any) -> str:
    address = importlib.import_module("tilewright.spec.load").address(operator)
    if address.parts is not None:
        raise UsageError(f"{operator.name} has no file and name by which its earlier form could be found")
    return str(address.origin)


def _again(options: Any) -> list[str]:
    """The options of ``bench`` that measure the same another time."""
    said = ["--device", options.device, f"--{options.plan}", "--seed", str(options.seed)]
    said += ["--seconds", str(options.seconds)] if options.seconds is not None else []
    said += ["--shapes", ",".join(options.shapes)] if options.shapes else []
    said += ["--dtype", options.dtype] if options.dtype else []
    said += ["--regime", options.regime] if options.regime else []
    said += ["--baselines", ",".join(options.baselines)] if options.baselines else []
    said += [] if options.compile else ["--no-compile"]
    for sizes in options.cases or ():
        said += ["--case", ",".join(f"{name}={value}" for name, value in sizes.items())]
    return said


def _write(
    session: common.Session, title: str, reports: list[Any], changes: list[Any], markdown: str | None, html: Path | None
) -> None:
    if html is not None:
        path = page.write(html, session, title, bench=reports, changes=changes)
        session.console.line(f"report: {path}")
    if markdown is None:
        return
    module = importlib.import_module("tilewright.report.markdown")
    comparisons = [comparison for report in reports for comparison in report.comparisons]
    text = module.bench(title, session.environment, comparisons, changes)
    if markdown == "-":
        sys.stdout.write(text)
        return
    try:
        Path(markdown).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {markdown}: {error.strerror}") from None
