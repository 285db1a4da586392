"""What became of a mutant: refused, set aside, missed or found; how near its line; whether its remedies are right."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.choose import Mutant
from mutation.source import parsed
from mutation.uses import lines_of

BY_HAND = Path(__file__).parent / "by_hand.toml"
Key = tuple[str, str, str]
Remedy = tuple[Mapping[str, Any], ...]
"""The edits of one printed set."""


@dataclass(frozen=True)
class Verdict:
    """``outcome`` is ``refused`` (Triton does not compile it), ``set aside``, ``missed``, ``noted`` or ``found``.

    ``noted`` is a fault that is said, and not held against the kernel: that its offsets end at 32 bits, where no
    offset of it goes further.

    ``nearest`` says how near to the mutation a finding of severity error stands: ``mutated``, ``use``, ``access`` or
    ``elsewhere`` (``uses.Lines``). ``remedies`` are the sets of edits that its findings print, each once.
    """

    mutant: Mutant
    outcome: str
    reason: str = ""
    nearest: str = ""
    findings: tuple[Mapping[str, Any], ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class ByHand:
    """What a person judged: mutants that nothing tells from the original, and remedies that are words only."""

    equivalent: Mapping[Key, str]
    remedies: Mapping[tuple[Key, str], tuple[bool, str]]

    @classmethod
    def read(cls) -> ByHand:
        data = tomllib.loads(BY_HAND.read_text())
        equivalent = {_key(e): e["reason"] for e in data.get("equivalent", [])}
        remedies = {(_key(e), e["remedy"]): (e["right"], e["reason"]) for e in data.get("remedy", [])}
        return cls(equivalent, remedies)

    def stale(self, mutants: Sequence[Mutant]) -> list[Key]:
        """Entries whose mutant is no longer made."""
        made = {mutant.key for mutant in mutants}
        return [key for key in (*self.equivalent, *(key for key, _ in self.remedies)) if key not in made]


def _key(entry: Mapping[str, str]) -> Key:
    return (entry["operator"], entry["mutation"], entry["line"])


def judged(mutant: Mutant, answer: Mapping[str, Any], by_hand: ByHand) -> Verdict:
    findings = tuple(answer["findings"])
    errors = [f for f in findings if f["severity"] == "error"]
    if errors and all(_is_refusal(f) for f in errors):
        return Verdict(mutant, "refused", errors[0]["message"].rpartition(" does not compile: ")[2])
    if mutant.key in by_hand.equivalent:
        return Verdict(mutant, "set aside", by_hand.equivalent[mutant.key], findings=findings)
    if answer.get("died"):
        # In the command line's own child that is a launch-error, without a line.
        return Verdict(mutant, "found", f"its process died: {answer['died']}", "elsewhere")
    if not errors:
        noted = any(f["kind"] == "offset-overflow" for f in findings)
        return Verdict(mutant, "noted" if noted else "missed", findings=findings)
    return Verdict(mutant, "found", "", _nearest(mutant, errors), findings, _remedies(errors))


def _is_refusal(finding: Mapping[str, Any]) -> bool:
    return finding["kind"] == "launch-error" and " does not compile: " in finding["message"]


def _nearest(mutant: Mutant, errors: Sequence[Mapping[str, Any]]) -> str:
    sources = {module: parsed(text) for module, text in mutant.subject.files.items()}
    lines = lines_of(sources, mutant.module, mutant.function, mutant.edits)
    named = [(Path(f["file"]).stem, n) for f in errors if f["file"] for n in (f["line"], f["origin_line"])]
    named += [(Path(e["file"]).stem, e["line"]) for r in _remedies(errors) for e in r if e["file"]]
    return lines.nearness(named)


def _remedies(errors: Sequence[Mapping[str, Any]]) -> tuple[Remedy, ...]:
    found = {said(r["edits"]): tuple(r["edits"]) for f in errors for r in f["remedies"]}
    return tuple(found.values())


def said(edits: Sequence[Mapping[str, Any]]) -> str:
    """A remedy as one line of text."""
    return "; ".join(f"line {e['line']}: {e['text']}" if e["line"] else e["text"] for e in edits)
