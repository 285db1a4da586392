"""From samples to medians, ratios and intervals. Knows nothing of GPUs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tilewright.records import Sample, Timing

BLOCKS = 10
# Two-sided 95 % quantile of Student's t for BLOCKS - 1 = 9 degrees of freedom.
_T_95 = {4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def timing(side: str, samples: Sequence[Sample], flops: float | None, moved: float | None) -> Timing:
    """Median and quartiles of one side's samples; rates at the median."""
    seconds = [sample.seconds for sample in samples]
    first, median, third = statistics.quantiles(seconds, n=4, method="inclusive")
    readings = [sample.clock_mhz for sample in samples if sample.clock_mhz is not None]
    return Timing(
        side=side,
        count=len(seconds),
        median=median,
        first_quartile=first,
        third_quartile=third,
        clock_mhz=round(statistics.median(readings)) if readings else None,
        flops_per_second=flops / median if flops else None,
        bytes_per_second=moved / median if moved else None,
        samples=tuple(seconds),
    )


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float, float]:
    """Median of the paired ratio theirs / ours, with a 95 % interval (Student's t over block medians).

    Blocks of consecutive rounds are the unit: neighbouring samples are not independent. Says nothing of
    what another process would measure.
    """
    logs = [math.log(t / o) for t, o in zip(theirs, ours, strict=True)]
    count = min(BLOCKS, max(len(logs) // 2, 1))
    size = len(logs) / count
    blocks = [statistics.median(logs[round(i * size) : round((i + 1) * size)]) for i in range(count)]
    centre = statistics.median(logs)
    if count < 5:
        return math.exp(centre), 0.0, math.inf
    half = _T_95[count - 1] * statistics.stdev(blocks) / math.sqrt(count)
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)
