"""A bench run as Markdown, for a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.records import Change, Comparison, Environment, Verdict
from tilewright.report import tables, words
from tilewright.report.tables import Table

_MARKS = {"good": "✅ ", "bad": "❌ ", "warn": "❔ "}


def bench(
    title: str, environment: Environment, comparisons: Sequence[Comparison], changes: Sequence[Change] = ()
) -> str:
    """A headline, the changes, then the comparisons; what they were measured on below."""
    parts = [f"## {_escaped(title)}", headline(comparisons, changes)]
    if changes:
        parts += [_table(tables.changes(changes))]
    for table in tables.comparisons(comparisons):
        body = _table(table)
        # With changes to look at, how the operator stands against its baselines is what one may want to unfold.
        parts.append(
            f"<details><summary>{_escaped(table.title)}</summary>\n\n{body}\n\n</details>" if changes else body
        )
    return "\n\n".join([*parts, f"<sub>{_escaped(words.environment(environment))}</sub>"]) + "\n"


def headline(comparisons: Sequence[Comparison], changes: Sequence[Change]) -> str:
    """How many of each verdict, the worst first."""
    said = "since " + changes[0].against if changes else "against its baselines"
    counted = Counter(record.verdict for record in (changes or comparisons))
    order: tuple[Verdict, ...] = ("SLOWER", "UNDECIDED", "FASTER", "SAME")
    figures = ", ".join(f"{counted[verdict]} {verdict}" for verdict in order if counted[verdict])
    return f"**{figures or 'nothing measured'}** {_escaped(said)}"


def _table(table: Table) -> str:
    heads = [f"{c.name}, {c.unit}" if c.unit else c.name for c in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_MARKS.get(cell.tone, "") + _escaped(cell.text) for cell in row] for row in table.rows]
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows)]
    title = [f"### {_escaped(table.title)}", ""] if table.title else []
    return "\n".join([*title, *lines, *(f"\n{_escaped(line)}" for line in table.lines)])


def _escaped(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    text = words.clean(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{character}" if character in "|*_`#[]" else character for character in text)
