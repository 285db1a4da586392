"""The mutants of the study: a bounded number of each kind from each operator, spread over its text."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mutation.mutations import KINDS, Mutation, mutations
from mutation.source import Edit, Source, edited, head_lines, parsed
from mutation.subjects import Subject, subjects

MOST = {"mask": 2, "other": 1, "stride": 1, "atomic": 2, "accumulator": 1, "offset": 1, "bound": 1}
"""Of each kind, from one operator."""
MOST_OF_LIBRARY = {"mask": 3, "other": 2, "stride": 2, "atomic": 2, "accumulator": 2, "offset": 2, "bound": 3}
"""Of each kind, from an operator of the library."""


@dataclass(frozen=True)
class Mutant:
    """One mutation of one operator. ``text`` is the mutated line, ``original`` what stood there."""

    subject: Subject
    module: str
    function: str
    kind: str
    what: str
    line: int
    edits: tuple[Edit, ...]
    original: str
    text: str
    mutated: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it in the data files: as long as the line stands as it is, wherever that may be."""
        return (self.subject.name, f"{self.kind}: {self.what}", self.original)

    @property
    def id(self) -> str:
        return "m" + hashlib.sha256("\n".join(self.key).encode()).hexdigest()[:10]

    @property
    def files(self) -> dict[str, str]:
        return {**self.subject.files, self.module: self.mutated}


def every_mutant(subject: Subject) -> Iterator[Mutant]:
    """All that can be made of an operator, kind by kind."""
    sources = {module: parsed(text) for module, text in subject.files.items()}
    made: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    times: Counter[tuple[str, str, str]] = Counter()
    for module, function in subject.functions():
        source = sources[module]
        for mutation in mutations(source, source.functions[function]):
            mutant = _mutant(subject, module, function, source, mutation)
            times[mutant.key] += 1
            if times[mutant.key] > 1:  # on a line that is written twice
                mutant = replace(mutant, what=f"{mutant.what} ({times[mutant.key]}.)")
            made[mutation.kind].append(mutant)
    for group in made.values():
        yield from group


def _mutant(subject: Subject, module: str, function: str, source: Source, mutation: Mutation) -> Mutant:
    mutated = edited(source.text, mutation.edits)
    touched = [source.statement_on(edit.line) for edit in mutation.edits]
    line = source.statement(mutation.node).lineno
    lines = tuple(sorted({number for s in touched for number in head_lines(s)}))
    original, text = (_between(t, lines) for t in (source.text, mutated))
    return Mutant(
        subject, module, function, mutation.kind, mutation.what, line, mutation.edits, original, text, mutated
    )


def _between(text: str, lines: Sequence[int]) -> str:
    """The lines of a statement, or of several, on one."""
    every = text.splitlines()
    return " ".join(" ".join(every[number - 1].split()) for number in lines)


def chosen(subject: Subject) -> list[Mutant]:
    """The study's mutants of an operator: each kind's spread evenly over its text."""
    found: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    for mutant in every_mutant(subject):
        found[mutant.kind].append(mutant)
    picked = []
    for kind, group in found.items():
        count = min((MOST_OF_LIBRARY if subject.is_library else MOST)[kind], len(group))
        picked += [group[(2 * i + 1) * len(group) // (2 * count)] for i in range(count)]
    return picked


def all_chosen() -> list[Mutant]:
    return [mutant for subject in subjects() for mutant in chosen(subject)]


def write(files: Mapping[str, str], folder: Path) -> Path:
    """Writes a package; the file that holds its operator."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("")
    for module, text in files.items():
        (folder / f"{module}.py").write_text(text)
    return folder / "operator.py"
