"""What became of an operator since an earlier measurement.

Times of two days differ by what the machine was like. So each day's ratio to a baseline that ran in the same processes
is taken, and the two ratios are compared: what slows both sides cancels. The baseline must be the same then and now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.bench.stats import Estimate
from tilewright.bench.verdict import Subject, judge
from tilewright.records import Change, Comparison, Environment

COMPILED = "torch.compile"


@dataclass(frozen=True)
class Earlier:
    """A comparison of an earlier run, with what it was obtained on."""

    environment: Environment
    comparison: Comparison


@dataclass(frozen=True)
class _Pair:
    """The two measurements of one shape that are compared, and the difference of their log-ratios."""

    now: Comparison
    before: Comparison
    difference: Estimate


def since(
    current: Sequence[Comparison], environment: Environment, earlier: Sequence[Earlier], against: str
) -> list[Change]:
    """One change for each shape measured now, judged together; ``against`` says what it is compared with.

    Of several earlier measurements of a shape and baseline the last one counts.
    """
    last = {_key(e.comparison): e for e in earlier}
    shapes: dict[tuple[str, ...], list[Comparison]] = {}
    for comparison in current:
        shapes.setdefault(_key(comparison)[:-1], []).append(comparison)
    found = [_pair(group, environment, last) for group in shapes.values()]
    pairs = [pair for pair in found if isinstance(pair, _Pair)]
    margin = max((m for p in pairs for m in (p.now.margin, p.before.margin) if m is not None), default=0.0)
    subjects = [Subject(p.difference, max(p.now.noise_floor or 0.0, p.before.noise_floor or 0.0)) for p in pairs]
    judged = iter(judge(subjects, margin))
    changes = []
    for group, pair in zip(shapes.values(), found, strict=True):
        if isinstance(pair, _Pair):
            judgement = next(judged)
            changes.append(_change(pair, against, judgement.verdict, judgement.why, margin))
        else:
            one = group[0]
            changes.append(Change(one.operator, one.case, one.shape, against, "", "UNDECIDED", pair, config=one.config))
    return changes


def _change(pair: _Pair, against: str, verdict: str, why: str, margin: float) -> Change:
    low, high = pair.difference.interval()
    return Change(
        operator=pair.now.operator,
        case=pair.now.case,
        shape=pair.now.shape,
        against=against,
        yardstick=pair.now.baseline,
        verdict=verdict,  # type: ignore[arg-type]
        why=why,
        before=pair.before.ratio,
        now=pair.now.ratio,
        ratio=math.exp(pair.difference.centre),
        low=low,
        high=high,
        margin=margin,
        before_seconds=pair.before.ours.median,
        now_seconds=pair.now.ours.median,
        config=pair.now.config,
    )


def _pair(group: Sequence[Comparison], environment: Environment, last: dict[tuple[str, ...], Earlier]) -> _Pair | str:
    """The pair whose difference is known best, or why there is none."""
    reasons = []
    pairs = []
    for now in group:
        then = last.get(_key(now))
        if then is None:
            continue
        reason = _incomparable(now, environment, then)
        if reason is None:
            pairs.append(_Pair(now, then.comparison, _difference(now, then.comparison)))
        else:
            reasons.append(reason)
    if pairs:
        return min(pairs, key=lambda pair: pair.difference.half_width())
    return reasons[0] if reasons else "not measured then with a baseline of today"


def _difference(now: Comparison, before: Comparison) -> Estimate:
    """By Welch: the errors of two independent runs add up."""
    squares = [(c.error or 0.0) ** 2 for c in (now, before)]
    total = sum(squares)
    freedom = [c.freedom or 0.0 for c in (now, before)]
    parts = [s * s / f for s, f in zip(squares, freedom, strict=True) if f > 0]
    known = total * total / sum(parts) if all(f > 0 for f in freedom) and sum(parts) > 0 else min(freedom)
    return Estimate(math.log(now.ratio / before.ratio), math.sqrt(total), known)


def _incomparable(now: Comparison, here: Environment, then: Earlier) -> str | None:
    """Why two ratios to a baseline say nothing of each other, or None."""
    there = then.environment
    if then.comparison.error is None:
        return "measured by a version of tilewright that kept no error of its ratios"
    chips = (here.cpu, there.cpu) if here.chip == there.chip == "no GPU" else (here.chip, there.chip)
    if chips[0] != chips[1]:
        return f"measured on {chips[1]} then, on {chips[0]} now"
    if here.torch != there.torch:
        return f"the baseline is another one: torch {there.torch} then, {here.torch} now"
    if now.baseline == COMPILED and here.triton != there.triton:
        return f"the baseline is another one: Triton {there.triton} then, {here.triton} now"
    return None


def _key(comparison: Comparison) -> tuple[str, ...]:
    config = comparison.config.key if comparison.config else ""
    return comparison.operator, comparison.case.id, config, comparison.regime, comparison.baseline
