"""Findings that an author knows of and accepts."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import UsageError
from tilewright.records import FINDING_KINDS, Finding


@dataclass(frozen=True)
class Suppression:
    """A finding the author knows of and accepts, with the reason; ``tensor`` None means on any.

    Raises:
        UsageError: no finding has such a kind.
    """

    kind: str
    reason: str
    tensor: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in FINDING_KINDS:
            raise UsageError(
                f"Suppression({self.kind!r}): no finding has that kind", f"kinds: {', '.join(FINDING_KINDS)}"
            )

    def covers(self, finding: Finding) -> bool:
        return finding.kind == self.kind and self.tensor in (None, finding.tensor, finding.argument)
