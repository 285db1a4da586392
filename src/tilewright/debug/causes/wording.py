"""Edits in words: what to write, on which line, in the kernel's own variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from traceback import StackSummary

from tilewright.debug.causes import atomics, source
from tilewright.debug.causes.arithmetic import PythonDivision, WideOffsets
from tilewright.debug.causes.change import Change
from tilewright.debug.causes.guards import GuardedDivisor, GuardedMaximum
from tilewright.debug.causes.launches import LargerGrid, StrideOf, Swapped
from tilewright.debug.causes.masks import Bounded, Other, WhereOther
from tilewright.debug.causes.naming import Condition, Names
from tilewright.debug.causes.padding import Excluded, Filled
from tilewright.debug.causes.precision import AllWidened, Widened
from tilewright.debug.causes.site import Site
from tilewright.debug.causes.whole import InSequence, OneMoreTurn, ZeroedMemory
from tilewright.launch.launch import Launch, python_function
from tilewright.records import Edit, Finding

_FLOATS = {"0": "0.0", "1": "1.0", "-inf": 'float("-inf")', "inf": 'float("inf")'}
_WIDE = {"f32": "tl.float32", "f64": "tl.float64"}
_NARROW_NAMES = ("float16", "bfloat16", "float32")


class Wording:
    """Words for changes.

    Args:
        names: conditions that were collected while the changes ran.
        findings: what they mend, for lines that a change itself does not have.
        is_float: whether the values that an access or a reduction at a site deals with are floats.
        launches: of some cases.
        fresh: stacks on which the launcher got uninitialised memory.
    """

    def __init__(
        self,
        names: Names,
        findings: Sequence[Finding],
        is_float: Callable[[Site], bool],
        launches: Sequence[Launch],
        fresh: Sequence[StackSummary] = (),
    ) -> None:
        self._names, self._findings, self._is_float = names, findings, is_float
        self._launches, self._fresh = launches, fresh

    def edits(self, changes: Iterable[Change]) -> tuple[Edit, ...]:
        """One edit for each change, in the order of lines."""
        changes = list(changes)
        widened = [change for change in changes if isinstance(change, Widened)]
        found = [self._edit(change) for change in changes if not isinstance(change, Widened)]
        found += self._widened(widened)
        return tuple(sorted(found, key=lambda edit: (edit.file or "", edit.line or 0, edit.text)))

    def _edit(self, change: Change) -> Edit:
        match change:
            case Other():
                return _at(change.site, f"other={self._value(change.site, change.value)}")
            case WhereOther():
                return _at(change.site, self._where(change))
            case Bounded():
                return _at(change.site, self._bounded(change))
            case Excluded():
                return _at(change.site, self._excluded(change))
            case Filled():
                return self._filled(change)
            case PythonDivision():
                return _at(change.site, _division(change.site))
            case OneMoreTurn():
                return _turn(change.site)
            case Swapped():
                return self._swapped(change)
            case StrideOf():
                return self._on_finding(f"{change.argument}: pass the stride of {change.tensor}, .stride({change.dim})")
            case LargerGrid():
                return self._grid(change)
            case GuardedMaximum():
                return _guarded(change.site, '{0} = tl.where({0} == float("-inf"), 0.0, {0})')
            case GuardedDivisor():
                return _at(change.site, _divisor(change.site))
            case InSequence():
                return self._atomic()
            case ZeroedMemory():
                return self._zeroed()
            case WideOffsets():
                return self._on_finding(".to(tl.int64) before the product")
            case AllWidened():
                return self._on_finding(f"compute in {_WIDE[change.element]}")
        raise TypeError(f"no words for {type(change).__name__}")

    def _value(self, site: Site, word: str) -> str:
        return _FLOATS[word] if self._is_float(site) or word in ("-inf", "inf") else word

    # --------------------------------------------------------------------------------------------- masks

    def _bounded(self, change: Bounded) -> str:
        conditions = self._conditions(change, change.site)
        written = source.call(change.site)
        before = None if written is None else source.keyword(written, "mask")
        if before is not None and not change.exactly:
            kept = source.text(before)
            added = [f"({c})" for c in conditions if c not in kept]
            conditions = [kept if isinstance(before, ast.Name) else f"({kept})", *added]
        elif len(conditions) > 1:
            conditions = [f"({c})" for c in conditions]
        words = f"mask={' & '.join(conditions)}"
        if change.site.op == "tt.load" and (written is None or source.keyword(written, "other") is None):
            words += f", other={self._value(change.site, '0')}"
        return words

    def _conditions(self, change: Change, site: Site) -> list[str]:
        """Conditions on lanes, axis by axis, as far as lanes are left out along it."""
        found = []
        for (one, axis), lanes in self._names.lanes.items():
            if one == change and lanes.seen:
                best = _best(lanes.conditions or set(), site)
                index = (
                    ""
                    if lanes.rank == 1
                    else "[" + ", ".join(":" if i == axis else "None" for i in range(lanes.rank)) + "]"
                )
                found.append(best.text(index) if best else f"<lanes of axis {axis} inside the tensor>")
        return found or ["<lanes inside the tensor>"]

    def _joined(self, change: Change, site: Site) -> str:
        conditions = self._conditions(change, site)
        return conditions[0] if len(conditions) == 1 else " & ".join(f"({c})" for c in conditions)

    def _where(self, change: WhereOther) -> str:
        written, value = source.call(change.site), self._value(change.site, change.value)
        if written is None or len(written.args) != 3:
            return f"tl.where(…, …, {value})"
        return f"tl.where({source.text(written.args[0])}, {source.text(written.args[1])}, {value})"

    # -------------------------------------------------------------------------------------------- padding

    def _excluded(self, change: Excluded) -> str:
        written, value = source.call(change.site), self._value(change.site, change.value)
        condition = self._joined(change, change.site)
        if written is None or not written.args:
            return f"tl.where({condition}, …, {value}) before the reduction"
        inner = f"tl.where({condition}, {source.text(written.args[0])}, {value})"
        rest = [source.text(a) for a in written.args[1:]] + [
            f"{k.arg}={source.text(k.value)}" for k in written.keywords
        ]
        return f"{source.text(written.func)}({', '.join([inner, *rest])})"

    def _filled(self, change: Filled) -> Edit:
        name = _assigned(change.site) or "…"
        words = (
            f"{name} = tl.where({self._joined(change, change.site)}, {name}, {self._value(change.site, change.value)})"
        )
        return Edit(change.site.file, change.site.line, f"then {words}")

    # ---------------------------------------------------------------------------------------- whole lines

    def _widened(self, changes: Sequence[Widened]) -> list[Edit]:
        """Lines to be computed in a wider type: where they name a type, with another one there."""
        found, further = [], []
        for change in changes:
            wide = _WIDE[change.element]
            line = source.statement(change.site.file, change.site.line)
            rewritten = _with_type(line, wide)
            name = _assigned(change.site)
            declared = None if rewritten != line or name is None else _declaration(change.site, name, wide)
            if declared is not None:
                found.append(declared)
            elif rewritten != line:
                found.append(Edit(change.site.file, change.site.line, rewritten))
            else:
                further.append(Edit(change.site.file, change.site.line, f"compute in {wide}: {line}"))
        return list(dict.fromkeys(found or further))  # what is computed of a wider variable is wider by itself

    def _swapped(self, change: Swapped) -> Edit:
        words = f"{change.first} and {change.second} have changed places"
        for finding in self._findings:
            if finding.file is None or finding.line is None:
                continue
            around = source.function(finding.file, finding.line)
            both = [] if around is None else [n for n in ast.walk(around) if _names_both(n, change)]
            if both:
                at = min(both, key=lambda node: len(source.text(node)))
                return Edit(finding.file, at.lineno, f"{source.text(_exchanged(at, change))}: {words}")  # type: ignore[attr-defined]
        return self._on_finding(words)

    def _zeroed(self) -> Edit:
        """The line of the launcher that gets the memory; where several do, it is not said which."""
        files = {python_function(launch.kernel).__code__.co_filename for launch in self._launches}
        own = [frame for stack in self._fresh for frame in list(stack)[::-1] if frame.filename in files]
        lines = {(frame.filename, frame.lineno): source.statement(frame.filename, frame.lineno or 0) for frame in own}
        zeroed = {at: re.sub(r"\bempty(\b|_like\b|_strided\b)", r"zeros\1", line) for at, line in lines.items()}
        changed = [(at, line) for at, line in zeroed.items() if line != lines[at]]
        if len(changed) == 1 and "zeros_strided" not in changed[0][1]:
            (file, number), line = changed[0]
            return Edit(file, number, line.replace("new_empty", "new_zeros"))
        return Edit(None, None, "torch.zeros in the place of torch.empty")

    def _grid(self, change: LargerGrid) -> Edit:
        for launch in self._launches:
            if launch.name != change.kernel:
                continue
            file = python_function(launch.kernel).__code__.co_filename
            found = source.launching(file, change.kernel)
            axis = "xyz"[change.axis]
            words = f"the grid is too small along {axis}"
            if found is not None:
                rewritten = source.rounded_up(found.slice)
                words += f": {rewritten}" if rewritten else f": {source.text(found.slice)} leaves elements out"
                return Edit(file, found.lineno, words)
        return self._on_finding("the grid is too small")

    def _atomic(self) -> Edit:
        for finding in self._findings:
            if finding.kind.endswith("-race") and finding.file and finding.line:
                words = atomics.form(finding.file, finding.line)
                if words is not None:
                    return Edit(finding.file, words[0], words[1])
        return self._on_finding(
            "programs of a launch run in any order: let one program own each element, or add with tl.atomic_add",
            races=True,
        )

    def _on_finding(self, words: str, *, races: bool = False) -> Edit:
        found = [f for f in self._findings if f.line is not None and (not races or f.kind.endswith("-race"))]
        return Edit(found[0].file, found[0].line, words) if found else Edit(None, None, words)


# ----------------------------------------------------------------------------------------------- details


def _at(site: Site, words: str) -> Edit:
    return Edit(site.file, site.line, words)


def _best(conditions: set[Condition], site: Site) -> Condition | None:
    """The likeliest of conditions that all fit: one that the kernel itself writes, then what reads most alike."""
    around = source.function(site.file, site.line)
    compared, parameters = _comparisons(around), {a.arg for a in around.args.args} if around else set()

    def likelihood(condition: Condition) -> tuple[object, ...]:
        written = (condition.vector, condition.bound) in compared
        alike = condition.vector[-1:].lower() == condition.bound[-1:].lower()
        return (
            bool(condition.bound),
            not written,
            bool(condition.term),
            condition.bound not in parameters,
            not alike,
            len(condition.text("")),
            condition.text(""),
        )

    return min(conditions, key=likelihood, default=None)


def _comparisons(function: ast.FunctionDef | None) -> set[tuple[str, str]]:
    """Pairs of names that a kernel compares: ``offs_n[None, :] < N``, ``offs_k < K - k * BLOCK``."""
    found = set()
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt):
            left, right = node.left, node.comparators[0]
            vector = left.value if isinstance(left, ast.Subscript) else left
            bound = right.left if isinstance(right, ast.BinOp) and isinstance(right.op, ast.Sub) else right
            if isinstance(vector, ast.Name) and isinstance(bound, ast.Name):
                found.add((vector.id, bound.id))
    return found


def _division(site: Site) -> str:
    kind = ast.Mod if site.op == "arith.remsi" else ast.FloorDiv
    written = source.binary(site, (kind,))
    if written is None:
        return "(a % n + n) % n: of a negative number % is negative here"
    a, b = (_operand(side) for side in (written.left, written.right))
    rest = f"({a} % {b} + {b}) % {b}"
    return rest if kind is ast.Mod else f"({a} - {rest}) // {b}"


def _operand(node: ast.expr) -> str:
    simple = isinstance(node, (ast.Name, ast.Constant, ast.Call, ast.Subscript, ast.Attribute))
    return source.text(node) if simple else f"({source.text(node)})"


def in_64_bits(site: Site) -> Edit:
    """Where an offset first wraps, its left side in 64 bits."""
    written = source.binary(site, (ast.Mult, ast.Add, ast.Sub, ast.LShift))
    if written is None:
        return _at(site, "the offset in 64 bits: .to(tl.int64) before the product")
    left, right = written.left, written.right
    if isinstance(left, ast.Constant):
        left, right = right, left
    sign = {ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.LShift: "<<"}[type(written.op)]
    return _at(site, f"{_operand(left)}.to(tl.int64) {sign} {_operand(right)}")


def _guarded(site: Site, form: str) -> Edit:
    return Edit(site.file, site.line, "then " + form.format(_assigned(site) or "…"))


def _divisor(site: Site) -> str:
    written = source.binary(site, (ast.Div,))
    if written is None:
        return "a divisor of 0.0 to be 1.0"
    left, right = _operand(written.left), source.text(written.right)
    return f"{left} / tl.where({right} == 0.0, 1.0, {right})"


def _turn(site: Site) -> Edit:
    written = source.loop(site)
    if written is None or not isinstance(written.iter, ast.Call) or not written.iter.args:
        return _at(site, "one more turn of this loop")
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


def _assigned(site: Site) -> str | None:
    """The variable that a statement assigns to."""
    around = source.function(site.file, site.line)
    for node in ast.walk(around) if around is not None else ():
        if isinstance(node, (ast.Assign, ast.AugAssign)) and node.lineno <= site.line <= (node.end_lineno or 0):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            return target.id if isinstance(target, ast.Name) else None
    return None


def _with_type(line: str, wide: str) -> str:
    for narrow in _NARROW_NAMES:
        if f"tl.{narrow}" != wide:
            line = line.replace(f"tl.{narrow}", wide)
    return line


def _declaration(site: Site, name: str, wide: str) -> Edit | None:
    """The line that gives a variable its type, with another type there."""
    around = source.function(site.file, site.line)
    for node in ast.walk(around) if around is not None else ():
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            line = source.statement(site.file, node.lineno)
            if _with_type(line, wide) != line:
                return Edit(site.file, node.lineno, _with_type(line, wide))
    return None


def _names_both(node: ast.AST, change: Swapped) -> bool:
    if not isinstance(node, (ast.BinOp, ast.Call)):
        return False
    return {change.first, change.second} <= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


class _Exchange(ast.NodeTransformer):
    def __init__(self, change: Swapped) -> None:
        self._other = {change.first: change.second, change.second: change.first}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._other.get(node.id, node.id), node.ctx), node)


def _exchanged(node: ast.AST, change: Swapped) -> ast.AST:
    return _Exchange(change).visit(ast.parse(source.text(node), mode="eval").body)  # type: ignore[no-any-return]
