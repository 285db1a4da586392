"""A load, an addition and a store of one address, as the atomic addition that they were meant to be."""

from __future__ import annotations

import ast

from tilewright.debug.causes import source


def form(file: str, line: int) -> list[tuple[int, str]]:
    """For ``x = tl.load(p); tl.store(p, x + a)``: the line of the store, and the atomic addition in its place; the
    line of the load, which would still race, where nothing else needs it. Empty where nothing has this form."""
    around = source.function(file, line)
    if around is None:
        return []
    loaded: dict[str, str] = {}
    for node in ast.walk(around):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_call(node.value, "load"):
            for target in node.targets:
                if isinstance(target, ast.Name) and node.value.args:
                    loaded[target.id] = source.text(node.value.args[0])
    for node in ast.walk(around):
        if not isinstance(node, ast.Call) or not _is_call(node, "store") or len(node.args) < 2:
            continue
        pointer, value = source.text(node.args[0]), node.args[1]
        added = _addend(value, pointer, loaded)
        if added is None or not _near(around, node, line, pointer):
            continue
        keywords = "".join(f", {k.arg}={source.text(k.value)}" for k in node.keywords if k.arg == "mask")
        found = [(node.lineno, f"tl.atomic_add({pointer}, {added}{keywords})")]
        return found + [(load, "without this line") for load in _needless(around, pointer)]
    return []


def _needless(around: ast.FunctionDef, pointer: str) -> list[int]:
    """Lines that load from an address into a variable of which one use is made."""
    names = [n.id for n in ast.walk(around) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    found = []
    for node in ast.walk(around):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
            continue
        target, call = node.targets[0], node.value
        reads = _is_call(call, "load") and bool(call.args) and source.text(call.args[0]) == pointer
        if reads and isinstance(target, ast.Name) and names.count(target.id) == 1:
            found.append(node.lineno)
    return found


def _near(around: ast.FunctionDef, store: ast.Call, line: int, pointer: str) -> bool:
    """Whether a line is that of the store, or of the load of the same address."""
    lines = {store.lineno}
    for node in ast.walk(around):
        if isinstance(node, ast.Call) and _is_call(node, "load") and node.args and source.text(node.args[0]) == pointer:
            lines.add(node.lineno)
    return line in lines


def _addend(value: ast.expr, pointer: str, loaded: dict[str, str]) -> str | None:
    """What a stored sum adds to what was loaded from the same address."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None
    for old, added in ((value.left, value.right), (value.right, value.left)):
        if isinstance(old, ast.Name) and loaded.get(old.id) == pointer:
            return source.text(added)
        if isinstance(old, ast.Call) and _is_call(old, "load") and old.args and source.text(old.args[0]) == pointer:
            return source.text(added)
    return None


def _is_call(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == name
