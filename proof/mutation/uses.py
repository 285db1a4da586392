"""Which lines a finding may name for a mutant: the mutated one, those that read what it defines, the access they feed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mutation.source import Edit, Function, Source, called, head_lines, own_nodes

ACCESSES = {"load", "store", "dot", "sum", "max", "min", "reduce", "cumsum", "associative_scan", "histogram", "argmax"}


@dataclass(frozen=True)
class Place:
    """A statement of a function of a module; ``nodes`` are what of it is affected: edited text, or names it reads."""

    module: str
    function: str
    statement: ast.stmt
    nodes: tuple[ast.AST, ...]

    @property
    def lines(self) -> set[tuple[str, int]]:
        return {(self.module, number) for number in head_lines(self.statement)}


@dataclass(frozen=True)
class Lines:
    """Lines by how near they are to the mutation: (module, line)."""

    mutated: frozenset[tuple[str, int]]
    uses: frozenset[tuple[str, int]]
    accesses: frozenset[tuple[str, int]]

    def nearness(self, lines: Iterable[tuple[str, int]]) -> str:
        """``mutated``, ``use``, ``access`` or ``elsewhere``, whichever is nearest among some lines."""
        given = set(lines)
        for name, known in (("mutated", self.mutated), ("use", self.uses), ("access", self.accesses)):
            if given & known:
                return name
        return "elsewhere"


def lines_of(sources: dict[str, Source], module: str, function: str, edits: Iterable[Edit]) -> Lines:
    """The lines that some edits of a function concern.

    ``uses`` read a variable that an edited statement assigns, or are the callee's statements that read an edited
    argument. ``accesses`` are the first loads, stores, atomics, products and reductions that such values reach
    through assignments.
    """
    readers = _Readers(sources)
    first = list(_edited_places(sources[module], module, function, list(edits)))
    direct = [reader for place in first for reader in readers.of(place)]
    reached, waiting = list(direct), [p for p in direct if not _is_access(p.statement)]
    seen = {id(p.statement) for p in (*first, *direct)}
    while waiting:
        for reader in readers.of(waiting.pop()):
            if id(reader.statement) in seen:
                continue
            seen.add(id(reader.statement))
            reached.append(reader)
            if not _is_access(reader.statement):
                waiting.append(reader)
    accesses = [p for p in reached if _is_access(p.statement)]
    return Lines(_all_lines(first), _all_lines(direct), _all_lines(accesses))


def _edited_places(source: Source, module: str, function: str, edits: list[Edit]) -> Iterator[Place]:
    for statement in _statements(source.functions[function]):
        nodes = [n for n in own_nodes(statement) if any(_covers(n, edit) for edit in edits)]
        if nodes:
            yield Place(module, function, statement, tuple(nodes))


def _covers(node: ast.AST, edit: Edit) -> bool:
    if not isinstance(node, ast.expr):
        return False
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return begin <= (edit.line, edit.column) and (edit.end_line, edit.end_column) <= end


def _all_lines(places: Iterable[Place]) -> frozenset[tuple[str, int]]:
    return frozenset(line for place in places for line in place.lines)


def _is_access(statement: ast.stmt) -> bool:
    names = {called(node) for node in own_nodes(statement)}
    return bool(names & ACCESSES) or any(name.startswith("atomic") for name in names)


def _statements(function: Function) -> Iterator[ast.stmt]:
    yield from (node for s in function.body for node in ast.walk(s) if isinstance(node, ast.stmt))


class _Readers:
    """Who reads what a statement defines, across the calls of jitted helpers and launches."""

    def __init__(self, sources: dict[str, Source]) -> None:
        self._functions = {name: (module, f) for module, s in sources.items() for name, f in s.functions.items()}
        self._reached = {name: _reaching(function) for name, (_, function) in self._functions.items()}
        self._callers: dict[str, list[Place]] = {}
        for name, (module, function) in self._functions.items():
            for statement in _statements(function):
                for node in own_nodes(statement):
                    if called(node) in self._functions:
                        self._callers.setdefault(called(node), []).append(Place(module, name, statement, (node,)))

    def of(self, place: Place) -> Iterator[Place]:
        for definition, reader, names in self._reached[place.function]:
            if definition is place.statement:
                yield Place(place.module, place.function, reader, names)
        for call in own_nodes(place.statement):
            if isinstance(call, ast.Call):
                yield from self._in_callee(call, place)
        if isinstance(place.statement, ast.Return):
            yield from self._callers.get(place.function, ())

    def _in_callee(self, call: ast.Call, place: Place) -> Iterator[Place]:
        """The statements of a called or launched function that read a parameter whose argument is affected."""
        target = call.func.value if isinstance(call.func, ast.Subscript) else call.func
        if not isinstance(target, ast.Name) or target.id not in self._functions:
            return
        module, function = self._functions[target.id]
        given = _parameters(call, function)
        affected = {p for argument, names in given for p in names if any(n in place.nodes for n in ast.walk(argument))}
        for definition, reader, names in self._reached[target.id]:
            read = tuple(n for n in names if n.id in affected)
            if definition is function and read:
                yield Place(module, target.id, reader, read)


def _parameters(call: ast.Call, function: Function) -> Iterator[tuple[ast.AST, list[str]]]:
    """Each argument of a call with the parameters it gives; starred ones share what the others leave, evenly."""
    names = [a.arg for a in function.args.args]
    yield from ((k.value, [k.arg]) for k in call.keywords if k.arg)
    named = {k.arg for k in call.keywords}
    starred = sum(isinstance(a, ast.Starred) for a in call.args)
    free = len([n for n in names if n not in named]) - (len(call.args) - starred)
    at = 0
    for argument in call.args:
        width = max(round(free / starred), 0) if isinstance(argument, ast.Starred) else 1
        yield argument, names[at : at + width]
        at += width


def _reaching(function: Function) -> list[tuple[ast.stmt, ast.stmt, tuple[ast.Name, ...]]]:
    """A statement that assigns variables (the function itself its parameters), one that may read them, and where."""
    pairs: dict[tuple[int, int], tuple[ast.stmt, ast.stmt, tuple[ast.Name, ...]]] = {}

    def read(statement: ast.stmt, held: dict[str, set]) -> None:
        for node in own_nodes(statement):
            if isinstance(node, ast.Name) and node.id in held:
                is_read = isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign)
                for definition in held[node.id] if is_read else ():
                    _, _, names = pairs.get((id(definition), id(statement)), (None, None, ()))
                    pairs[id(definition), id(statement)] = (definition, statement, (*names, node))

    def walk(body: list[ast.stmt], held: dict[str, set]) -> dict[str, set]:
        for statement in body:
            read(statement, held)
            if isinstance(statement, (ast.For, ast.While)):
                for _ in range(2):  # what one round leaves, the next one finds
                    inside = dict(held) | _assigned(statement)
                    held = _either(held, walk(statement.body, inside))
                    read(statement, held)
            elif isinstance(statement, ast.If):
                held = _either(walk(statement.body, dict(held)), walk(statement.orelse, dict(held)))
            else:
                held = {**held, **_assigned(statement)}
        return held

    walk(function.body, {a.arg: {function} for a in function.args.args})
    return list(pairs.values())


def _assigned(statement: ast.stmt) -> dict[str, set]:
    names = [n for n in own_nodes(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {name.id: {statement} for name in names}


def _either(one: dict[str, set], two: dict[str, set]) -> dict[str, set]:
    return {name: one.get(name, set()) | two.get(name, set()) for name in {*one, *two}}
