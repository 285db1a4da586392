"""Words that all layers say alike."""

from __future__ import annotations


def count(number: int | None, one: str, many: str = "") -> str:
    """``1 case``, ``2 cases``; None is none."""
    return f"{number or 0} {one if number == 1 else many or one + 's'}"


def part(number: int, total: int, one: str, verb: tuple[str, str] = ("", "")) -> str:
    """``1 of 1 case``, ``3 of 8 cases``; with a verb in singular and plural, ``1 of 8 cases fits``."""
    said = verb[0] if 1 in (number, total) else verb[1]
    return f"{number} of {count(total, one)}" + (f" {said}" if said else "")


def percent(share: float) -> str:
    """``1 %``, ``0.35 %``, ``180 %``: two digits, and no exponent however large."""
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 99.5 else f"{value:.2g} %"
