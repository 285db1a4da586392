"""What is to be run of an operator."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.records import Case


@dataclass(frozen=True)
class Plan:
    """Cases in the order they are run. ``configured`` of them name a configuration; ``default`` is 1 where the
    others run in one of the ``total`` distinct ones, and not in one chosen by the sizes."""

    cases: tuple[Case, ...]
    configured: tuple[Case, ...] = ()
    total: int = 0
    default: int = 0
