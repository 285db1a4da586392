"""A module as the statements it is made of: what each binds, and what its imports stand for."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from tilewright.errors import UsageError

_LIBRARY = "tilewright.kernels"
_LEFT_OUT = ("tilewright", "jaxtyping", "beartype", "typeguard")
_INSTALLED = tuple(
    {
        str(Path(p).resolve())
        for p in (*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages())
    }
)


@dataclass(frozen=True)
class Imported:
    """What an import binds a name to: a module, or a ``member`` of one. ``text`` is an import of it alone."""

    module: str
    member: str | None
    text: str

    @property
    def is_left_out(self) -> bool:
        """Whether it only declares: it belongs to tilewright, or to what checks annotations."""
        top = self.module.split(".")[0]
        return top in _LEFT_OUT and not f"{self.module}.".startswith(f"{_LIBRARY}.")


@dataclass(frozen=True)
class Statement:
    """A statement at a module's top level: the names that it binds, and those whose objects it changes."""

    position: int
    node: ast.stmt
    binds: frozenset[str]
    changes: frozenset[str]


class Source:
    """A module's source beside its names as they are now."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.namespace = namespace
        self.name = str(namespace.get("__name__", ""))
        self.file = str(namespace.get("__file__") or "")
        try:
            self.text = Path(self.file).read_bytes()
            self.tree = ast.parse(self.text)
        except (OSError, SyntaxError, ValueError):
            raise UsageError(
                f"the source of {self.name or 'the launcher'} cannot be read", "write it in a file"
            ) from None
        self.line_starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """What the module runs when it is imported, in order."""
        own = enumerate(self.tree.body)
        return tuple(
            Statement(i, n, frozenset(bound_by(n)), frozenset(_changed_by(n))) for i, n in own if not _is_aside(n)
        )

    def binding(self, name: str) -> list[Statement]:
        return [statement for statement in self.statements if name in statement.binds]

    def changing(self, name: str) -> list[Statement]:
        return [s for s in self.statements if name in s.changes and name not in s.binds]

    @cached_property
    def imports(self) -> dict[str, Imported]:
        """By name, what plain imports at the top level bind; a star's names among them."""
        found: dict[str, Imported] = {}
        for statement in self.statements:
            if isinstance(statement.node, (ast.Import, ast.ImportFrom)):
                for name, new in self.imported_by(statement.node).items():
                    former = found.get(name)
                    if former is not None and (former.module, former.member) == (new.module, new.member):
                        new = replace(new, text=f"{former.text}\n{new.text}")  # torch, and torch.nn below it
                    found[name] = new
        return found

    def imported_by(self, node: ast.Import | ast.ImportFrom) -> dict[str, Imported]:
        """What an import statement binds, by name."""
        if isinstance(node, ast.Import):
            return {
                a.asname or a.name.split(".")[0]: Imported(
                    a.name if a.asname else a.name.split(".")[0], None, f"import {a.name}" + _as(a)
                )
                for a in node.names
            }
        module = self._absolute(node)
        if node.names[0].name == "*":
            home = importlib.import_module(module)
            public = getattr(home, "__all__", None) or [n for n in vars(home) if not n.startswith("_")]
            return {name: Imported(module, name, f"from {module} import {name}") for name in public}
        return {a.asname or a.name: _member(module, a) for a in node.names}

    def offset(self, line: int, column: int) -> int:
        """A position of the syntax tree as an index into the text."""
        return self.line_starts[line - 1] + column

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.namespace.get("__package__") or self.name.rpartition(".")[0]
        return importlib.util.resolve_name("." * node.level + (node.module or ""), str(package))


def _as(alias: ast.alias) -> str:
    return f" as {alias.asname}" if alias.asname else ""


def _member(module: str, alias: ast.alias) -> Imported:
    """``from package import name``: a member, or a module below the package."""
    text = f"from {module} import {alias.name}{_as(alias)}"
    below = f"{module}.{alias.name}"
    value = getattr(sys.modules.get(module), alias.name, None)
    is_module = isinstance(value, ModuleType) and value.__name__ == below
    return Imported(below, None, text) if is_module else Imported(module, alias.name, text)


def is_users_own(module: str, home: Source) -> bool:
    """Whether a module belongs to the user, or to the library of kernels, and is to be taken into a script."""
    if f"{module}.".startswith(f"{_LIBRARY}."):
        return True
    top = module.split(".")[0]
    if top in ("torch", "triton", *_LEFT_OUT) or top in sys.stdlib_module_names:
        return False
    if top == home.name.split(".")[0]:
        return True
    found = sys.modules.get(module)
    places = [getattr(found, "__file__", None), *getattr(found, "__path__", ())]
    place = next((p for p in places if p), None)
    return place is not None and not str(Path(place).resolve()).startswith(_INSTALLED)


# ------------------------------------------------------------------------------------------------ statements


def bound_by(node: ast.AST) -> Iterator[str]:
    """Names that a statement binds in its own scope."""
    for inner in _of_this_scope(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield inner.name
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, (ast.Import, ast.ImportFrom)):
            yield from (a.asname or a.name.split(".")[0] for a in inner.names)


def root(node: ast.AST) -> str | None:
    """The name that an expression such as ``a.b(c)[d]`` starts from."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _changed_by(node: ast.AST) -> Iterator[str]:
    """Names whose objects a statement changes: ``x[...] = …``, ``x.y = …``, ``x.append(…)``."""
    for inner in _of_this_scope(node):
        is_target = isinstance(inner, (ast.Attribute, ast.Subscript)) and not isinstance(inner.ctx, ast.Load)
        is_method = isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call)
        changed = root(inner) if is_target else root(inner.value.func) if is_method else None  # type: ignore[attr-defined]
        is_bare_call = is_method and isinstance(inner.value.func, ast.Name)  # type: ignore[attr-defined]
        if changed is not None and changed != "sys" and not is_bare_call:
            yield changed


def _of_this_scope(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what is inside it, but not inside functions and classes."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.comprehension):
            yield from _of_this_scope(child)


def _is_aside(node: ast.stmt) -> bool:
    """Docstrings, ``__all__``, and what is only for scripts and type checkers."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return True
    return isinstance(node, ast.If) and (
        "__name__" in ast.unparse(node.test) or "TYPE_CHECKING" in ast.unparse(node.test)
    )
