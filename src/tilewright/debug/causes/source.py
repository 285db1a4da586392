"""The user's source around an operation: the call, the operator or the loop that it comes from.

Triton gives an operation the place of the last argument it looked at, not that of the call itself: what is
looked for is the innermost fitting expression around that place.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable, Iterator

from tilewright.debug.causes.site import Site

_CALLS = {
    "tt.load": ("load",),
    "tt.store": ("store",),
    "tt.atomic_rmw": ("atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor", "atomic_xchg"),
    "tt.dot": ("dot",),
    "arith.select": ("where",),
    "tt.scan": ("cumsum", "cumprod", "associative_scan"),
    "tt.reduce": ("sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce", "softmax"),
}


@functools.lru_cache(maxsize=64)
def _tree(file: str, text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def tree(file: str) -> ast.Module | None:
    """The syntax of a file; None where it has none."""
    return _tree(file, "".join(linecache.getlines(file)))


def call(site: Site) -> ast.Call | None:
    """The call that an access or a reduction was written as."""
    names = _CALLS.get(site.op, ())

    def fits(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names

    found = _innermost(site, fits)
    return found if isinstance(found, ast.Call) else None


def binary(site: Site, kinds: tuple[type[ast.operator], ...]) -> ast.BinOp | None:
    """The binary operation at a site, of one of some kinds."""
    found = _innermost(site, lambda node: isinstance(node, ast.BinOp) and isinstance(node.op, kinds))
    return found if isinstance(found, ast.BinOp) else None


def comparison(site: Site) -> ast.Compare | None:
    """The comparison of two values at a site."""
    found = _innermost(site, lambda node: isinstance(node, ast.Compare) and len(node.ops) == 1)
    return found if isinstance(found, ast.Compare) else None


def loop(site: Site) -> ast.For | None:
    """The ``for`` whose range is at a site."""
    found = [n for n in _nodes(site.file) if isinstance(n, ast.For) and n.lineno <= site.line <= _end(n.iter)]
    return max(found, key=lambda node: node.lineno, default=None)


def launching(file: str, line: int) -> ast.Subscript | None:
    """The ``kernel[grid]`` on a line."""
    found = [n for n in _nodes(file) if isinstance(n, ast.Subscript) and n.lineno <= line <= _end(n)]
    called = {id(n.func) for n in _nodes(file) if isinstance(n, ast.Call)}
    return next((node for node in found if id(node) in called), None)


def argument(file: str, line: int, name: str, position: int) -> ast.expr | None:
    """What a launch on a line hands over as a parameter; None where it is not written there by itself."""
    launched = launching(file, line)
    call = next((n for n in _nodes(file) if isinstance(n, ast.Call) and n.func is launched), None)
    if launched is None or call is None or any(isinstance(given, ast.Starred) for given in call.args[: position + 1]):
        return None
    given = keyword(call, name, position)
    return given if isinstance(given, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else None


def rounded_up(expression: ast.expr) -> str | None:
    """An expression with its ``//`` as ``triton.cdiv``; None where it has none."""
    changed = _RoundedUp()
    node = changed.visit(ast.parse(text(expression), mode="eval").body)
    return text(node) if changed.any else None


class _RoundedUp(ast.NodeTransformer):
    def __init__(self) -> None:
        self.any = False

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.FloorDiv):
            return node
        self.any = True
        function = ast.Attribute(ast.Name("triton", ast.Load()), "cdiv", ast.Load())
        return ast.Call(function, [node.left, node.right], [])


def function(file: str, line: int) -> ast.FunctionDef | None:
    """The innermost function around a line."""
    found = [n for n in _nodes(file) if isinstance(n, ast.FunctionDef) and n.lineno <= line <= _end(n)]
    return max(found, key=lambda node: node.lineno, default=None)


def statement(file: str, line: int) -> str:
    """A line as it is written, without its indentation and its comment."""
    text = linecache.getline(file, line).strip()
    return text.partition("  #")[0].rstrip()


def line_with(file: str, node: ast.AST, instead: str) -> str:
    """The line of an expression with another in its place; that other alone where the expression spans lines."""
    line = linecache.getline(file, node.lineno)  # type: ignore[attr-defined]
    if _end(node) != node.lineno:  # type: ignore[attr-defined]
        return instead
    # Columns count bytes.
    raw = line.encode()
    whole = raw[: node.col_offset] + instead.encode() + raw[node.end_col_offset or 0 :]  # type: ignore[attr-defined]
    return whole.decode().strip().partition("  #")[0].rstrip()


def text(node: ast.AST) -> str:
    return ast.unparse(node)


def keyword(node: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument of a call, by its keyword or its position."""
    for given in node.keywords:
        if given.arg == name:
            return given.value
    if position is not None and position < len(node.args):
        return node.args[position]
    return None


def _innermost(site: Site, fits: Callable[[ast.AST], bool]) -> ast.AST | None:
    found = [node for node in _nodes(site.file) if fits(node) and _holds(node, site)]
    # The smallest around the place; where several calls on the line fit and none is around it, the only one.
    if found:
        return min(found, key=_length)
    on_line = [n for n in _nodes(site.file) if fits(n) and n.lineno <= site.line <= _end(n)]  # type: ignore[attr-defined]
    return on_line[0] if len(on_line) == 1 else None


def _nodes(file: str) -> Iterator[ast.AST]:
    whole = tree(file)
    return iter(()) if whole is None else ast.walk(whole)


def _holds(node: ast.AST, site: Site) -> bool:
    start = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
    end = (_end(node), node.end_col_offset or 0)  # type: ignore[attr-defined]
    return start <= (site.line, site.column) < end


def _length(node: ast.AST) -> tuple[int, int]:
    lines = _end(node) - node.lineno  # type: ignore[attr-defined]
    return lines, (node.end_col_offset or 0) - node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.AST) -> int:
    return int(getattr(node, "end_lineno", None) or node.lineno)  # type: ignore[attr-defined]
