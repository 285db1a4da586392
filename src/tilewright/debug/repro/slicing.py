"""A launcher cut out of its modules: the statements it needs, in order, with the imports that they need.

A name is followed to the statement that binds it, and what that statement looks up is followed in turn: through
the user's own neighbouring modules, but not into installed ones, which stay imports.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.debug.repro.literals import literal
from tilewright.debug.repro.modules import Source, Statement, is_users_own
from tilewright.debug.repro.rewriting import Member, piece
from tilewright.errors import UsageError
from tilewright.spec.operator import Operator


@dataclass(frozen=True)
class Sliced:
    """Imports and code that hold a launcher in a script."""

    imports: tuple[str, ...]
    code: str


class Slicer:
    """Cuts functions out of their modules; all that it has cut stands in one script."""

    def __init__(self) -> None:
        self.sources: dict[int, Source] = {}
        self.home: Source | None = None
        self.texts: dict[Source, dict[int, str]] = {}
        self.imports: dict[str, str] = {}
        self.owners: dict[str, tuple[str, str]] = {}  # by name in the script: the module it comes from, its name there
        self.aliases: dict[Source, dict[str, str]] = {}
        self.before: dict[Source, set[Source]] = {}  # modules whose code must stand before a module's own

    def sliced(self) -> Sliced:
        """All that was taken, as it stands in the script."""
        blocks = [self._block(source) for source in self._in_order()]
        return Sliced(tuple(sorted(set(self.imports.values()))), "\n\n\n".join(blocks))

    def path_of(self, value: Any) -> str | None:
        """How the script names an object below Triton's decorators, such as ``kernel.fn``; None if it does not."""
        for source, texts in self.texts.items():
            bound = {name for s in source.statements if s.position in texts for name in s.binds}
            for name in sorted(bound & self.owners.keys()):
                path, found = name, source.namespace.get(name)
                while (
                    found is not None and found is not value and not inspect.isfunction(found) and hasattr(found, "fn")
                ):
                    path, found = f"{path}.fn", found.fn
                if found is value:
                    return path
        return None

    # ------------------------------------------------------------------------------------ the launcher itself

    def expression(self, run: Any) -> str:
        """What names a callable in the script, with all that it needs taken.

        Raises:
            UsageError: it cannot be cut out of its module.
        """
        if isinstance(run, functools.partial):
            given = [*map(literal, run.args), *(f"{n}={literal(v)}" for n, v in run.keywords.items())]
            self.imports["functools"] = "import functools"
            return f"functools.partial({', '.join([self.expression(run.func), *given])})"
        if inspect.ismethod(run):
            return f"{self._owner(run.__self__)}.{run.__name__}"
        if not inspect.isfunction(run):
            return self._named(run, self._source(_namespace(run)))
        source = self._source(_namespace(run))
        if run.__name__ == "<lambda>":
            return self._lambda(run, source)
        first = run.__qualname__.split(".")[0]
        if "<locals>" in run.__qualname__ or not source.binding(first):
            return self._named(run, source)
        self._need(source, first)
        return str(run.__qualname__)

    def _owner(self, value: Any) -> str:
        if inspect.isclass(value):
            self._need(self._source(_namespace(value)), value.__name__)
            return value.__qualname__
        return self._named(value, self._source(_namespace(type(value))))

    def _named(self, value: Any, source: Source) -> str:
        """The name under which a module holds an object."""
        name = next((n for n, held in source.namespace.items() if held is value), None)
        if name is None:
            made = getattr(value, "__qualname__", type(value).__name__)
            raise UsageError(
                f"{source.file}: {made} is made inside a function, and cannot be cut out of it",
                "define the launcher at its module's top level",
            )
        self._need(source, name)
        return name

    def _lambda(self, run: Any, source: Source) -> str:
        line = run.__code__.co_firstlineno
        places = {(start, column) for start, _, column, _ in run.__code__.co_positions()}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Lambda) and (node.body.lineno, node.body.col_offset) in places:
                return f"({self._take(source, node)})"
        raise UsageError(f"{source.file}:{line}: this lambda cannot be cut out", "define the launcher with def")

    # --------------------------------------------------------------------------------------- what it needs

    def _source(self, namespace: Mapping[str, Any]) -> Source:
        source = self.sources.setdefault(id(namespace), Source(namespace))
        self.home = self.home or source
        self.texts.setdefault(source, {})
        self.before.setdefault(source, set())
        return source

    def _is_own(self, module: str) -> bool:
        assert self.home is not None
        return is_users_own(module, self.home)

    def _need(self, source: Source, name: str) -> None:
        """Takes what binds a name of a module, unless it is taken already."""
        imported = source.imports.get(name)
        if imported is not None:
            if imported.is_left_out:
                where = f"{source.file}: {name} of {imported.module}"
                raise UsageError(f"{where} is used at run time, and a script has torch and triton alone")
            if not self._is_own(imported.module):
                self._claim(name, (imported.module, imported.member or ""), source)
                self.imports[name] = imported.text
            elif imported.member is not None:
                self._need_member(source, (imported.module, imported.member), name)
            return  # a module of one's own is rewritten where its members are used
        declared, statements = source.namespace.get(name), source.binding(name)
        if isinstance(declared, Operator) and not any(_is_definition(s) for s in statements):
            self._alias(source, name, self.expression(declared.run))
            return
        for statement in (*statements, *source.changing(name)):
            self._take_statement(source, statement)

    def _need_member(self, source: Source, member: Member, name: str) -> None:
        """Takes a member of a module of the user's own, under the name it has where it is used."""
        other = self._source(vars(importlib.import_module(member[0])))
        if other is not source:
            self.before[source].add(other)
        self._need(other, member[1])
        if name != member[1]:
            self._alias(source, name, member[1])

    def _alias(self, source: Source, name: str, expression: str) -> None:
        if name != expression:
            self._claim(name, (source.name, name), source)
            self.aliases.setdefault(source, {})[name] = expression

    def _claim(self, name: str, origin: tuple[str, str], source: Source) -> None:
        """Notes what a name stands for in the script.

        Raises:
            UsageError: it stands for something else there.
        """
        owner = self.owners.setdefault(name, origin)
        if owner != origin:
            one, other = (".".join(filter(None, parts)) for parts in (origin, owner))
            raise UsageError(
                f"{source.file}: {name} stands for {one} and, elsewhere, for {other}: one script cannot hold both",
                "rename one of them",
            )

    def _take_statement(self, source: Source, statement: Statement) -> None:
        if statement.position in self.texts[source]:
            return
        self.texts[source][statement.position] = ""
        for name in statement.binds:
            self._claim(name, (source.name, name), source)
        self.texts[source][statement.position] = self._take(source, statement.node)

    def _take(self, source: Source, node: ast.stmt | ast.expr) -> str:
        """The text of a piece, with all that it looks up taken."""
        taken = piece(source, node, self._is_own)
        for member in sorted(taken.members):
            self._need_member(source, member, member[1])
        for name in sorted(taken.names):
            self._need(source, name)  # a builtin is bound nowhere, and needs nothing
        return taken.text

    # ------------------------------------------------------------------------------------------ the script

    def _block(self, source: Source) -> str:
        renamed = [f"{name} = {other}" for name, other in self.aliases.get(source, {}).items()]
        texts = [text for _, text in sorted(self.texts[source].items())]
        return "\n\n\n".join([f"# From {Path(source.file).name}", *renamed, *texts])

    def _in_order(self) -> Iterator[Source]:
        """Modules, each behind those that it imports."""
        done: set[Source] = set()

        def visit(source: Source) -> Iterator[Source]:
            if source in done:
                return
            done.add(source)
            for other in self.before[source]:
                yield from visit(other)
            if self.texts[source] or source in self.aliases:
                yield source

        for source in list(self.texts):
            yield from visit(source)


def _is_definition(statement: Statement) -> bool:
    return isinstance(statement.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _namespace(value: Any) -> Mapping[str, Any]:
    """The names of the module that a function, class or object was made in."""
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    if home is not None and getattr(home, "__file__", None):
        return vars(home)
    while not hasattr(value, "__globals__") and hasattr(value, "fn"):
        value = value.fn
    members = [getattr(member, "__func__", member) for member in vars(value).values()] if inspect.isclass(value) else []
    functions = [f for f in (value, *members) if hasattr(f, "__globals__")]
    return functions[0].__globals__ if functions else {}
