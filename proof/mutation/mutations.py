"""The seven kinds of mutation: from a function's tree to edits of its text.

Nothing here knows what a kernel is for. Each mutation is one that people make: a mask forgotten or built of one dim
only, a neutral element that is none, strides passed the wrong way round, a sum of several programs without an atomic,
an accumulator in half precision, an offset in 32 bits, a bound one off.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

from mutation.source import Edit, Function, Source, called, is_jitted, keyword, replaced

KINDS = {
    "mask": "a mask dropped, whole or one conjunct of it",
    "other": "the fill of dead lanes changed or dropped",
    "stride": "two strides swapped",
    "atomic": "an atomic or a lock dropped",
    "accumulator": "an accumulator or a conversion to float32 lowered to float16",
    "offset": "an offset narrowed to 32 bits",
    "bound": "the bound of a mask, a loop or a grid shifted",
}


@dataclass(frozen=True)
class Mutation:
    """A change of one function. ``what`` names it among those of its line; ``node`` is where it is."""

    kind: str
    what: str
    node: ast.AST
    edits: tuple[Edit, ...]


def mutations(source: Source, function: Function) -> Iterator[Mutation]:
    """All mutations of a function, in the order of its text."""
    found = [m for make in (_IN_KERNELS if is_jitted(function) else _IN_LAUNCHERS) for m in make(source, function)]
    yield from sorted(found, key=lambda m: (m.node.lineno, m.node.col_offset, m.kind, m.what))


def _calls(function: Function, *names: str) -> Iterator[ast.Call]:
    yield from (node for node in ast.walk(function) if called(node) in names)


# ------------------------------------------------------------------------------------------------- masks


def _masks(source: Source, function: Function) -> Iterator[Mutation]:
    for call in _calls(function, "load", "store", "atomic_add", "atomic_max"):
        mask = keyword(call, "mask")
        if mask is not None:
            bare = _without(call, "mask", "other")
            yield Mutation("mask", f"drop mask={_one_line(source.segment(mask.value))}", call, (replaced(call, bare),))
    for chain in ast.walk(function):
        if _is_and(chain) and not _is_and(source.parent(chain)):
            parts = _conjuncts(chain)
            if any(isinstance(part, ast.Constant) for part in parts):
                continue  # bits of a number
            for i, part in enumerate(parts):
                rest = " & ".join(_bracketed(source, p) for j, p in enumerate(parts) if j != i)
                text = rest if len(parts) > 2 else source.segment(parts[1 - i])
                yield Mutation(
                    "mask", f"drop {_one_line(source.segment(part))}", chain, (replaced(chain, _one_line(text)),)
                )


def _is_and(node: ast.AST | None) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd)


def _conjuncts(node: ast.AST) -> list[ast.AST]:
    return [*_conjuncts(node.left), *_conjuncts(node.right)] if _is_and(node) else [node]


def _bracketed(source: Source, node: ast.AST) -> str:
    text = source.segment(node)
    return text if isinstance(node, (ast.Name, ast.Subscript, ast.Call, ast.Constant)) else f"({text})"


def _without(call: ast.Call, *names: str) -> str:
    bare = deepcopy(call)
    bare.keywords = [k for k in bare.keywords if k.arg not in names]
    return ast.unparse(bare)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------------------------------------- fills


def _others(source: Source, function: Function) -> Iterator[Mutation]:
    for call in _calls(function, "load"):
        other = keyword(call, "other")
        if other is None:
            continue
        yield Mutation("other", "drop other", call, (replaced(call, _without(call, "other")),))
        yield from _changed_fill(source, other.value, "other")
    for call in _calls(function, "where"):
        if len(call.args) == 3:
            yield from _changed_fill(source, call.args[2], "where's fill")


def _changed_fill(source: Source, node: ast.expr, name: str) -> Iterator[Mutation]:
    text = source.segment(node)
    try:
        value = float(eval(text, {"__builtins__": {}, "float": float}))
    except Exception:
        return  # no constant
    for new in {0.0: ("1.0",), 1.0: ("0.0",)}.get(value, ("0.0",)):
        written = new if isinstance(node, ast.Call) or "." in text or "inf" in text else str(int(float(new)))
        yield Mutation("other", f"{name} {text} -> {written}", node, (replaced(node, written),))


# ----------------------------------------------------------------------------------------------- strides


def _strides(source: Source, function: Function) -> Iterator[Mutation]:
    for chain in ast.walk(function):
        if _is_sum(chain) and not _is_sum(source.parent(chain)):
            yield from _swapped_in_sum(source, function, chain)


def _is_sum(node: ast.AST | None) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def _terms(node: ast.AST) -> list[ast.AST]:
    return [*_terms(node.left), *_terms(node.right)] if _is_sum(node) else [node]


def _swapped_in_sum(source: Source, function: Function, chain: ast.AST) -> Iterator[Mutation]:
    """Strides of neighbouring terms of an index expression, the unwritten 1 of contiguous lanes among them."""
    terms = _terms(chain)
    sizes = {a.arg for a in function.args.args} - {"BLOCK"}
    strides = [_stride_of(term, sizes) for term in terms]
    for i, j in pairwise(range(len(terms))):
        one, two = strides[i], strides[j]
        if one is not None and two is not None and one.id != two.id:
            edits = (replaced(one, two.id), replaced(two, one.id))
            yield Mutation("stride", f"swap {one.id} and {two.id}", chain, edits)
        elif one is not None and isinstance(terms[j], (ast.Name, ast.Subscript)):
            index = source.segment(_other_factor(terms[i], one))
            edits = (replaced(terms[i], _one_line(index)), replaced(terms[j], f"{source.segment(terms[j])} * {one.id}"))
            yield Mutation("stride", f"swap {one.id} and 1", chain, edits)


def _stride_of(term: ast.AST, sizes: set[str]) -> ast.Name | None:
    """The factor of a term that is a stride: a parameter that is no side of a tile."""
    if not (isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult)):
        return None
    factor = term.right
    is_stride = isinstance(factor, ast.Name) and factor.id in sizes and not factor.id.startswith("B")
    return factor if is_stride else None


def _other_factor(term: ast.BinOp, stride: ast.Name) -> ast.expr:
    return term.left if term.right is stride else term.right


def _swapped_in_launch(source: Source, function: Function) -> Iterator[Mutation]:
    for call in ast.walk(function):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript)):
            continue
        for one, two in pairwise(call.args):
            first, second = source.segment(one), source.segment(two)
            if (
                ".stride(" in first
                and ".stride(" in second
                and isinstance(one, ast.Starred) == isinstance(two, ast.Starred)
            ):
                edits = (replaced(one, second), replaced(two, first))
                yield Mutation("stride", f"swap {first} and {second}", one, edits)


# ----------------------------------------------------------------------------------------------- atomics


def _atomics(source: Source, function: Function) -> Iterator[Mutation]:
    for call in _calls(function, "atomic_add", "atomic_max", "atomic_xchg"):
        statement, name = source.statement(call), called(call)
        pointer, value = source.segment(call.args[0]), source.segment(call.args[1])
        mask = keyword(call, "mask")
        masked = f", mask={source.segment(mask.value)}" if mask is not None else ""
        loaded = f"tl.load({pointer}{masked})"
        new = f"{loaded} + {value}" if name == "atomic_add" else f"tl.maximum({loaded}, {value})"
        added, plain = f"tl.store({pointer}, {new}{masked})", f"tl.store({pointer}, {value}{masked})"
        if isinstance(statement, ast.Expr) and statement.value is call:
            if name != "atomic_xchg":
                yield Mutation("atomic", f"{name} -> load and store", call, (replaced(call, _one_line(added)),))
            yield Mutation("atomic", f"{name} -> store", call, (replaced(call, _one_line(plain)),))
        elif isinstance(statement, ast.Assign) and statement.value is call and name == "atomic_add":
            target = source.segment(statement.targets[0])
            text = f"{target} = {loaded}; tl.store({pointer}, {target} + {value}{masked})"
            yield Mutation("atomic", f"{name} -> load and store", statement, (replaced(statement, _one_line(text)),))
    for loop in ast.walk(function):
        waits = isinstance(loop, ast.While) and any("atomic" in called(n) for n in ast.walk(loop.test))
        if waits and all(isinstance(s, ast.Pass) for s in loop.body):  # nothing but the wait
            yield Mutation("atomic", "drop the wait", loop, (replaced(loop, "pass"),))


# ------------------------------------------------------------------------------------------ accumulators


def _accumulators(source: Source, function: Function) -> Iterator[Mutation]:
    for statement in ast.walk(function):
        if isinstance(statement, ast.Assign) and called(statement.value) in ("zeros", "full"):
            wide = _float32(statement.value)
            if wide is not None and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                edits = (replaced(wide, "tl.float16"), *_kept_narrow(source, function, name, statement))
                yield Mutation("accumulator", f"{name} in float16", statement, edits)
    for call in _calls(function, "to", "dot"):
        wide = _float32(call)
        if wide is not None:
            receiver = source.segment(call.func.value) if called(call) == "to" else "tl.dot"
            yield Mutation("accumulator", f"{_one_line(receiver)} to float16", call, (replaced(wide, "tl.float16"),))


def _float32(call: ast.Call) -> ast.expr | None:
    given = [*call.args, *(k.value for k in call.keywords)]
    return next((node for node in given if ast.unparse(node) == "tl.float32"), None)


def _kept_narrow(source: Source, function: Function, name: str, made: ast.Assign | None) -> Iterator[Edit]:
    """Each step of the accumulation rounded to what the accumulator now is, in helpers it is passed to as well."""
    helpers = {}
    for node in ast.walk(function):
        helper = source.functions.get(called(node))
        for parameter, argument in zip(helper.args.args, node.args) if helper and is_jitted(helper) else ():
            if isinstance(argument, ast.Name) and argument.id == name:
                helpers[helper.name, parameter.arg] = helper
        if node is made or not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name) and target.id == name:
            yield from _rounded(source, node.value)
    for (_, parameter), helper in helpers.items():
        yield from _kept_narrow(source, helper, parameter, None)


def _rounded(source: Source, value: ast.expr) -> Iterator[Edit]:
    if called(value) == "dot" and len(value.args) > 2:  # which adds in float32
        yield replaced(value.args[2], f"{_bracketed(source, value.args[2])}.to(tl.float32)")
    yield Edit(value.lineno, value.col_offset, value.lineno, value.col_offset, "(")
    yield Edit(value.end_lineno, value.end_col_offset, value.end_lineno, value.end_col_offset, ").to(tl.float16)")


# ----------------------------------------------------------------------------------------------- offsets


def _offsets(source: Source, function: Function) -> Iterator[Mutation]:
    for call in _calls(function, "to", "cast"):
        wide = next((a for a in call.args if ast.unparse(a) == "tl.int64"), None)
        if wide is None:
            continue
        inner = call.func.value if called(call) == "to" else call.args[0]
        text = _one_line(_bracketed(source, inner))
        yield Mutation("offset", f"{text} not to int64", call, (replaced(call, text),))
        yield Mutation("offset", f"{text} to int32", call, (replaced(wide, "tl.int32"),))


# ------------------------------------------------------------------------------------------------ bounds


def _bounds(source: Source, function: Function) -> Iterator[Mutation]:
    yield from _shifted_masks(source, function)
    yield from _shifted_loops(source, function)
    yield from _floored(source, function, "tl")


def _shifted_masks(source: Source, function: Function) -> Iterator[Mutation]:
    tests = {node for s in ast.walk(function) if isinstance(s, (ast.If, ast.While)) for node in ast.walk(s.test)}
    for compare in ast.walk(function):
        if not isinstance(compare, ast.Compare) or compare in tests or not isinstance(compare.ops[0], ast.Lt):
            continue
        bound = compare.comparators[0]
        text = source.segment(bound)
        for sign in ("-", "+"):
            new = f"{text} {sign} 1"
            yield Mutation("bound", f"{source.segment(compare)} -> {new}", compare, (replaced(bound, new),))


def _shifted_loops(source: Source, function: Function) -> Iterator[Mutation]:
    for loop in ast.walk(function):
        if not (isinstance(loop, ast.For) and called(loop.iter) in ("range", "static_range")):
            continue
        given = loop.iter.args
        end = given[1] if len(given) > 1 else given[0]
        step = _bracketed(source, given[2]) if len(given) > 2 else "1"
        text = _bracketed(source, end)
        yield Mutation("bound", f"loop ends at {text} - {step}", loop.iter, (replaced(end, f"{text} - {step}"),))


def _floored(source: Source, function: Function, module: str) -> Iterator[Mutation]:
    for call in _calls(function, "cdiv"):
        if ast.unparse(call.func) == f"{module}.cdiv":
            above, below = (_bracketed(source, a) for a in call.args)
            text = f"({above} // {below})"
            yield Mutation("bound", f"{source.segment(call)} -> //", call, (replaced(call, text),))


def _floored_grids(source: Source, function: Function) -> Iterator[Mutation]:
    yield from _floored(source, function, "triton")


Maker = Callable[[Source, Function], Iterator[Mutation]]
_IN_KERNELS: tuple[Maker, ...] = (_masks, _others, _strides, _atomics, _accumulators, _offsets, _bounds)
_IN_LAUNCHERS: tuple[Maker, ...] = (_swapped_in_launch, _floored_grids)
