"""A ratio's interval against a margin and the noise floor: what may be claimed."""

from __future__ import annotations

from tilewright.records import Verdict

MARGIN = 0.02
"""Differences below this are called the same, where the noise allows to tell."""


def noise_floor(low: float, high: float) -> float:
    """How far from 1 a ratio can stray when both sides are the same kernel, from the A/A arm's interval."""
    return max(high - 1, 1 - low, 0.0)


def verdict(low: float, high: float, noise: float, margin: float = MARGIN) -> Verdict:
    """FASTER or SLOWER only where the whole interval lies beyond the margin and the noise floor."""
    bar = max(margin, noise)
    if low > 1 + bar:
        return "FASTER"
    if high < 1 / (1 + bar):
        return "SLOWER"
    if noise <= margin and low > 1 / (1 + margin) and high < 1 + margin:
        return "SAME"
    return "UNDECIDED"
