"""What became of writing a finding as a script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.records import Case, DebugReport, Finding, finding_name

SCRIPT_SECONDS = 120.0
"""What a script may take when it is run the first time."""


@dataclass(frozen=True)
class Reproduction:
    """A script that was written, and what it ended with here: 1 where the fault shows, 0 where it does not,
    2 where it cannot run, None where it did not end."""

    path: Path
    finding: Finding
    case: Case
    status: int | None

    @property
    def outcome(self) -> str:
        """What running it showed, in words."""
        if self.status is None:
            return "run here it did not end"
        words = {0: "does not show in values", 1: "shows"}.get(self.status)
        return f"run here the fault {words} (exit status {self.status})" if words else "it cannot run here"


def smallest_case(report: DebugReport, finding: Finding) -> Case:
    """The smallest case of a report that shows a finding of it."""
    assert finding.case is not None
    return report.smallest.get(finding_name(finding), finding.case)
