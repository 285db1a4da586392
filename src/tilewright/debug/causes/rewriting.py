"""Lines of the user's as they would be with an edit, made from their syntax."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from tilewright.debug.causes import source
from tilewright.debug.causes.launches import Swapped
from tilewright.debug.causes.masks import Shifted
from tilewright.debug.causes.site import Site
from tilewright.records import Edit

_NARROW_NAMES = ("float16", "bfloat16", "float32")


def conjuncts(mask: ast.expr) -> list[ast.expr]:
    """The parts of a mask that are joined by ``&``."""
    if isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.BitAnd):
        return [*conjuncts(mask.left), *conjuncts(mask.right)]
    return [mask]


def compares_what(part: ast.expr, conditions: Sequence[str]) -> bool:
    """Whether a part of a mask bounds the same index as one of some conditions, which then takes its place."""
    if not isinstance(part, ast.Compare) or not isinstance(part.ops[0], ast.Lt | ast.LtE):
        return False
    return any(source.text(part.left) == condition.partition(" < ")[0] for condition in conditions)


def all_of(conditions: Sequence[str]) -> str:
    """Conditions joined, with the brackets that ``&`` needs."""
    if len(conditions) == 1:
        return conditions[0]
    return " & ".join(c if re.fullmatch(r"\w+(\[[^\]]*\])?|\(.*\)", c) else f"({c})" for c in conditions)


def division(site: Site) -> str:
    kind = ast.Mod if site.op == "arith.remsi" else ast.FloorDiv
    written = source.binary(site, (kind,))
    if written is None:
        return "(a % n + n) % n: of a negative number % is negative here"
    a, b = (_operand(side) for side in (written.left, written.right))
    rest = f"({a} % {b} + {b}) % {b}"
    return source.line_with(site.file, written, rest if kind is ast.Mod else f"({a} - {rest}) // {b}")


def _operand(node: ast.expr) -> str:
    simple = isinstance(node, (ast.Name, ast.Constant, ast.Call, ast.Subscript, ast.Attribute))
    return source.text(node) if simple else f"({source.text(node)})"


def in_64_bits(site: Site) -> Edit:
    """Where an offset first wraps, its left side in 64 bits."""
    written = source.binary(site, (ast.Mult, ast.Add, ast.Sub, ast.LShift))
    if written is None:
        return Edit(site.file, site.line, "the offset in 64 bits: .to(tl.int64) before the product")
    left, right = written.left, written.right
    if isinstance(left, ast.Constant):
        left, right = right, left
    sign = {ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.LShift: "<<"}[type(written.op)]
    instead = f"{_operand(left)}.to(tl.int64) {sign} {_operand(right)}"
    return Edit(site.file, site.line, source.line_with(site.file, written, instead))


def shifted(change: Shifted) -> str:
    """The comparison as its author would have written it: a one too many taken away, or one added."""
    written = source.comparison(change.site)
    if written is None:
        return f"the right side of this comparison is {'one less' if change.by > 0 else 'one more'} than it should be"
    left, right = source.text(written.left), written.comparators[0]
    sign = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}[type(written.ops[0])]
    adds = isinstance(right, ast.BinOp) and isinstance(right.op, ast.Add if change.by < 0 else ast.Sub)
    if isinstance(right, ast.BinOp) and adds and source.text(right.right) == "1":
        instead = f"{left} {sign} {source.text(right.left)}"
    else:
        instead = f"{left} {sign} {source.text(right)} {'+' if change.by > 0 else '-'} 1"
    return source.line_with(change.site.file, written, instead)


def guarded(site: Site, form: str) -> Edit:
    return Edit(site.file, site.line, "then " + form.format(assigned(site) or "its result"))


def divisor(site: Site) -> str:
    written = source.binary(site, (ast.Div,))
    if written is None:
        return "a divisor of 0.0 to be 1.0"
    left, right = _operand(written.left), source.text(written.right)
    return source.line_with(site.file, written, f"{left} / tl.where({right} == 0.0, 1.0, {right})")


def one_more_turn(site: Site) -> Edit:
    written = source.loop(site)
    if written is None or not isinstance(written.iter, ast.Call) or not written.iter.args:
        return Edit(site.file, site.line, "one more turn of this loop")
    given = written.iter.args
    ends_at = 0 if len(given) == 1 else 1
    step = given[2] if len(given) > 2 else None
    changed = [source.text(a) for a in given]
    changed[ends_at] = _later(given[ends_at], step)
    keywords = [f"{k.arg}={source.text(k.value)}" for k in written.iter.keywords]
    words = f"for {source.text(written.target)} in {source.text(written.iter.func)}({', '.join(changed + keywords)}):"
    return Edit(site.file, written.lineno, words)


def _later(end: ast.expr, step: ast.expr | None) -> str:
    """An end that is one step further, written as its author would have."""
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.FloorDiv):
        return f"tl.cdiv({source.text(end.left)}, {source.text(end.right)})"
    if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Sub):
        return source.text(end.left)
    return f"{source.text(end)} + {'1' if step is None else source.text(step)}"


def assigned(site: Site) -> str | None:
    """The variable that a statement assigns to."""
    around = source.function(site.file, site.line)
    for node in ast.walk(around) if around is not None else ():
        if isinstance(node, (ast.Assign, ast.AugAssign)) and node.lineno <= site.line <= (node.end_lineno or 0):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            return target.id if isinstance(target, ast.Name) else None
    return None


def with_type(line: str, wide: str) -> str:
    for narrow in _NARROW_NAMES:
        if f"tl.{narrow}" != wide:
            line = line.replace(f"tl.{narrow}", wide)
    return line


def declaration(site: Site, name: str, wide: str) -> Edit | None:
    """The line that gives a variable its type, with another type there."""
    around = source.function(site.file, site.line)
    for node in ast.walk(around) if around is not None else ():
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            line = source.statement(site.file, node.lineno)
            if with_type(line, wide) != line:
                return Edit(site.file, node.lineno, with_type(line, wide))
    return None


def names_both(node: ast.AST, change: Swapped) -> bool:
    if not isinstance(node, (ast.BinOp, ast.Call)):
        return False
    return {change.first, change.second} <= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


class _Exchange(ast.NodeTransformer):
    def __init__(self, change: Swapped) -> None:
        self._other = {change.first: change.second, change.second: change.first}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._other.get(node.id, node.id), node.ctx), node)


def exchanged(node: ast.AST, change: Swapped) -> ast.AST:
    return _Exchange(change).visit(ast.parse(source.text(node), mode="eval").body)  # type: ignore[no-any-return]
