"""A piece of a user's module as it stands in a script: its text, without declarations and without their modules."""

from __future__ import annotations
import __future__

import ast
import dis
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

from tilewright.debug.repro.modules import Imported, Source, bound_by, root
from tilewright.errors import UsageError

Member = tuple[str, str]
"""A name in a module of the user's own."""
_OURS = ("on_miss", "keep")
"""Arguments of ``tw.autotune`` that ``triton.autotune`` does not have."""
_LOOKUPS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


@dataclass(frozen=True)
class Piece:
    """The text of a statement or expression, the module-level names it looks up, and members of own modules."""

    text: str
    names: frozenset[str]
    members: frozenset[Member]


def piece(source: Source, node: ast.stmt | ast.expr, is_own: Callable[[str], bool]) -> Piece:
    """What a script holds of a statement or expression.

    Decorators and annotations that only declare are left out; ``module.member`` of a module that is taken into
    the script becomes ``member``, and imports of such modules within functions go.

    Raises:
        UsageError: it uses a module of the user's own, or tilewright, in a way that cannot be taken over.
    """
    rewriting = _Rewriting(source, is_own, local=frozenset(_local_names(node)))
    rewriting.visit(node)
    start, end = _extent(source, node)
    text = source.text
    for first, last, new in sorted(rewriting.edits, reverse=True):
        text = text[:first] + new.encode() + text[last:]
        end += len(new.encode()) - (last - first)
    written = text[start:end].decode()
    return Piece(written, frozenset(_looked_up(source, node, written)), frozenset(rewriting.members))


@dataclass
class _Rewriting(ast.NodeVisitor):
    source: Source
    is_own: Callable[[str], bool]
    local: frozenset[str]
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    members: set[Member] = field(default_factory=set)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        parts: list[ast.AST] = [*self._kept_decorators(node), node.args, *node.body]
        if node.returns is not None and self._declares(node.returns):
            arrow = self.source.text.rindex(b"->", 0, self._start(node.returns))
            self._drop_annotation(len(self.source.text[:arrow].rstrip()), node.returns)
        elif node.returns is not None:
            parts.append(node.returns)
        for part in parts:
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*self._kept_decorators(node), *node.bases, *node.keywords, *node.body):
            self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        if node.annotation is not None and self._declares(node.annotation):
            self._drop_annotation(self._start(node) + len(node.arg.encode()), node.annotation)
        else:
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._declares(node.annotation):
            self.edits.append((self._start(node.annotation), self._end(node.annotation), "object"))
            for part in (node.target, node.value):
                if part is not None:
                    self.visit(part)
        else:
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        module = self._module(node.value)
        if module is None:
            self.generic_visit(node)
            return
        if self._module(node) is not None:
            raise self._refused(node, f"uses the module {module}.{node.attr} as a value")
        self.members.add((module, node.attr))
        self.edits.append((self._start(node), self._end(node), node.attr))

    def visit_Call(self, node: ast.Call) -> None:
        if not self._is_our_tuner(node.func):
            self.generic_visit(node)
            return
        self.edits.append((self._start(node.func), self._end(node.func), "triton.autotune"))
        for keyword in node.keywords:
            if keyword.arg in _OURS:
                before = self.source.text.rindex(b",", 0, self._start(keyword))
                self.edits.append((before, self._end(keyword), ""))
            else:
                self.visit(keyword)
        for argument in node.args:
            self.visit(argument)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and (module := self._module(node)) is not None:
            raise self._refused(node, f"uses the module {module} as a value")

    def visit_Import(self, node: ast.Import) -> None:
        for imported in self.source.imported_by(node).values():
            if self.is_own(imported.module) or imported.is_left_out:
                raise self._refused(node, f"imports {imported.module} within")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        found = self.source.imported_by(node)
        if any(imported.is_left_out for imported in found.values()):
            raise self._refused(node, f"imports {node.module} within")
        if not any(self.is_own(imported.module) for imported in found.values()):
            return
        renamed = []
        for name, imported in found.items():
            if imported.member is None:
                raise self._refused(node, f"imports the module {imported.module} within")
            self.members.add((imported.module, imported.member))
            if name != imported.member:
                renamed.append(f"{name} = {imported.member}")
        self.edits.append((self._start(node), self._end(node), "; ".join(renamed) or "pass"))

    # -------------------------------------------------------------------------------------------- details

    def _kept_decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.expr]:
        kept = []
        for decorator in node.decorator_list:
            imported = self._imported(root(decorator))
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if imported is None or not imported.is_left_out or self._is_our_tuner(called):
                kept.append(decorator)
                continue
            at = self.source.text.rindex(b"@", 0, self._start(decorator))
            self.edits.append((at, self._end_of_line(self._end(decorator)), ""))
        return kept

    def _is_our_tuner(self, node: ast.expr) -> bool:
        """Whether an expression is ``tw.autotune``: in a script Triton's own stands in its place."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            imported = self._imported(node.value.id)
            return node.attr == "autotune" and imported is not None and imported.is_left_out
        imported = self._imported(node.id) if isinstance(node, ast.Name) else None
        return imported is not None and imported.is_left_out and imported.member == "autotune"

    def _declares(self, annotation: ast.expr) -> bool:
        """Whether an annotation speaks of shapes, or is of tilewright's own kinds."""
        written = annotation.value if isinstance(annotation, ast.Constant) else None
        tree = ast.parse(written, mode="eval") if isinstance(written, str) else annotation
        imported = [self._imported(n.id) for n in ast.walk(tree) if isinstance(n, ast.Name)]
        return any(i is not None and i.is_left_out for i in imported)

    def _imported(self, name: str | None) -> Imported | None:
        return self.source.imports.get(name or "") if name not in self.local else None

    def _module(self, node: ast.AST) -> str | None:
        """The module of the user's own that an expression names, if it names one."""
        if isinstance(node, ast.Name):
            imported = self._imported(node.id)
            return imported.module if imported and imported.member is None and self.is_own(imported.module) else None
        if isinstance(node, ast.Attribute) and (above := self._module(node.value)) is not None:
            value = getattr(sys.modules.get(above), node.attr, None)
            return f"{above}.{node.attr}" if isinstance(value, ModuleType) and self.is_own(value.__name__) else None
        return None

    def _drop_annotation(self, start: int, annotation: ast.expr) -> None:
        end = self._end(annotation)
        for _ in range(self.source.text[start : self._start(annotation)].count(b"(")):
            end = self.source.text.index(b")", end) + 1
        self.edits.append((start, end, ""))

    def _start(self, node: Any) -> int:
        return self.source.offset(node.lineno, node.col_offset)

    def _end(self, node: Any) -> int:
        return self.source.offset(node.end_lineno, node.end_col_offset)

    def _end_of_line(self, position: int) -> int:
        return self.source.text.index(b"\n", position) + 1

    def _refused(self, node: Any, words: str) -> UsageError:
        return UsageError(
            f"{self.source.file}:{node.lineno}: {words}, which cannot be taken into a script",
            "import its names instead",
        )


def _extent(source: Source, node: Any) -> tuple[int, int]:
    """Where a piece starts and ends: whole lines, where it has them for itself."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    start, end = source.offset(first, node.col_offset), source.offset(node.end_lineno, node.end_col_offset)
    if isinstance(node, ast.expr):
        return start, end
    if getattr(node, "decorator_list", []):
        start = source.line_starts[first - 1]
    rest_end = source.text.find(b"\n", end)
    rest = source.text[end : len(source.text) if rest_end < 0 else rest_end]
    return start, end + len(rest) if rest.strip().startswith(b"#") else end


def _local_names(node: ast.AST) -> Iterator[str]:
    """Names that functions within a piece bind for themselves."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            yield inner.arg
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            body = inner.body if isinstance(inner.body, list) else [inner.body]
            for statement in body:
                if not isinstance(statement, (ast.Import, ast.ImportFrom)):
                    yield from bound_by(statement)


def _looked_up(source: Source, node: ast.stmt | ast.expr, text: str) -> Iterator[str]:
    """Names that a piece, or a function in it, looks up in its module."""
    is_lazy = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in source.tree.body)
    flags = __future__.annotations.compiler_flag if is_lazy else 0
    kind = "eval" if isinstance(node, ast.expr) else "exec"
    try:
        code = compile(f"({text})" if kind == "eval" else text, source.file, kind, flags=flags, dont_inherit=True)
    except SyntaxError:
        raise UsageError(f"{source.file}:{node.lineno}: cannot be cut out of its module") from None
    waiting = [code]
    while waiting:
        code = waiting.pop()
        yield from (i.argval for i in dis.get_instructions(code) if i.opname in _LOOKUPS)
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
