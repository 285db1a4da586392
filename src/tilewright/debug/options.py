"""How much the debug stage looks at, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tilewright.errors import UsageError
from tilewright.records import Case

_EXECUTORS = ("checked", "interpreter", "both", "device")


@dataclass(frozen=True)
class DebugOptions:
    """How much to look at, and how.

    ``cases`` are arguments of wanted cases (None: planned from the kernel); ``budget_seconds`` ends the
    planned ones early, which the report says; ``case_seconds`` and ``memory_bytes`` bound one case,
    ``shrink_seconds`` what making each finding small takes, ``cause_seconds`` the search for causes.
    ``effort`` is how many cases are planned: ``quick`` ones take seconds, ``thorough`` ones minutes.
    ``executor`` is ``checked`` (all programs at once, every check), ``interpreter`` (Triton's own, which
    ``pdb`` needs), ``both`` (each case in both, which must agree) or ``device`` (this machine's GPU).
    ``on_terminal`` is called when a debugger takes the terminal: what else draws on it must stop.
    """

    target: str = "h100"
    cases: Sequence[Mapping[str, Any]] | None = None
    exact: Sequence[Case] | None = None
    seed: int = 0
    pdb: bool = False
    budget_seconds: float | None = 60.0
    case_seconds: float = 120.0
    shrink_seconds: float = 4.0
    cause_seconds: float = 20.0
    memory_bytes: int = 8 * 2**30
    stdout_to_stderr: bool = False
    executor: Literal["checked", "interpreter", "both", "device"] = "checked"
    effort: Literal["quick", "thorough"] = "quick"
    on_terminal: Callable[[], None] = field(default=lambda: None)

    def __post_init__(self) -> None:
        if self.executor not in _EXECUTORS:
            raise UsageError(f"no executor {self.executor!r}", f"one of {', '.join(_EXECUTORS)}")
        if self.effort not in ("quick", "thorough"):
            raise UsageError(f"no effort {self.effort!r}", "quick or thorough")

    @property
    def device(self) -> bool:
        return self.executor == "device"

    @property
    def first_executor(self) -> str:
        """The one that plans and runs cases; with ``both`` the other one repeats them."""
        if self.pdb:
            return "interpreter" if self.executor == "interpreter" else "checked"
        return "checked" if self.executor == "both" else self.executor
