"""What may be claimed of ratios, all shapes of one run together.

A claim is a test: FASTER that the ratio is beyond the bar (the margin, or the noise floor where that is higher), SLOWER
that it is below its inverse, SAME that it is within the margin. The most certain claim of each comparison enters Holm's
procedure (S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6, 1979):
the chance of any wrong claim in the run stays below ``tail``, however many shapes there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.bench.stats import TAIL, Estimate
from tilewright.records import Verdict
from tilewright.wording import count, percent


@dataclass(frozen=True)
class Subject:
    """A ratio to judge, and how far (as a share) the same plan's A/A arm strayed.

    ``saw_control`` is whether the plan told the known slowdown from none; None where it had no such side. ``share`` is
    the part of the allowed error that may be spent on it, where its plan looked several times.
    """

    ratio: Estimate
    noise_floor: float
    saw_control: bool | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Judgement:
    """A verdict, and in words why it is no better."""

    verdict: Verdict
    why: str = ""


def noise_floor(self_ratio: Estimate) -> float:
    """How far from 1 a ratio can stray when both sides are the same call: the far end of the A/A arm's interval."""
    return math.expm1(min(abs(self_ratio.centre) + self_ratio.half_width(), 700.0))


def judge(subjects: Sequence[Subject], margin: float, tail: float = TAIL) -> list[Judgement]:
    """A verdict for each, corrected for there being several.

    Args:
        margin: as a share; less than this is the same.
        tail: the chance of a wrong claim that the run allows itself.
    """
    claims = [_claim(subject, margin) for subject in subjects]
    granted = _holm([chance for _, chance in claims], tail)
    judged = []
    for subject, (verdict, chance), holds in zip(subjects, claims, granted, strict=True):
        if holds:
            judged.append(Judgement(verdict))
        else:
            alone = verdict if chance <= tail else None
            judged.append(Judgement("UNDECIDED", _why(subject, alone, margin, len(subjects))))
    return judged


def _claim(subject: Subject, margin: float) -> tuple[Verdict, float]:
    """The most certain claim, and how likely it would be by chance at any of the plan's looks."""
    inside = math.log1p(margin)
    floor = math.log1p(subject.noise_floor)
    bar = max(inside, floor)
    ratio = subject.ratio
    chances: dict[Verdict, float] = {"FASTER": ratio.beyond(bar), "SLOWER": ratio.below(-bar)}
    if floor <= inside and subject.saw_control is not False:
        chances["SAME"] = max(ratio.below(inside), ratio.beyond(-inside))
    verdict = min(chances, key=lambda claim: chances[claim])
    return verdict, chances[verdict] / subject.share


def _holm(chances: Sequence[float], tail: float) -> list[bool]:
    granted = [False] * len(chances)
    for done, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        if chances[index] > tail / (len(chances) - done):
            break
        granted[index] = True
    return granted


def _why(subject: Subject, alone: Verdict | None, margin: float, comparisons: int) -> str:
    """Why a ratio is undecided."""
    if alone is not None and comparisons > 1:
        return f"{alone} if it were the only one, not sure enough among {count(comparisons, 'comparison')}"
    if math.isinf(subject.ratio.half_width()):
        return "too few samples"
    if subject.saw_control is False:
        return "this plan did not see the known slowdown of its control"
    if subject.noise_floor > margin:
        return f"ours against itself strays up to {percent(subject.noise_floor)}, more than the margin of {percent(margin)}"
    low, high = subject.ratio.interval()
    if max(high / low - 1, 0) > 2 * margin:
        return f"the interval is wider than the margins of {percent(margin)} on both sides"
    return f"the interval reaches over the margin of {percent(margin)}"
