"""What all verbs share: option types, loading operators, the store, the console, and the records that go out."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.debug import interprets
from tilewright.errors import TilewrightError, UsageError
from tilewright.hardware.targets import all_targets
from tilewright.records import Case, CaseDone, Chosen, Compared, Event, Measured, Tried, to_dict
from tilewright.spec.address import KernelCall

if TYPE_CHECKING:
    from tilewright.records import Environment
    from tilewright.spec.address import Named
    from tilewright.spec.operator import Operator

Target = Annotated[
    str,
    typer.Argument(
        metavar="OPERATOR",
        help="file.py, file.py:name, package.module:name, or a library operator.",
        show_default=False,
    ),
]
OptionalTarget = Annotated[str | None, typer.Argument(metavar="[OPERATOR]", help="As for the other verbs.")]
Json = Annotated[str | None, typer.Option("--json", metavar="PATH|-", help="Write the records as JSON.")]
StorePath = Annotated[Path | None, typer.Option("--store", help="The store's file (default .tilewright/store.db).")]
NoStore = Annotated[bool, typer.Option("--no-store", help="Keep nothing.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of inputs and orders; the same seed gives the same cases.")
]
CaseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--case",
        metavar="ID|SIZES",
        help="One case: an id from an earlier run, or sizes such as 'M=129,N=127'. Repeatable.",
    ),
]
Args = Annotated[
    str | None,
    typer.Option("--args", help="Example arguments of a bare kernel, as Python: 'torch.randn(1000), 1000, BLOCK=128'."),
]
Grid = Annotated[str | None, typer.Option("--grid", help="Grid of a bare kernel, as Python: '(8,)'.")]
Archs = Annotated[
    str | None,
    typer.Option(
        "--arch",
        metavar="CHIPS",
        help=f"Chips, comma-separated: {', '.join(chip.name for chip in all_targets())}, or by arch such as sm_90. "
        "Default: the GPU here.",
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Compilations at a time (default: as many as there are cores).")
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", min=0.01, help="Time spent on timing each shape (default: the plan's).")
]
Thorough = Annotated[
    bool,
    typer.Option(
        "--thorough/--quick",
        help="Plan cases that take minutes: each size in each dtype, layout and value class. Default: seconds' worth.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        min=0,
        help="Seconds after which no further planned case starts; 0 for none. Default 60, with --thorough 900.",
    ),
]
Shapes = Annotated[str | None, typer.Option("--shapes", help="Declared shapes to take, by name, comma-separated.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="Dtype of the floating inputs, such as bf16.")]

INTERRUPTED = 130  # as a shell says it
INCOMPLETE = 4


@dataclass
class Session:
    """One invocation: where events are shown, where records are kept, what goes into --json."""

    console: Any
    store: Any
    run_id: int
    json_path: str | None
    environment: Environment
    command: str
    records: list[Any] = field(default_factory=list)
    exit_code: int = 0

    def drain(self, events: Generator[Event, None, Any]) -> Any:
        """Shows and keeps what a stage yields; returns what it returns."""
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                return end.value
            self.console.handle(event)
            match event:
                case Tried(trial=record, known=True) | Chosen(choice=record, known=True):
                    self.records.append(record)  # the store has it from an earlier run
                case (
                    CaseDone(result=record) | Tried(trial=record) | Chosen(choice=record) | Compared(comparison=record)
                ):
                    self.keep(record)
                case Measured(measurement=record):  # every sample: for the store, too much for --json
                    self.store.add(self.run_id, record)

    def keep(self, record: Any) -> None:
        """Adds a record to the store and to --json."""
        self.records.append(record)
        self.store.add(self.run_id, record)

    def worsen(self, code: int) -> None:
        """The most telling exit code wins: a finding, then bad usage, a missing machine, incompleteness."""
        order = (1, 2, 3, 4, 0)
        self.exit_code = min(self.exit_code, code, key=order.index)


@contextlib.contextmanager
def session(
    command: str,
    operators: Sequence[str],
    json_path: str | None,
    store_path: Path | None,
    no_store: bool,
    *,
    plain: bool | None = None,
    to_stderr: bool = False,
) -> Iterator[Session]:
    """Opens the store and the console; writes --json and closes the run, whatever happens within.

    ``plain`` True draws no live line: the terminal is needed for something else. ``to_stderr`` leaves stdout to what
    is written there besides --json.
    """
    probe = importlib.import_module("tilewright.hardware.probe")
    db = importlib.import_module("tilewright.store.db")
    environment = probe.environment()
    store = db.NullStore() if no_store else db.Store(store_path or db.default_path())
    shown = console("-" if to_stderr else json_path, plain=plain)
    shown.knows_cases = not no_store
    run_id = store.begin_run(command, list(operators), environment)
    if store.note:
        shown.line(store.note)
    current = Session(shown, store, run_id, json_path, environment, command)
    text = "done"
    try:
        yield current
    except TilewrightError as error:
        current.worsen(error.exit_code)
        text = error.what
        raise
    except KeyboardInterrupt:
        current.exit_code, text = INTERRUPTED, "interrupted"
        raise
    except Exception as error:  # a fault of our own: what was found stays, and nothing may take the rest for right
        current.worsen(INCOMPLETE)
        text = f"{type(error).__name__}: {error}"
        raise
    finally:
        shown.close()
        store.finish_run(run_id, current.exit_code, text)
        write_json(json_path, command, current.exit_code, current.records, environment)


def write_json(
    path: str | None,
    command: str,
    exit_code: int,
    records: Sequence[Any],
    environment: Environment | None = None,
    **answers: Any,
) -> None:
    """Writes what ``--json`` asked for, if it did: to a file, or to stdout for ``-``; ``answers`` beside the records.

    Raises:
        UsageError: the file cannot be written.
    """
    if path is None:
        return
    environment = environment or importlib.import_module("tilewright.hardware.probe").environment()
    data = {
        "schema": 1,
        "command": command,
        "exit_code": exit_code,
        "environment": to_dict(environment),
        **answers,
        "records": [to_dict(record) for record in records],
    }
    text = json.dumps(data, indent=1)
    if path == "-":
        print(text)
        return
    try:
        Path(path).write_text(text + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def console(json_path: str | None, *, plain: bool | None = None) -> Any:
    """The console; on stderr where stdout carries the records."""
    report = importlib.import_module("tilewright.report.console")
    return report.Console(file=sys.stderr if json_path == "-" else None, plain=plain)


def kernel_call(args: str | None, grid: str | None) -> KernelCall | None:
    """Example arguments for a bare kernel, from --args and --grid."""
    if args is None and grid is None:
        return None
    if args is None or grid is None:
        raise UsageError("--args and --grid go together", "for a bare kernel give both")
    return KernelCall(args, grid)


def interpreting() -> bool:
    """Whether the user exported TRITON_INTERPRET; this process itself must not interpret, or nothing compiles."""
    wanted = interprets()
    os.environ.pop("TRITON_INTERPRET", None)
    return wanted


def operators(target: str, call: KernelCall | None = None) -> tuple[Operator, ...]:
    """The operators a target names; requires Triton, as every verb but list and doctor does."""
    load = importlib.import_module("tilewright.spec.load")
    loaded: tuple[Operator, ...] = load.load(target, call)
    return loaded


def budget_seconds(budget: float | None, thorough: bool) -> float | None:
    """Seconds that planned cases may take by the clock; None for any."""
    if budget is None:
        return 900.0 if thorough else 60.0
    return budget or None


def wanted_cases(
    texts: Sequence[str] | None, operator: Operator | Named, store: Any
) -> tuple[list[Case] | None, list[dict[str, Any]] | None]:
    """--case as exact cases (ids of earlier runs) and as sizes."""
    if not texts:
        return None, None
    exact: list[Case] = []
    sizes: list[dict[str, Any]] = []
    for text in texts:
        if "=" in text:
            sizes.append(sizes_in(text))
        else:
            exact.append(_case_by_id(text, operator, store))
    return exact or None, sizes or None


def sizes_in(text: str) -> dict[str, Any]:
    """``"M=129, N=127, dtype=bf16, causal=True"`` as a dictionary; bare words are text."""
    arguments: dict[str, Any] = {}
    for word in re.split(r"[,\s]+(?=\w+=)", text.strip()):
        name, _, value = word.partition("=")
        try:
            arguments[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            arguments[name.strip()] = value.strip()
    return arguments


def wanted_sizes(texts: Sequence[str] | None, operator: Operator | Named, store: Any) -> list[dict[str, Any]] | None:
    """--case as sizes, those of earlier cases with their dtype: for stages that draw inputs of their own."""
    exact, sizes = wanted_cases(texts, operator, store)
    known = [{**case.arguments, **({"dtype": case.dtype} if case.dtype else {})} for case in exact or ()]
    return [*known, *(sizes or ())] or None


def _case_by_id(text: str, operator: Operator | Named, store: Any) -> Case:
    errors = importlib.import_module("tilewright.errors")
    found = store.find_case(operator.name, text)
    if len(found) == 1:
        case: Case = found[0]
        return case
    if found:
        raise errors.CaseUnknown(f"--case {text} names {len(found)} cases of {operator.name}", "give more digits")
    raise errors.CaseUnknown(
        f"no case {text} of {operator.name} in the store", "give its sizes instead: --case 'M=129,N=127'"
    )
