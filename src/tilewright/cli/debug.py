"""``tilewright debug``: is the kernel right?"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli import common
from tilewright.errors import Stopped, TilewrightError, UsageError
from tilewright.records import DebugReport, worst


def command(
    target: common.Target,
    case: common.CaseOption = None,
    pdb: Annotated[
        bool,
        typer.Option(
            "--pdb", help="Open the debugger at the line of the worst finding, where it shows; p TILE is a tensor."
        ),
    ] = False,
    interpreter: Annotated[
        bool,
        typer.Option(
            "--interpreter",
            help="Use Triton's stock interpreter: print, assert and breakpoint() in kernels. TRITON_INTERPRET=1 means the same.",
        ),
    ] = False,
    both: Annotated[bool, typer.Option("--both", help="Run each case in both executors and compare them.")] = False,
    device: Annotated[bool, typer.Option("--device", help="Run the cases on this machine's GPU instead.")] = False,
    arch: Annotated[str, typer.Option("--as", help="The chip that host code believes to be there.")] = "h100",
    args: common.Args = None,
    grid: common.Grid = None,
    thorough: common.Thorough = False,
    budget: common.Budget = None,
    seed: common.Seed = 0,
    json: common.Json = None,
    repro: Annotated[
        Path | None,
        typer.Option(
            "--repro",
            metavar="PATH",
            help="Write the worst finding as a script of its own: torch, triton and the kernel. "
            "A PATH such as test_kernel.py holds a pytest too.",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a report page.")] = None,
    store: common.StorePath = None,
    no_store: common.NoStore = False,
) -> None:
    executor = _executor(interpreter=common.interpreting() or interpreter, both=both, device=device)
    call = common.kernel_call(args, grid)
    stage = importlib.import_module("tilewright.debug.stage")
    options = stage.DebugOptions(
        target=arch,
        seed=seed,
        pdb=pdb,
        executor=executor,
        effort="thorough" if thorough else "quick",
        budget_seconds=common.budget_seconds(budget, thorough),
        stdout_to_stderr=json == "-",
    )
    with contextlib.ExitStack() as stack:
        child = stack.enter_context(stage.Session(options))
        operators = child.load(target, call, options)
        names = [operator.name for operator in operators]
        session = stack.enter_context(
            common.session(f"debug {target}", names, json, store, no_store, plain=pdb or None)
        )
        reports, found = [], []
        for operator in operators:
            shown = shown_target(target, operator, operators)
            try:
                exact, sizes = common.wanted_cases(case, operator, session.store)
                wanted = replace(options, exact=exact, cases=sizes)
                report = debug(session, operator.name, operator.address, wanted, shown, child)
            except TilewrightError as error:
                if len(operators) == 1:
                    raise
                # What one operator's declaration or reference gets wrong is not the others' end.
                session.worsen(error.exit_code)
                session.console.error(TilewrightError(f"{operator.name}: {error.what}", error.remedy))
                continue
            reports.append((_typed(shown, call), report))
            found.append((operator, report))
            session.worsen(report.exit_code)
        if repro is not None:
            _write_repro(session, repro, found, child, options)
        if html is not None:
            common_report = importlib.import_module("tilewright.cli.page")
            path = common_report.write(html, session, target, debug=reports)
            session.console.line(f"report: {path}")
    raise typer.Exit(session.exit_code)


def debug(
    session: common.Session, name: str, address: Any, options: Any, target: str, child: Any = None
) -> DebugReport:
    """Runs the stage, shows its report, keeps the smallest cases so that --case finds them.

    Raises:
        KeyboardInterrupt: the user ended it from within the debugger.
    """
    stage = importlib.import_module("tilewright.debug.stage")
    options = replace(options, on_terminal=session.console.close)  # a live line would draw over pdb
    try:
        report: DebugReport = session.drain(stage.run(name, address, options, child))
    except Stopped as stopped:
        session.console.line(stopped.what)
        raise KeyboardInterrupt from None
    for case in report.smallest.values():
        session.store.add(session.run_id, case)
    session.keep(report)
    session.console.debug_report(report, _typed(target, address.call), stage.smallest_by_finding(report))
    return report


def _write_repro(session: common.Session, path: Path, found: list[Any], child: Any, options: Any) -> None:
    """Writes the first of the gravest findings of all operators as a script, and says what came of running it."""
    gravest = worst([finding for _, report in found for finding in report.findings])
    if gravest is None:
        session.console.line(f"{path} is not written: there is nothing to reproduce")
        return
    operator, report = next((o, r) for o, r in found if gravest in r.findings)
    written = child.write_repro(operator.address, report, path, options)
    session.console.line(f"{path}: {written.finding.kind} in case {written.case.label}; {written.outcome}")


def shown_target(target: str, operator: Any, operators: tuple[Any, ...]) -> str:
    """How the user names this operator again: ``file.py:name`` where the file holds several."""
    return f"{target}:{operator.name}" if len(operators) > 1 else target


def _executor(*, interpreter: bool, both: bool, device: bool) -> str:
    """The executor that the options name.

    Raises:
        UsageError: several at once.
    """
    named = [name for name, wanted in (("both", both), ("device", device)) if wanted]
    if len(named) > 1:
        raise UsageError("--both compares the executors of the CPU, and --device is the GPU", "give one of the two")
    if named:
        return named[0]
    return "interpreter" if interpreter else "checked"


def _typed(target: str, call: Any) -> tuple[str, ...]:
    """The words that name an operator on the command line, with the example arguments of a bare kernel."""
    return (target,) if call is None else (target, "--args", call.arguments, "--grid", call.grid)
