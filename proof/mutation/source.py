"""A source file as the study sees it: its tree with parents, its jitted functions, edits to its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

Function = ast.FunctionDef


@dataclass(frozen=True)
class Edit:
    """Text in place of a span; lines count from 1, columns are bytes, as in ``ast``."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


def replaced(node: ast.AST, text: str) -> Edit:
    """Text in place of a node, with as many lines as it had: what stands below keeps its numbers."""
    lost = "\n" * (node.end_lineno - node.lineno - text.count("\n"))  # what spans lines stands in brackets
    text = text[:-1] + lost + ")" if text.endswith(")") else text + lost
    return Edit(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text)


def edited(text: str, edits: Sequence[Edit]) -> str:
    """A file's text after edits that do not overlap."""
    lines = text.encode().splitlines(keepends=True)
    for edit in sorted(edits, key=lambda e: (e.line, e.column), reverse=True):
        before = lines[edit.line - 1][: edit.column]
        after = lines[edit.end_line - 1][edit.end_column :]
        lines[edit.line - 1 : edit.end_line] = (before + edit.text.encode() + after).splitlines(keepends=True)
    return b"".join(lines).decode()


class Source:
    """A parsed file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.functions = {node.name: node for node in self.tree.body if isinstance(node, Function)}
        statements = sorted((n for n in self._parents if isinstance(n, ast.stmt)), key=lambda n: n.lineno)
        self._innermost = {number: statement for statement in statements for number in head_lines(statement)}
        self._lines = [line.encode() for line in text.splitlines(keepends=True)]

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement a node stands in."""
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def statement_on(self, line: int) -> ast.stmt | None:
        """The innermost statement that a line belongs to."""
        return self._innermost.get(line)

    def segment(self, node: ast.AST) -> str:
        """A node's text; ``ast.get_source_segment`` does the same, and splits the whole file each time."""
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"".join(lines).decode()


@cache
def parsed(text: str) -> Source:
    """A file's source; several operators stand in one file."""
    return Source(text)


def is_jitted(function: Function) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def head_lines(statement: ast.stmt) -> range:
    """The lines of a statement, of a compound one those of its head."""
    if not getattr(statement, "body", None):
        return range(statement.lineno, statement.end_lineno + 1)
    ends = [getattr(node, "end_lineno", 0) for node in own_nodes(statement)]
    return range(statement.lineno, max([statement.lineno, *ends]) + 1)


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, without those of statements inside it."""
    waiting = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def called(call: ast.AST) -> str:
    """The last word of what a call calls, ``load`` of ``tl.load(...)``; empty for anything else."""
    if not isinstance(call, ast.Call):
        return ""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    return next((k for k in call.keywords if k.arg == name), None)
