"""What a worker of the study does: the debug stage on an operator in a folder."""

from __future__ import annotations

import time
from typing import Any

from tilewright import debug
from tilewright.records import to_dict
from tilewright.spec.load import load

EXPLAINED: dict[str, Any] = {"shrink_seconds": 1.0, "cause_seconds": 10.0}
"""Less time than a person gives it: there are hundreds of mutants."""
FOUND_ONLY: dict[str, Any] = {"shrink_seconds": 0.0, "cause_seconds": 0.0}


def check(emit: Any, *, file: str, name: str, explain: bool) -> dict[str, Any]:
    """The findings of an operator's default cases, as plain records, with their causes if asked for."""
    started = time.perf_counter()
    (operator,) = load(f"{file}:{name}")
    report = debug(operator, **(EXPLAINED if explain else FOUND_ONLY))
    return {
        "findings": [to_dict(finding) for finding in report.findings if finding.kind != "nondeterministic"],
        "cases": len(report.results),
        "launches": sum(result.launches for result in report.results),
        "complete": report.complete,
        "notes": list(report.notes),
        "seconds": round(time.perf_counter() - started, 2),
    }
