"""Laying out text for a width in characters: what rich's own tables leave unreadable on a narrow terminal."""

from __future__ import annotations

import io
import os
import textwrap
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tilewright.report.tables import Cell, Column, Table

UNBOUNDED = 1 << 20
"""The width of a pipe."""

_GAP = 2
_BELOW = 4
_STYLES = {"": "", "good": "green", "bad": "red", "warn": "yellow", "dim": "dim"}


def is_plain(stream: TextIO) -> bool:
    """Whether control characters would be taken for text there."""
    try:
        return not stream.isatty() or os.environ.get("TERM") == "dumb"
    except ValueError:  # it is closed
        return True


def open_console(stream: TextIO, plain: bool) -> Console:
    """A rich console that takes no text for markup, and on a plain stream writes no control characters."""
    if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
        stream.reconfigure(errors="replace")  # a µ must not end a run
    if not plain:
        return Console(file=stream, highlight=False, emoji=False)
    return Console(file=stream, force_terminal=False, no_color=True, color_system=None, highlight=False, emoji=False)


def indented(text: Text, console: Console, indent: int, *, first: bool = True) -> Text:
    """A text wrapped to the console's width and indented; without ``first``, from its second line on."""
    margin = Text(" " * indent)
    room = max(console.width - indent, 20)
    if first:
        lines = list(text.wrap(console, room))
    else:
        head, *tail = text.wrap(console, console.width)
        lines = [head, *(Text(" ").join(tail).wrap(console, room) if tail else ())]
    for line in lines:
        line.rstrip()
    return Text("\n").join(line if i == 0 and not first else margin + line for i, line in enumerate(lines))


# ----------------------------------------------------------------------------------------------- tables


def table_lines(table: Table, width: int) -> list[Text]:
    """A table in lines no wider than ``width``, where that can be.

    What does not fit gives way in this order: prose moves below its row, and goes where it says nothing
    out of the ordinary; spare columns go; the first column gets a line of its own.
    """
    prose = next((i for i, column in enumerate(table.columns) if column.prose), None)
    shown = [i for i, column in enumerate(table.columns) if not column.prose]
    widths = [_column_width(table, i) for i in range(len(table.columns))]
    for spare in sorted((i for i in shown if table.columns[i].spare), key=lambda i: -table.columns[i].spare):
        if _total(widths, shown) <= width:
            break
        shown.remove(spare)
    stacked = _total(widths, shown) > width
    room = width - _total(widths, shown) - _GAP
    beside = prose is not None and not stacked and any(cell_len(row[prose].text) <= room for row in table.rows)
    if beside and prose is not None:
        shown.append(prose)
    lines = _header(table, shown, [min(w, room) if i == prose else w for i, w in enumerate(widths)], stacked)
    for row in table.rows:
        below = prose is not None and (not beside or cell_len(row[prose].text) > room)
        kept = [i for i in shown if i != prose or not below]
        lines += _drawn([row[i] for i in kept], [table.columns[i] for i in kept], [widths[i] for i in kept], stacked)
        if prose is not None and below and row[prose].tone:
            said = textwrap.wrap(row[prose].text, max(width - _BELOW, 20))
            lines += [Text(" " * _BELOW + line, _STYLES[row[prose].tone]) for line in said]
    return lines


def _header(table: Table, shown: list[int], widths: list[int], stacked: bool) -> list[Text]:
    columns, space = [table.columns[i] for i in shown], [widths[i] for i in shown]
    lines = _drawn([Cell(column.name) for column in columns], columns, space, stacked)
    if any(column.unit for column in columns):
        lines += _drawn([Cell(column.unit) for column in columns], columns, space, stacked)[-1:]
    rule = "─" * max(cell_len(line.plain) for line in lines)
    return [*lines, Text(rule, "dim")]


def _drawn(cells: list[Cell], columns: list[Column], widths: list[int], stacked: bool) -> list[Text]:
    """One row as a line; as two where the first cell does not fit beside the others."""
    padded = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        said = "" if cell.repeated else cell.text
        blank = " " * (width - cell_len(said))
        text = blank + said if column.numeric else said + blank
        padded.append(Text(text, _STYLES[cell.tone]))
    groups = [padded[:1], [Text("  "), *padded[1:]]] if stacked else [padded]
    lines = []
    for group in groups:
        line = Text(" " * _GAP).join(group)
        line.rstrip()
        lines.append(line)
    return lines


def _column_width(table: Table, index: int) -> int:
    column = table.columns[index]
    texts = [column.name, column.unit, *(row[index].text for row in table.rows)]
    return max(map(cell_len, texts))


def _total(widths: list[int], shown: list[int]) -> int:
    return sum(widths[i] for i in shown) + _GAP * (len(shown) - 1)
