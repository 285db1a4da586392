"""Trials, comparisons and runs as tables of text, which the terminal and the page then draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from tilewright.records import Case, Change, Comparison, Config, Timing, Trial
from tilewright.report import words

if TYPE_CHECKING:
    from tilewright.bench.history import Series
    from tilewright.store.rows import RunSummary

Tone = Literal["", "good", "bad", "warn", "dim"]
Item = TypeVar("Item")

VERDICT_TONES: dict[str, Tone] = {"FASTER": "good", "SLOWER": "bad", "SAME": "", "UNDECIDED": "warn"}
FITS = ("compiled", "timed")


@dataclass(frozen=True)
class Cell:
    """``tone`` colours what its text already says; ``repeated`` is the text of the row above once more."""

    text: str
    tone: Tone = ""
    repeated: bool = False


@dataclass(frozen=True)
class Column:
    """``prose`` is the last column, if any: sentences. Where room is short those with most ``spare`` go first."""

    name: str
    unit: str = ""
    numeric: bool = False
    prose: bool = False
    spare: int = 0


@dataclass(frozen=True)
class Table:
    """A row's tone is that of its first cell; ``lines`` are said below the table."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    lines: tuple[str, ...] = ()


# ----------------------------------------------------------------------------------------------- trials


def trials(found: Sequence[Trial], title: str | None = None) -> list[Table]:
    """One table for each operator, case and target, rows in the order given."""
    return [table for table, _ in trial_groups(found, title)]


def trial_groups(found: Sequence[Trial], title: str | None = None) -> list[tuple[Table, list[Trial]]]:
    """The tables, each with the trials in it; ``title`` names the table if it is the only one."""
    groups = _grouped(found, lambda t: (t.operator, t.case.label, t.target))
    titled = title if title and len(groups) == 1 else None
    return [(_trial_table(group, titled or ", ".join(name)), group) for name, group in groups.items()]


_TRIAL_COLUMNS: tuple[tuple[Column, Callable[[Trial], str]], ...] = (
    (Column("shared", "KiB", True), lambda t: "" if t.shared is None else f"{t.shared / 1024:.1f}".removesuffix(".0")),
    (Column("registers", "", True, spare=1), lambda t: _most(r.registers for r in t.resources)),
    (Column("spill", "B", True), lambda t: _spilled(t)),
    (Column("warps", "", True, spare=4), lambda t: _most(r.warps for r in t.resources)),
    (Column("occupancy", "%", True, spare=2), lambda t: "" if t.occupancy is None else f"{100 * t.occupancy:.3g}"),
    (Column("waves", "", True, spare=3), lambda t: "" if t.waves is None else f"{t.waves:.2f}"),
    (Column("predicted", "µs", True), lambda t: words.microseconds(t.predicted_seconds)),
    (Column("measured", "µs", True), lambda t: words.microseconds(t.median_seconds)),
    (Column("status", prose=True), lambda t: trial_status(t)),
)


def _trial_table(group: Sequence[Trial], title: str) -> Table:
    common = common_values(group)
    columns = [(Column("configuration"), lambda t: config_text(t, without=common))]
    columns += [(column, cell) for column, cell in _TRIAL_COLUMNS if any(cell(trial) for trial in group)]
    rows = []
    for trial in group:
        tone: Tone = "bad" if trial.status == "wrong" else "" if trial.status in FITS else "dim"
        rows.append(tuple(Cell(cell(trial), tone) for _, cell in columns))
    lines = [trial_line(group)]
    if common:
        lines.insert(0, "in all configurations: " + words.clean(str(Config(common))))
    return Table(words.clean(title), tuple(column for column, _ in columns), tuple(rows), tuple(lines))


def shortened(table: Table, rows: int) -> Table:
    """The first rows of a table, and a line that says how many more there are."""
    if not rows or len(table.rows) <= rows:
        return table
    more = f"{words.count(len(table.rows) - rows, 'row')} more not shown"
    return replace(table, rows=table.rows[:rows], lines=(more, *table.lines))


def common_values(group: Sequence[Trial]) -> dict[str, object]:
    """The values that all configurations share, which need not stand in each row."""
    first, *others = [trial.config.values for trial in group]
    if not others:
        return {}
    common = {name: value for name, value in first.items() if all(name in o and o[name] == value for o in others)}
    return common if len(common) < len(first) else {}


def config_text(trial: Trial, without: Iterable[str] = ()) -> str:
    """A configuration in words, but for the values named."""
    values = {name: value for name, value in trial.config.values.items() if name not in without}
    return words.clean(str(Config(values))) or "as it is"


def trial_status(trial: Trial) -> str:
    """What became of a configuration, and why."""
    if trial.status in FITS:
        return f"{trial.status}, limited by {trial.limited_by}" if trial.limited_by else trial.status
    return f"{trial.status}: {words.clean(trial.reason)}" if trial.reason else trial.status


def trial_line(group: Sequence[Trial]) -> str:
    """How many configurations fit, and which comes first."""
    fitting = [trial for trial in group if trial.status in FITS]
    line = words.part(len(fitting), len(group), "configuration", ("fits", "fit"))
    wrong = sum(trial.status == "wrong" for trial in group)
    if wrong:
        line += f", {wrong} wrong"
    if not fitting:
        return line
    first = fitting[0]
    line += f"; first: {config_text(first)}"
    if first.median_seconds is not None:
        return f"{line} (measured {words.microseconds(first.median_seconds)} µs)"
    if first.predicted_seconds is not None:
        return f"{line} (predicted {words.microseconds(first.predicted_seconds)} µs)"
    return line


def _most(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    return str(max(known)) if known else ""


def _spilled(trial: Trial) -> str:
    known = [r.spill_stores + (r.spill_loads or 0) for r in trial.resources if r.spill_stores is not None]
    return str(sum(known)) if known else ""


# ------------------------------------------------------------------------------------------ comparisons


def comparisons(found: Sequence[Comparison]) -> list[Table]:
    """One table for each operator, regime, and default or tuned configuration; a row for each baseline."""
    return [table for table, _ in comparison_groups(found)]


def comparison_groups(found: Sequence[Comparison]) -> list[tuple[Table, list[Comparison]]]:
    """The tables, each with the comparisons in it."""
    groups = _grouped(found, lambda c: (c.operator, c.regime, "default" if c.config is None else "tuned"))
    tuned = {operator for operator, _, kind in groups if kind == "tuned"}
    tables = []
    for (operator, regime, kind), group in groups.items():
        title = f"{operator}, {kind} configurations" if operator in tuned else operator
        tables.append((_comparison_table(group, f"{title} ({regime})"), group))
    return tables


def _comparison_table(group: Sequence[Comparison], title: str) -> Table:
    counts_flops = any(_is_arithmetic(c.ours) for c in group)
    columns = (
        Column("shape"), Column("ours", "µs", True), Column("rate", "TFLOP/s" if counts_flops else "GB/s", True, spare=1),
        Column("baseline"), Column("theirs", "µs", True, spare=2), Column("ratio", "", True),
        Column("95 % interval", "", True), Column("verdict"),
    )  # fmt: skip
    rows = []
    before: tuple[Case, str, Timing] | None = None
    for comparison in group:
        side = (comparison.case, comparison.shape, comparison.ours)
        rows.append((
            *(Cell(figure, repeated=side == before) for figure in _our_figures(comparison, counts_flops)),
            Cell(words.clean(comparison.baseline)), Cell(words.microseconds(comparison.theirs.median)),
            Cell(f"{comparison.ratio:.3f}"), Cell(words.interval(comparison.low, comparison.high)),
            Cell(comparison.verdict, VERDICT_TONES[comparison.verdict]),
        ))  # fmt: skip
        before = side
    return Table(words.clean(title), columns, tuple(rows), tuple(_comparison_lines(group)))


def _is_arithmetic(ours: Timing) -> bool:
    """Whether operations say more of a kernel than bytes: above this many for each byte no chip waits for memory."""
    flops, moved = ours.flops_per_second, ours.bytes_per_second
    return flops is not None and (moved is None or flops > 32 * moved)


def _our_figures(comparison: Comparison, counts_flops: bool) -> tuple[str, str, str]:
    ours = comparison.ours
    rate = ours.flops_per_second if counts_flops else ours.bytes_per_second
    shown = "" if rate is None else f"{rate / (1e12 if counts_flops else 1e9):.3g}"
    return words.clean(comparison.shape), words.microseconds(ours.median), shown


def _comparison_lines(group: Sequence[Comparison]) -> list[str]:
    floors = [c.noise_floor for c in group if c.noise_floor is not None]
    noise = f"; noise floor up to {100 * max(floors):.1f} %" if floors else ""
    lines = [f"ratio: the baseline's time over ours, above 1 ours is faster{noise}"]
    lines += dict.fromkeys(words.clean(line) for c in group for line in words.plan_lines(c))
    clocks = [c.ours.clock_mhz for c in group if c.ours.clock_mhz is not None]
    if clocks:
        low, high = min(clocks), max(clocks)
        lines.append(f"SM clock while timed: {low if low == high else f'{low} to {high}'} MHz")
    configs = {c.shape: str(c.config) for c in group if c.config is not None}
    lines += [words.clean(f"{shape}: {config}") for shape, config in configs.items()]
    lines += dict.fromkeys(words.clean(f"{c.shape}: {text}") for c in group for text in c.conditions)
    return lines + [words.clean(f"{c.shape}, {c.baseline}: undecided, {c.why}") for c in group if c.why]


# ------------------------------------------------------------------------------------- changes over time


def changes(found: Sequence[Change]) -> Table:
    """What became of each shape since an earlier measurement."""
    columns = (
        Column("shape"), Column("then", "µs", True, spare=2), Column("now", "µs", True), Column("yardstick", spare=1),
        Column("ratio", "", True), Column("95 % interval", "", True), Column("verdict"),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(words.clean(change.shape)), Cell(words.microseconds(change.before_seconds)),
            Cell(words.microseconds(change.now_seconds)), Cell(words.clean(change.yardstick)),
            Cell("" if change.ratio is None else f"{change.ratio:.3f}"),
            Cell("" if change.ratio is None else words.interval(change.low, change.high)),
            Cell(change.verdict, VERDICT_TONES[change.verdict]),
        )
        for change in found
    )  # fmt: skip
    lines = ["ratio: above 1 it is faster now; each time was compared with the yardstick's in the same processes"]
    lines += [words.clean(f"{change.shape}: undecided, {change.why}") for change in found if change.why]
    operators = ", ".join(dict.fromkeys(change.operator for change in found))
    return Table(words.clean(f"{operators} since {found[0].against}"), columns, rows, tuple(lines))


def series(found: Series) -> Table:
    """The runs of one shape against one baseline, oldest first; where the level changed stands in its run's row."""
    columns = (
        Column("measured"), Column("commit", spare=1), Column("torch", spare=3), Column("triton", spare=2),
        Column("ours", "µs", True, spare=4), Column("ratio", "", True), Column("95 % interval", "", True), Column("change"),
    )  # fmt: skip
    rows = []
    for point in found.points:
        c, env = point.comparison, point.environment
        tone: Tone = "" if point.change is None else "good" if point.change > 1 else "bad"
        rows.append((
            Cell(env.when[:16].replace("T", " ")), Cell(c.revision or ""), Cell(env.torch or ""), Cell(env.triton or ""),
            Cell(words.microseconds(c.ours.median)), Cell(f"{c.ratio:.3f}"), Cell(words.interval(c.low, c.high)),
            Cell(words.change(point.change), tone),
        ))  # fmt: skip
    title = f"{found.operator}, {found.shape}, against {found.baseline}, on {found.chip}"
    return Table(words.clean(title), columns, tuple(rows))


# ------------------------------------------------------------------------------------------------- runs


def runs(found: Sequence[RunSummary]) -> Table:
    """Runs of the store, in the order given."""
    columns = (
        Column("run", "", True), Column("started"), Column("command"), Column("ended"), Column("took", "", True, spare=2),
        Column("findings", "", True), Column("trials", "", True, spare=3), Column("comparisons", "", True, spare=4),
        Column("chip", spare=5), Column("commit", spare=6),
    )  # fmt: skip
    rows = []
    for run in found:
        started = datetime.fromisoformat(run.started).astimezone().strftime("%Y-%m-%d %H:%M")
        rows.append((
            Cell(str(run.id)), Cell(started), Cell(words.clean(run.command)), _ended(run), Cell(words.duration(run.seconds)),
            Cell(str(run.findings or "")), Cell(str(run.trials or "")), Cell(str(run.comparisons or "")),
            Cell(words.clean(run.chip)), Cell((run.commit or "")[:8]),
        ))  # fmt: skip
    return Table("", columns, tuple(rows))


def _ended(run: RunSummary) -> Cell:
    if run.exit_code is None:
        return Cell("not finished", "warn")
    said = words.clean(run.text)
    if run.exit_code == 0:
        return Cell(said or "done", "good")
    code = f"exit {run.exit_code}"
    return Cell(code if said in ("", "done") else f"{code}: {said}", "bad" if run.exit_code == 1 else "warn")


def _grouped(items: Iterable[Item], key: Callable[[Item], tuple[str, ...]]) -> dict[tuple[str, ...], list[Item]]:
    groups: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
