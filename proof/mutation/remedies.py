"""Whether a printed remedy is right: its edits, made in the mutant's text, give back the original or a kernel that passes."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mutation.choose import Mutant
from mutation.source import Edit, Source, called, edited, head_lines, replaced

MOST_READINGS = 6
"""Of one remedy: where a line holds several calls, an edit may mean any of them."""


def readings(mutant: Mutant, edits: list[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The mutant's files after a remedy's edits, in each way they can be read; empty where they are words only."""
    every = [list(_spans(mutant, edit)) for edit in edits]
    found = []
    for chosen in itertools.islice(itertools.product(*every), MOST_READINGS):
        files = dict(mutant.files)
        try:
            for module in {module for module, _ in chosen}:
                files[module] = edited(files[module], _apart([e for m, e in chosen if m == module]))
                compile(files[module], module, "exec")
        except (SyntaxError, ValueError):
            continue
        found.append(files)
    return found


def is_undone(mutant: Mutant, files: Mapping[str, str]) -> bool:
    """Whether files hold what was there before the mutation, up to how it is written."""
    before = mutant.subject.files
    return all(_tree(files[module]) == _tree(before[module]) for module in before)


def _tree(text: str) -> str:
    return ast.dump(_Sorted().visit(ast.parse(text)))


class _Sorted(ast.NodeTransformer):
    """Keywords in one order, ``-float("inf")`` as ``float("-inf")``, ``0`` of a fill as ``0.0``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords.sort(key=lambda k: k.arg or "")
        for given in node.keywords:
            if given.arg == "other" and isinstance(given.value, ast.Constant):
                given.value = ast.Constant(float(given.value.value))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and ast.unparse(node.operand) in ("float('inf')",):
            return ast.parse("float('-inf')", mode="eval").body
        return node


def _apart(edits: list[Edit]) -> list[Edit]:
    """Edits of one file; those of one span twice are one.

    Raises:
        ValueError: they overlap.
    """
    found = sorted(set(edits), key=lambda e: (e.line, e.column))
    for one, two in itertools.pairwise(found):
        if (two.line, two.column) < (one.end_line, one.end_column):
            raise ValueError("edits overlap")
    return found


def _spans(mutant: Mutant, edit: Mapping[str, Any]) -> Iterator[tuple[str, Edit]]:
    """The spans that a printed edit may replace, with what it puts there."""
    if not edit["file"] or not edit["line"]:
        return
    module, text = Path(edit["file"]).stem, edit["text"]
    if module not in mutant.files:
        return
    source = Source(mutant.files[module])
    statement = source.statement_on(edit["line"])
    if statement is not None:
        yield from ((module, span) for span in _read(source, statement, text))


def _read(source: Source, statement: ast.stmt, text: str) -> Iterator[Edit]:
    if text.startswith("then "):
        yield from _inserted(source, statement, text.removeprefix("then "))
    elif text.startswith("for ") and text.endswith(":"):
        yield from _new_loop(statement, text)
    elif "the grid is too small" in text:
        yield from _new_grid(statement, text.rpartition(": ")[2])
    elif text.endswith(" have changed places"):
        yield from _exchanged(source, statement, text.rpartition(": ")[0])
    elif _assigns_alike(statement, text):
        yield replaced(statement, text)
    elif (keywords := _keywords(text)) is not None:
        yield from _with_keywords(statement, keywords)
    elif _parsed(text) is not None:
        yield from _expression(source, statement, text)
    elif _is_statement(text):
        yield replaced(statement, text)


def _assigns_alike(statement: ast.stmt, text: str) -> bool:
    """Whether a text is an assignment to what a statement assigns to: ``mask = …`` is no keyword then."""
    try:
        (given,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    both = isinstance(given, ast.Assign) and isinstance(statement, ast.Assign)
    return both and ast.dump(given.targets[0]) == ast.dump(statement.targets[0])


def _keywords(text: str) -> list[ast.keyword] | None:
    """``mask=…, other=…`` as keywords."""
    call = _parsed(f"f({text})")
    is_keywords = isinstance(call, ast.Call) and not call.args and {k.arg for k in call.keywords} <= {"mask", "other"}
    return call.keywords if is_keywords and call.keywords else None


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _is_statement(text: str) -> bool:
    try:
        return len(ast.parse(text).body) == 1
    except SyntaxError:
        return False


def _calls(statement: ast.stmt) -> list[ast.Call]:
    found = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and n.lineno in head_lines(statement)]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def _with_keywords(statement: ast.stmt, keywords: list[ast.keyword]) -> Iterator[Edit]:
    """The keywords given to an access of the line, in the place of those it has."""
    given = {k.arg for k in keywords}
    for call in _calls(statement):
        if called(call) in ("load", "store") or called(call).startswith("atomic"):
            kept = [k for k in call.keywords if k.arg not in given]
            yield replaced(call, ast.unparse(ast.Call(call.func, call.args, [*kept, *keywords])))


def _expression(source: Source, statement: ast.stmt, text: str) -> Iterator[Edit]:
    """An expression in the place of the one of the line that it resembles: the same call, or an operation."""
    wanted = _parsed(text)
    if called(wanted) == "atomic_add":
        yield from (replaced(call, text) for call in _calls(statement) if called(call) == "store")
    elif isinstance(wanted, ast.Call):
        yield from (replaced(call, text) for call in _calls(statement) if called(call) == called(wanted))
    elif isinstance(wanted, ast.Compare):
        for node in ast.walk(statement):
            if isinstance(node, ast.Compare) and ast.unparse(node.left) == ast.unparse(wanted.left):
                yield replaced(node, text)
    else:
        operators = (ast.Mod, ast.FloorDiv, ast.Div)
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, operators) and ast.unparse(node) in text:
                yield replaced(node, f"({text})")


def _inserted(source: Source, statement: ast.stmt, text: str) -> Iterator[Edit]:
    """A statement behind the one of the line, on its line: what stands below keeps its number."""
    if not getattr(statement, "body", None) and _is_statement(text):
        end = (statement.end_lineno, statement.end_col_offset)
        yield Edit(*end, *end, f"; {text}")


def _new_loop(statement: ast.stmt, text: str) -> Iterator[Edit]:
    if isinstance(statement, ast.For):
        wanted = ast.parse(f"{text}\n pass").body[0]
        yield replaced(statement.iter, ast.unparse(wanted.iter))


def _new_grid(statement: ast.stmt, text: str) -> Iterator[Edit]:
    if _parsed(text) is not None:
        for call in _calls(statement):
            if isinstance(call.func, ast.Subscript):
                yield replaced(call.func.slice, text)


def _exchanged(source: Source, statement: ast.stmt, text: str) -> Iterator[Edit]:
    """The expression of the line that has the same names the other way round."""
    wanted = _parsed(text)
    if wanted is None:
        return
    names = sorted(n.id for n in ast.walk(wanted) if isinstance(n, ast.Name))
    for node in ast.walk(statement):
        if type(node) is type(wanted) and sorted(n.id for n in ast.walk(node) if isinstance(n, ast.Name)) == names:
            yield replaced(node, text)
