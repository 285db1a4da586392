"""What is to be run of an operator."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.records import Case


@dataclass(frozen=True)
class Plan:
    """Cases in the order they are run. ``configured`` of them name a configuration; ``default`` is 1 where the
    others run in one of the ``total`` distinct ones, and not in one chosen by the sizes.

    With ``is_narrow`` all offsets of an annotated operator's kernels are of 32 bits, as most are: that they end where
    32 bits do is worth knowing, and no error. Of ``grids`` only the launches are looked at. ``notes`` say what was left out. With ``made_up`` the cases but ``first`` were
    planned, and those that the operator refuses are none of it; ``dims`` are the sizes among their arguments, and
    with ``guessed`` all arguments are guesses at what the author's ``inputs`` takes.
    """

    cases: tuple[Case, ...]
    configured: tuple[Case, ...] = ()
    total: int = 0
    default: int = 0
    grids: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()
    made_up: bool = False
    first: Case | None = None
    dims: tuple[str, ...] = ()
    guessed: bool = False
    is_narrow: bool = False
