"""What the debug stage finds of faults made on purpose: hundreds of mutants of right kernels, in its default cases.

What was answered already is kept in ``.mutants.jsonl`` beside this file: an interrupted study goes on where it was.
"""

import os
from collections import Counter
from pathlib import Path

from mutation.choose import Mutant, chosen
from mutation.judge import ByHand, Verdict, judged, said
from mutation.mutations import KINDS
from mutation.remedies import is_undone, readings
from mutation.study import Job, run
from mutation.subjects import subjects
from results import keep

ANSWERS = Path(__file__).parent / ".mutants.jsonl"
FOUND, TOLD = 0.96, 0.98
"""Shares of the faults that were reached; the aim was 0.95 of them found."""
WORKERS = int(os.environ.get("TILEWRIGHT_WORKERS", str(os.cpu_count() or 1)))


def test_mutants():
    every = subjects()
    mutants = [mutant for subject in every for mutant in chosen(subject)]
    by_hand = ByHand.read()
    assert by_hand.stale(mutants) == []
    originals = _answers([Job(f"original_{s.name}", s.files, s.name, explain=False) for s in every])
    loud = {name: errors for name, answer in originals.items() if (errors := _errors(answer))}
    assert loud == {}
    answers = _answers([Job(m.id, m.files, m.subject.name) for m in mutants])
    verdicts = [judged(mutant, answers[mutant.id], by_hand) for mutant in mutants]
    told = [v.mutant.key for v in verdicts if v.outcome == "set aside" and any(map(_is_error, v.findings))]
    assert told == [], "set aside, but found"
    remedies = _judged_remedies(verdicts, by_hand)
    figures = _figures(len(every), verdicts, remedies)
    keep("mutants", figures)
    total = figures["total"]
    every_fault = total["found"] + total["missed"] + total["noted"]
    assert total["found"] >= FOUND * every_fault
    assert total["found"] + total["noted"] >= TOLD * every_fault
    assert total["at the line"] >= 0.8 * total["found"]
    assert total["remedy right"] >= 0.8 * total["remedy printed"]


def _answers(jobs: list[Job]) -> dict:
    return run(jobs, ANSWERS, WORKERS, lambda line: print(line, flush=True))


def _is_error(finding: dict) -> bool:
    return finding["severity"] == "error"


def _errors(answer: dict) -> list[str]:
    died = [answer["died"]] if "died" in answer else []
    return died + [f"{f['kind']}: {f['message']}" for f in answer["findings"] if _is_error(f)]


def _judged_remedies(verdicts: list[Verdict], by_hand: ByHand) -> dict[tuple[str, str], str]:
    """How each printed remedy was judged, by mutant and text: ``undone``, ``passes``, ``by hand: …`` or what is wrong."""
    found: dict[tuple[str, str], str] = {}
    jobs: dict[tuple[str, str], list[Job]] = {}
    for verdict in verdicts:
        mutant = verdict.mutant
        for number, remedy in enumerate(verdict.remedies):
            at = (mutant.id, said(remedy))
            if (mutant.key, at[1]) in by_hand.remedies:
                right, reason = by_hand.remedies[mutant.key, at[1]]
                found[at] = f"by hand, {'right' if right else 'wrong'}: {reason}"
                continue
            read = readings(mutant, list(remedy))
            if any(is_undone(mutant, files) for files in read):
                found[at] = "undone"
            elif not read:
                found[at] = "words only"
            else:
                jobs[at] = [
                    Job(f"{mutant.id}_{number}_{i}", files, mutant.subject.name, explain=False)
                    for i, files in enumerate(read)
                ]
    answers = _answers([job for group in jobs.values() for job in group])
    for at, group in jobs.items():
        passes = any(not _errors(answers[job.name]) for job in group)
        found[at] = "passes" if passes else "does not pass"
    return found


def _is_right(judgement: str) -> bool:
    return judgement in ("undone", "passes") or judgement.startswith("by hand, right")


def _figures(operators: int, verdicts: list[Verdict], remedies: dict[tuple[str, str], str]) -> dict:
    rows = {kind: Counter() for kind in KINDS}
    records = []
    for verdict in verdicts:
        mutant, row = verdict.mutant, rows[verdict.mutant.kind]
        judgements = {said(r): remedies[mutant.id, said(r)] for r in verdict.remedies}
        row["made"] += 1
        row[verdict.outcome] += 1
        if verdict.outcome == "found":
            row["at the line"] += verdict.nearest != "elsewhere"
            row[f"nearest: {verdict.nearest}"] += 1
            row["remedy printed"] += bool(judgements)
            row["remedy right"] += bool(judgements) and all(map(_is_right, judgements.values()))
        records.append(_record(mutant, verdict, judgements))
    total = sum(rows.values(), Counter())
    kinds = {kind: dict(row) for kind, row in rows.items()}
    return {"operators": operators, "total": total, "kinds": kinds, "mutants": records}


def _record(mutant: Mutant, verdict: Verdict, judgements: dict[str, str]) -> dict:
    operator, mutation, line = mutant.key
    found = sorted({f"{f['kind']} line {f['line']}" for f in verdict.findings if _is_error(f)})
    record = {"operator": operator, "mutation": mutation, "line": line, "outcome": verdict.outcome}
    extra = {"reason": verdict.reason, "nearest": verdict.nearest, "findings": found, "remedies": judgements}
    return {**record, **{name: value for name, value in extra.items() if value}}
