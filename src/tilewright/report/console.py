"""Events and reports on a terminal, or as plain lines where the output is piped."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from tilewright.errors import TilewrightError
from tilewright.records import (
    Advice,
    Case,
    CaseDone,
    Change,
    Choice,
    Comparison,
    DebugReport,
    Environment,
    Event,
    Finding,
    Note,
    Progress,
    Remedy,
    StageFinished,
    StageStarted,
    Trial,
)
from tilewright.report import replays, tables, terminal, words

if TYPE_CHECKING:
    from tilewright.bench.history import Series
    from tilewright.store.rows import RunSummary
    from tilewright.tune.replay import Replayed

# Room for the word that starts a finding; what belongs to it stands below, indented as far.
_INDENT = 7
_WORD_STYLES = {
    "FAIL": "bold red",
    "WARN": "bold yellow",
    "NOTE": "bold",
    "SKIP": "bold yellow",
    "PASS": "bold green",
    "INCOMPLETE": "bold yellow",
}
_COUNTED = {"debug": "case", "bench": "shape", "tune": "configuration"}
_OUTCOME_STYLES = {"passed": "green", "findings": "red", "incomplete": "yellow", "skipped": "dim"}


class Console:
    """Where a run is shown.

    On a terminal a stage has one live line, which is gone once its report is printed. Elsewhere a stage is
    one line, and nothing holds a control character.

    Args:
        file: a text stream; None is stdout.
        plain: True for what a pipe gets, False for a terminal's; None looks at ``file``. Anything else that
            owns the terminal meanwhile, such as pdb, needs True.
        quiet: no progress and no notes, only what is asked for by name.
    """

    def __init__(self, file: TextIO | None = None, plain: bool | None = None, quiet: bool = False) -> None:
        self.knows_cases = True  # by their ids, as a store does
        stream = sys.stdout if file is None else file
        self.plain = terminal.is_plain(stream) if plain is None else plain
        self.quiet = quiet
        self._out = terminal.open_console(stream, self.plain)
        self._live: Bar | None = None
        self._task: TaskID | None = None
        self._noted: set[str] = set()

    # -------------------------------------------------------------------------------------------- events

    def handle(self, event: Event) -> None:
        """Shows that a stage moves on. What it found is printed once, by the methods below."""
        match event:
            case StageStarted():
                self._start(event)
            case Progress():
                self._move(event.done, event.text)
            case CaseDone():
                self._move(None, "")
            case Note():
                self._noted.add(event.text)
                if not self.quiet:
                    self._print(Text.assemble(("note: ", "yellow"), words.clean(event.text)), wrap=True)
            case StageFinished():
                self.close()
                report = event.report
                style = _OUTCOME_STYLES[report.outcome]
                text = f"  {words.clean(report.text)}" if report.text else ""
                self._print(
                    Text.assemble(
                        words.clean(f"{report.stage} {report.operator}") + "  ", (report.outcome, style), text
                    )
                )

    def _start(self, event: StageStarted) -> None:
        self.close()
        if self.quiet:
            return
        heading = words.clean(f"{event.stage} {event.operator}")
        text = words.clean(event.text)
        if self.plain:
            steps = [words.count(event.total, _COUNTED.get(event.stage, "step"))] if event.total is not None else []
            said = ", ".join([*steps, *([text] if text else [])])
            self._print(Text(f"{heading}: {said}" if said else heading))
            return
        counted = [BarColumn(bar_width=16), MofNCompleteColumn()] if event.total is not None else []
        # Texts are user's words, never markup; they end with the line, as a live line that wraps flickers.
        texts = (
            TextColumn("{task.description}", markup=False),
            *counted,
            TextColumn("{task.fields[text]}", style="dim", markup=False, table_column=Column(no_wrap=True)),
        )
        self._live = Bar(SpinnerColumn(), *texts, console=self._out, transient=True, redirect_stdout=False)
        self._task = self._live.add_task(heading, total=event.total, text=text)
        self._live.start()

    def _move(self, done: int | None, text: str) -> None:
        if self._live is None or self._task is None:
            return
        if done is not None:
            self._live.update(self._task, completed=done, text=words.clean(text))
        else:
            self._live.advance(self._task)

    def close(self) -> None:
        """Ends the live line, if there is one. The console may be used on."""
        if self._live is not None:
            self._live.stop()
            self._live = self._task = None

    # ------------------------------------------------------------------------------------------ findings

    def finding(
        self,
        finding: Finding,
        *,
        seen: str = "",
        smallest: Case | None = None,
        target: str | Sequence[str] | None = None,
        as_above: bool = False,
    ) -> None:
        """One finding: what and where, then the program, the cause and remedy, and how to see it again.

        Args:
            seen: in how many cases, in words.
            smallest: the case to show; None is the finding's own.
            target: what the user called the operator; None where there is nothing to type again.
            as_above: what mends it has been shown with another finding.
        """
        self.close()
        word = words.severity(finding)
        head = Text.assemble((f" {word}  ", _WORD_STYLES[word]), (words.clean(finding.kind), "bold"))
        where = words.place(finding.file, finding.line)
        for part, style in ((words.tensor(finding), ""), (where, "cyan"), (words.clean(finding.source or ""), "")):
            if part:
                head.append("   " if part != words.tensor(finding) else "  ").append(part, style)
        self._print(head, wrap=True, hang=True)
        self._below(Text(words.message(finding)))
        if source := words.origin(finding):
            self._below(Text(source))
        if values := words.variables(finding):
            self._below(Text(values))
        if seen:
            self._below(Text(seen))
        if cause := words.cause(finding):
            self._below(Text(f"cause  {cause}"))
        for line in [] if as_above else words.remedies(finding):
            self._below(Text(f"       {line}", "green" if line.startswith("  ") else ""))
        if as_above:
            self._below(Text("       mended by what mends the first one above"))
        if finding.remedy and not finding.remedies:
            self._below(Text.assemble(("remedy  ", "green"), words.clean(finding.remedy)))
        case = smallest or finding.case
        if case is not None:
            self._again(case, target)

    def _again(self, case: Case, target: str | Sequence[str] | None) -> None:
        line = f"smallest case  {words.clean(case.label)}"
        if target is None:
            self._below(Text(line))
            return
        named = case.id if self.knows_cases else words.typed(words.case_option(case))
        again = f"again: tilewright debug {words.typed(target)} --case {named}"
        whole = f"{line}     {again}     step through: … --pdb"
        if self.plain or len(whole) + _INDENT <= self._out.width:
            self._below(Text(whole))
        else:
            self._below(Text(line))
            self._below(Text(again))
            self._below(Text("step through: … --pdb"))

    def debug_report(
        self, report: DebugReport, target: str | Sequence[str], smallest: Mapping[Finding, Case] | None = None
    ) -> None:
        """The verdict, each fault once with its smallest case, where the worst output is wrong, and the notes.

        Args:
            target: what the user called the operator on the command line, in one word or with its options.
            smallest: the smallest failing case of each finding; None takes those the report holds.
        """
        self.close()
        word, figures = words.verdict(report)
        self._print(
            Text.assemble((f" {word}  ", _WORD_STYLES[word]), (words.clean(report.operator), "bold"), f"  {figures}"),
            wrap=True,
            hang=True,
        )
        shown: set[tuple[Remedy, ...]] = set()
        for finding in words.ordered(report):
            seen = f"in {words.part(words.cases_showing(report, finding), len(report.results), 'case')}"
            case = words.smallest_case(report, finding, smallest)
            seen = seen if len(report.results) > 1 else ""
            above = bool(finding.remedies) and finding.remedies in shown
            shown.add(finding.remedies)
            self.finding(finding, seen=seen, smallest=case, target=target, as_above=above)
        self._tile_map(report)
        for note in report.notes:
            if note not in self._noted:
                self._print(Text.assemble(("note: ", "yellow"), words.clean(note)), wrap=True)

    def _tile_map(self, report: DebugReport) -> None:
        worst = words.worst_disagreement(report)
        if worst is None:
            return
        case, found = worst
        tile = "x".join(map(str, found.tile_shape))
        self._below(
            Text(
                f"{words.clean(found.output)} of {words.clean(case.label)}, one character a tile of {tile}: . right, # wrong"
            )
        )
        for row in words.tile_rows(found):
            line = Text("  ")
            for character in row:
                line.append(character, "red" if character == "#" else "dim")
            self._below(line, wrap=False)

    # ------------------------------------------------------------------------------------ tables and lines

    def trials(self, trials: Sequence[Trial], title: str | None = None, top: int = 0) -> None:
        """A table for each operator, case and target, in the order given; ``title`` names it if it is one.

        With ``top`` only so many rows of each are shown.
        """
        for table in tables.trials(trials, title):
            self._table(tables.shortened(table, top))

    def comparisons(self, comparisons: Sequence[Comparison]) -> None:
        """A table for each operator: ours, each baseline, the ratio with its interval, the verdict."""
        for table in tables.comparisons(comparisons):
            self._table(table)

    def changes(self, changes: Sequence[Change]) -> None:
        """What became of each shape since an earlier measurement."""
        if changes:
            self._table(tables.changes(changes))

    def series(self, found: Sequence[Series]) -> None:
        """A table for each shape, baseline and chip: its runs, and where the level changed."""
        for one in found:
            self._table(tables.series(one))

    def runs(self, runs: Sequence[RunSummary]) -> None:
        """Past runs, in the order given."""
        if runs:
            self._table(tables.runs(runs))
        else:
            self.line("no runs in the store")

    def replayed(self, found: Sequence[Replayed]) -> None:
        """How a search did on recorded trials."""
        self._table(replays.table(found))

    def choice(self, label: str, choice: Choice) -> None:
        """A tuned configuration, and what is known of its worth."""
        self.close()
        self._print(
            Text.assemble(("chosen", "bold green"), f"  {words.clean(label)}  {words.choice(choice)}"), wrap=True
        )

    def advice(self, found: Sequence[Advice]) -> None:
        """Why a configuration is slow: what was seen, what it costs, what to try; of several chips alike once."""
        self.close()
        same: dict[tuple[object, ...], list[Advice]] = {}
        for one in found:
            same.setdefault((one.case, one.kind, one.file, one.line, one.message, one.cost, one.remedy), []).append(one)
        for first, *others in same.values():
            chips = ", ".join(dict.fromkeys(one.target for one in (first, *others)))
            head = Text.assemble((f" {first.kind}", "bold yellow"), f"  {chips}")
            for part, style in ((words.place(first.file, first.line), "cyan"), (first.source or "", "")):
                head.append("   ").append(words.clean(part), style)
            self._print(head, wrap=True, hang=True)
            self._below(Text(words.clean(first.message)))
            if first.cost:
                self._below(Text.assemble(("costs  ", "bold"), words.clean(first.cost)))
            if first.remedy:
                self._below(Text.assemble(("try    ", "green"), words.clean(first.remedy)))

    def environment(self, env: Environment) -> None:
        """What numbers were obtained on, in one line."""
        self.close()
        self._print(Text(words.environment(env), "dim"), wrap=True)

    def line(self, text: str, *, as_is: bool = False) -> None:
        """A line of text; ``as_is`` keeps its spaces."""
        self.close()
        self._print(Text(words.clean_line(text) if as_is else words.clean(text)), wrap=True)

    def error(self, error: TilewrightError) -> None:
        """What happened and what to do, in one line on stderr."""
        self.close()
        stderr = terminal.open_console(sys.stderr, terminal.is_plain(sys.stderr))
        stderr.print(Text.assemble(("error: ", "bold red"), words.clean(error)), soft_wrap=True)

    # ------------------------------------------------------------------------------------------- drawing

    def _table(self, table: tables.Table) -> None:
        self.close()
        if table.title:
            self._print(Text(f"\n{table.title}", "bold"), wrap=True)
        width = terminal.UNBOUNDED if self.plain else self._out.width
        for row in terminal.table_lines(table, width):
            self._print(row)
        for line in table.lines:
            self._print(Text(line), wrap=True)

    def _below(self, text: Text, *, wrap: bool = True) -> None:
        """A text that belongs to the line above."""
        if self.plain or not wrap:
            self._print(Text(" " * _INDENT) + text)
        else:
            self._print(terminal.indented(text, self._out, _INDENT))

    def _print(self, text: Text, *, wrap: bool = False, hang: bool = False) -> None:
        if hang and not self.plain:
            text = terminal.indented(text, self._out, _INDENT, first=False)
        self._out.print(text, soft_wrap=self.plain or not wrap)
