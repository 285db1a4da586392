"""Edits in words: what to write, on which line, in the kernel's own variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from traceback import StackSummary

from tilewright.debug.causes import atomics, rewriting, source
from tilewright.debug.causes.arithmetic import PythonDivision, WideOffsets
from tilewright.debug.causes.change import Change
from tilewright.debug.causes.guards import GuardedDivisor, GuardedMaximum
from tilewright.debug.causes.launches import Contiguous, LargerGrid, StrideOf, Swapped
from tilewright.debug.causes.masks import Bounded, Masked, NotBelow, Other, Shifted, WhereOther, filler
from tilewright.debug.causes.naming import Condition, Names
from tilewright.debug.causes.padding import Excluded, Filled
from tilewright.debug.causes.precision import AllWidened, Widened
from tilewright.debug.causes.site import Site
from tilewright.debug.causes.whole import InSequence, OneMoreTurn, ZeroedMemory
from tilewright.debug.executor import elements
from tilewright.records import Edit, Finding

_FLOATS = {"0": "0.0", "1": "1.0", "-inf": 'float("-inf")', "inf": 'float("inf")'}
_WIDE = {"f32": "tl.float32", "f64": "tl.float64"}


class Unsaid(Exception):
    """An edit that no line can be written for; the words say in general what to do."""


class Wording:
    """Words for changes.

    Args:
        names: conditions that were collected while the changes ran.
        findings: what they mend, for lines that a change itself does not have.
        types: element types that sites deal with.
        ranks: of the tiles at sites.
        files: of the kernels.
        launched_at: file and line of the launch of each kernel.
        fresh: stacks on which the launcher got uninitialised memory.
    """

    def __init__(
        self,
        names: Names,
        findings: Sequence[Finding],
        types: Mapping[Site, str],
        ranks: Mapping[Site, int],
        files: set[str],
        launched_at: Mapping[str, tuple[str, int]],
        fresh: Sequence[StackSummary] = (),
    ) -> None:
        self._names, self._findings, self._types, self._ranks = names, findings, types, ranks
        self._files, self._launched_at, self._fresh = files, launched_at, fresh

    def edits(self, changes: Iterable[Change]) -> tuple[Edit, ...]:
        """One edit for each change, in the order of lines.

        Raises:
            Unsaid: one of them cannot be written as a line.
        """
        changes = list(changes)
        widened = [change for change in changes if isinstance(change, Widened)]
        below = [change for change in changes if isinstance(change, NotBelow)]
        found = [self._edit(change) for change in changes if not isinstance(change, (Widened, NotBelow, InSequence))]
        found += self._atomic() if InSequence() in changes else []
        found += [_at(site, self._masked(*own)) for site, own in _by_site(below).items()]
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
            case Masked():
                return _at(change.site, self._masked(change))
            case Shifted():
                return _at(change.site, rewriting.shifted(change))
            case Excluded():
                return _at(change.site, self._excluded(change))
            case Filled():
                return self._filled(change)
            case PythonDivision():
                return _at(change.site, rewriting.division(change.site))
            case OneMoreTurn():
                return rewriting.one_more_turn(change.site)
            case Swapped():
                return self._swapped(change)
            case StrideOf():
                return self._on_finding(f"{change.argument}: pass the stride of {change.tensor}, .stride({change.dim})")
            case Contiguous():
                return self._contiguous(change)
            case LargerGrid():
                return self._grid(change)
            case GuardedMaximum():
                return rewriting.guarded(change.site, '{0} = tl.where({0} == float("-inf"), 0.0, {0})')
            case GuardedDivisor():
                return _at(change.site, rewriting.divisor(change.site))
            case ZeroedMemory():
                return self._zeroed()
            case WideOffsets():
                return self._on_finding(".to(tl.int64) before the product")
            case AllWidened():
                return self._on_finding(f"compute in {_WIDE[change.element]}")
        raise TypeError(f"no words for {type(change).__name__}")

    def _value(self, site: Site, word: str) -> str:
        element = self._types.get(site, "f32")
        return _FLOATS[word] if elements.is_float(element) else str(filler(word, element))

    # --------------------------------------------------------------------------------------------- masks

    def _bounded(self, change: Bounded) -> str:
        conditions = self._conditions(change, change.site)
        written = source.call(change.site)
        before = None if written is None else source.keyword(written, "mask")
        if before is not None and not change.exactly:
            texts = [condition.text(index) for condition, index in conditions]
            kept = [c for c in rewriting.conjuncts(before) if not rewriting.compares_what(c, texts)]
            parts = [*(source.text(c) for c in kept), *texts]
        else:
            parts = [condition.text(index) for condition, index in conditions]
        return self._with_mask(change.site, parts)

    def _with_mask(self, site: Site, parts: Sequence[str]) -> str:
        written = source.call(site)
        words = f"mask={rewriting.all_of(parts)}"
        if site.op == "tt.load" and (written is None or source.keyword(written, "other") is None):
            words += f", other={self._value(site, '0')}"
        return words

    def _conditions(self, change: Change, site: Site) -> list[tuple[Condition, str]]:
        """Conditions on lanes with the vector's index, axis by axis, as far as lanes are left out along it."""
        found = []
        for (one, axis), lanes in self._names.lanes.items():
            if one == change and lanes.seen:
                best = _best(lanes.conditions or set(), site)
                if best is None:
                    break
                found.append((best, _index(axis, lanes.rank)))
        else:
            if found:
                return found
        raise Unsaid(f"line {site.line}: leave out the lanes that lie beyond the tensor")

    def _joined(self, change: Change, site: Site) -> str:
        return rewriting.all_of([condition.text(index) for condition, index in self._conditions(change, site)])

    def _masked(self, *changes: Masked | NotBelow) -> str:
        """The mask of one access with what the changes add to it."""
        site = changes[0].site
        written = source.call(site)
        before = None if written is None else source.keyword(written, "mask")
        parts = [] if before is None else [source.text(c) for c in rewriting.conjuncts(before)]
        for change in sorted(changes, key=lambda one: one.axis or 0):
            added = change.variable + ("" if change.axis is None else _index(change.axis, self._ranks.get(site, 1)))
            parts.append(added + (" >= 0" if isinstance(change, NotBelow) else ""))
        return self._with_mask(site, parts)

    def _where(self, change: WhereOther) -> str:
        written, value = source.call(change.site), self._value(change.site, change.value)
        if written is None or len(written.args) != 3:
            raise Unsaid(f"line {change.site.line}: {value} where the condition does not hold")
        instead = f"tl.where({source.text(written.args[0])}, {source.text(written.args[1])}, {value})"
        return source.line_with(change.site.file, written, instead)

    # -------------------------------------------------------------------------------------------- padding

    def _excluded(self, change: Excluded) -> str:
        written, value = source.call(change.site), self._value(change.site, change.value)
        condition = self._joined(change, change.site)
        if written is None or not written.args:
            raise Unsaid(f"line {change.site.line}: tl.where({condition}, …, {value}) before the reduction")
        inner = f"tl.where({condition}, {source.text(written.args[0])}, {value})"
        rest = [source.text(a) for a in written.args[1:]] + [
            f"{k.arg}={source.text(k.value)}" for k in written.keywords
        ]
        return source.line_with(change.site.file, written, f"{source.text(written.func)}({', '.join([inner, *rest])})")

    def _filled(self, change: Filled) -> Edit:
        name = rewriting.assigned(change.site)
        if name is None:
            raise Unsaid(f"line {change.site.line}: leave out the lanes that lie beyond the tensor")
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
            rewritten = rewriting.with_type(line, wide)
            name = rewriting.assigned(change.site)
            declared = None if name is None else rewriting.declaration(change.site, name, wide)
            found += [] if declared is None else [declared]
            if rewritten != line:
                found.append(Edit(change.site.file, change.site.line, rewritten))
            elif declared is None:
                further.append(Edit(change.site.file, change.site.line, f"compute in {wide}: {line}"))
        return list(dict.fromkeys(found or further))  # what is computed of a wider variable is wider by itself

    def _swapped(self, change: Swapped) -> Edit:
        words = f"{change.first} and {change.second} have changed places"
        for finding in self._findings:
            if finding.file is None or finding.line is None:
                continue
            around = source.function(finding.file, finding.line)
            both = [] if around is None else [n for n in ast.walk(around) if rewriting.names_both(n, change)]
            if both:
                at = min(both, key=lambda node: len(source.text(node)))
                return Edit(finding.file, at.lineno, f"{source.text(rewriting.exchanged(at, change))}: {words}")  # type: ignore[attr-defined]
        return self._on_finding(words)

    def _zeroed(self) -> Edit:
        """The line of the launcher that gets the memory; where several do, it is not said which."""
        own = [frame for stack in self._fresh for frame in list(stack)[::-1] if frame.filename in self._files]
        lines = {(frame.filename, frame.lineno): source.statement(frame.filename, frame.lineno or 0) for frame in own}
        zeroed = {at: re.sub(r"\bempty(\b|_like\b|_strided\b)", r"zeros\1", line) for at, line in lines.items()}
        changed = [(at, line) for at, line in zeroed.items() if line != lines[at]]
        if len(changed) == 1 and "zeros_strided" not in changed[0][1]:
            (file, number), line = changed[0]
            return Edit(file, number, line.replace("new_empty", "new_zeros"))
        raise Unsaid("torch.zeros in the place of torch.empty")

    def _contiguous(self, change: Contiguous) -> Edit:
        file, line = self._launched_at.get(change.kernel, ("", 0))
        given = source.argument(file, line, change.tensor, change.position)
        if given is None:
            raise Unsaid(f"{change.tensor} is not contiguous: hand over a copy, .contiguous(), or its strides")
        return Edit(file, given.lineno, f"{source.text(given)}.contiguous() in the place of {source.text(given)}")

    def _grid(self, change: LargerGrid) -> Edit:
        file, line = self._launched_at.get(change.kernel, ("", 0))
        found = source.launching(file, line)
        rewritten = None if found is None else source.rounded_up(found.slice)
        if found is None or rewritten is None:
            raise Unsaid(f"launch more programs along {'xyz'[change.axis]} ({file}:{line}): some elements have none")
        return Edit(file, found.lineno, source.line_with(file, found.slice, rewritten))

    def _atomic(self) -> list[Edit]:
        for finding in self._findings:
            if finding.kind.endswith("-race") and finding.file and finding.line:
                words = atomics.form(finding.file, finding.line)
                if words:
                    return [Edit(finding.file, line, text) for line, text in words]
        raise Unsaid("let one program own each element, or add with tl.atomic_add")

    def _on_finding(self, words: str) -> Edit:
        found = [f for f in self._findings if f.line is not None]
        return Edit(found[0].file, found[0].line, words) if found else Edit(None, None, words)


# ----------------------------------------------------------------------------------------------- details


def _by_site(changes: Iterable[NotBelow]) -> dict[Site, list[NotBelow]]:
    found: dict[Site, list[NotBelow]] = {}
    for change in changes:
        found.setdefault(change.site, []).append(change)
    return found


def _at(site: Site, words: str) -> Edit:
    return Edit(site.file, site.line, words)


def _index(axis: int, rank: int) -> str:
    """How a vector along an axis is written in an expression of a tile: ``[:, None]``."""
    return "" if rank == 1 else "[" + ", ".join(":" if i == axis else "None" for i in range(rank)) + "]"


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
