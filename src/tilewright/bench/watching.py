"""What rounds tell of each call to whoever watches that it computes what it is timed for; ``watch.py`` does."""

from __future__ import annotations

from typing import Protocol


class Watching(Protocol):
    def begin(self, *, last: bool) -> None:
        """A round begins."""

    def ready(self, side: str) -> None:
        """A call is about to be timed; there is time to wait."""

    def before(self, side: str) -> None:
        """Just before the timed call."""

    def after(self, side: str) -> None:
        """Just behind the timed call."""

    def done(self, side: str, seconds: float) -> None:
        """A call was timed; there is time to look."""


class Unwatched:
    """Looks at nothing."""

    def begin(self, *, last: bool) -> None:
        return None

    def ready(self, side: str) -> None:
        return None

    def before(self, side: str) -> None:
        return None

    def after(self, side: str) -> None:
        return None

    def done(self, side: str, seconds: float) -> None:
        return None


UNWATCHED = Unwatched()
