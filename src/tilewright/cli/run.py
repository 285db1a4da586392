"""``tilewright run``: the pipeline. Debug, bench, tune, and a report."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli import bench as bench_verb
from tilewright.cli import common, page
from tilewright.cli import debug as debug_verb
from tilewright.cli import tune as tune_verb
from tilewright.errors import TilewrightError

DEFAULT_ARCHS = "a100,h100"
FOLDER = "benchmarks/results"


def command(
    target: common.Target,
    arch: common.Archs = None,
    shapes: common.Shapes = None,
    dtype: common.Dtype = None,
    seconds: common.Seconds = None,
    thorough: common.Thorough = False,
    budget: common.Budget = None,
    workers: common.Workers = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Where the report goes (default .tilewright/report.html).")
    ] = None,
    seed: common.Seed = 0,
    json: common.Json = None,
    store: common.StorePath = None,
    no_store: common.NoStore = False,
) -> None:
    executor = "interpreter" if common.interpreting() else "checked"
    operators = common.operators(target)
    with common.session(f"run {target}", [o.name for o in operators], json, store, no_store) as session:
        pipeline = _Pipeline(
            session,
            target,
            arch=arch,
            shapes=shapes,
            dtype=dtype,
            seconds=seconds,
            thorough=thorough,
            budget=budget,
            workers=workers,
            seed=seed,
            executor=executor,
        )
        for operator in operators:
            try:
                pipeline.run(operator, debug_verb.shown_target(target, operator, operators))
            except TilewrightError as error:
                if len(operators) == 1:
                    raise
                # What one operator's declaration or reference gets wrong is not the others' end.
                session.worsen(error.exit_code)
                session.console.error(TilewrightError(f"{operator.name}: {error.what}", error.remedy))
        path = pipeline.write(html or Path(".tilewright/report.html"))
        session.console.line(f"report: {path}")
    raise typer.Exit(session.exit_code)


class _Pipeline:
    """The stages of one run, operator by operator, and what goes into its report."""

    def __init__(self, session: common.Session, title: str, **given: Any) -> None:
        self._session, self._title, self._given = session, title, given
        self._debug: list[tuple[str, Any]] = []
        self._bench: list[Any] = []
        self._tune: list[Any] = []
        self._recorded: list[Any] = []
        self._notes: list[str] = []

    def run(self, operator: Any, target: str) -> None:
        if not self._debugged(operator, target):
            self._note(f"{operator.name}: wrong, so it is neither timed nor tuned")
            return
        here = importlib.import_module("tilewright.hardware.probe").gpu_target()
        if here is None:
            self._show_recorded(operator)
        elif self._has_shapes(operator):
            self._benched(operator)
        tuned = self._tuned(operator)
        if here is not None and tuned is not None and tuned.choices:
            stage = importlib.import_module("tilewright.tune.stage")
            self._note(f"{operator.name}: timed again in the tuned configurations")
            self._benched(operator, stage.chosen_configs(tuned))

    def write(self, path: Path) -> Path:
        return page.write(
            path,
            self._session,
            self._title,
            debug=self._debug,
            tune=self._tune,
            bench=self._bench,
            recorded=self._recorded,
            notes=self._notes,
        )

    def _debugged(self, operator: Any, target: str) -> bool:
        stage = importlib.import_module("tilewright.debug.stage")
        options = stage.DebugOptions(
            effort="thorough" if self._given["thorough"] else "quick",
            budget_seconds=common.budget_seconds(self._given["budget"], self._given["thorough"]),
            seed=self._given["seed"],
            executor=self._given["executor"],
            stdout_to_stderr=self._session.json_path == "-",
        )
        address = importlib.import_module("tilewright.spec.load").address(operator)
        report = debug_verb.debug(self._session, operator.name, address, options, target)
        self._debug.append((target, report))
        self._session.worsen(report.exit_code)
        return not report.errors

    def _benched(self, operator: Any, configs: Any = None) -> None:
        stage = importlib.import_module("tilewright.bench.stage")
        shapes = self._given["shapes"]
        options = stage.BenchOptions(
            shapes=shapes.split(",") if shapes else None,
            dtype=self._given["dtype"],
            seconds=self._given["seconds"],
            seed=self._given["seed"],
            configs=configs,
        )
        self._attempt(lambda: self._bench.append(bench_verb.bench(self._session, operator, options)))

    def _tuned(self, operator: Any) -> Any:
        if not self._has_shapes(operator):
            self._note(f"{operator.name}: declares no shapes, so there is nothing to time or tune at")
            return None
        here = importlib.import_module("tilewright.hardware.probe").gpu_target()
        archs = self._given["arch"] or (None if here else DEFAULT_ARCHS)
        options = tune_verb.options(
            archs,
            shapes=self._given["shapes"],
            dtype=self._given["dtype"],
            workers=self._given["workers"],
            seed=self._given["seed"],
        )
        self._attempt(lambda: self._tune.append(tune_verb.tune(self._session, operator, options)))
        return self._tune[-1] if self._tune and self._tune[-1].operator == operator.name else None

    @staticmethod
    def _has_shapes(operator: Any) -> bool:
        return bool(importlib.import_module("tilewright.bench.stage").declared_shapes(operator))

    def _show_recorded(self, operator: Any) -> None:
        recorded = importlib.import_module("tilewright.bench.recorded").find(operator)
        hint = f"; on a GPU tilewright bench … --json {FOLDER}/NAME.json records results that are shown here"
        self._note(f"{operator.name}: not timed here (no GPU)" + ("" if recorded else hint))
        for result in recorded:
            self._recorded.append((result.label, result.environment, list(result.comparisons)))
            self._session.console.line(f"recorded results: {result.label}")
            self._session.console.environment(result.environment)
            self._session.console.comparisons(list(result.comparisons))

    def _attempt(self, stage: Any) -> None:
        """A stage that this machine or input cannot do ends itself, not the run."""
        try:
            stage()
        except TilewrightError as error:
            self._session.worsen(error.exit_code)
            self._note(str(error))

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._session.console.line(text)
