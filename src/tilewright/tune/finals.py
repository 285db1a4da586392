"""The fastest meet once more, timed in turns; who cannot be told from the winner by that ties with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.bench import stats
from tilewright.records import Trial

FINALISTS = 6
NEAR = 1.05
"""Times the best median at which a configuration is a finalist still."""
LEAST_FLOOR = 0.002
"""By less than this no two configurations are told apart, however still a machine is."""
MOST_FLOOR = 0.02
"""Nor are they taken for equal beyond this, however restless it is."""


@dataclass(frozen=True)
class Decision:
    """The winner and who ties with it, as places in the list of finalists; seconds of each.

    ``noise`` is by how much the fastest may have strayed from itself, as a share.
    """

    winner: int
    ties: tuple[int, ...]
    seconds: tuple[float | None, ...]
    noise: float


def finalists(trials: Sequence[Trial], most: int = FINALISTS) -> list[int]:
    """The indices of the fastest, best first: as many as may be it still."""
    timed = [i for i, trial in enumerate(trials) if trial.status == "timed" and not trial.abandoned]
    timed.sort(key=lambda i: (_seconds(trials[i]), trials[i].config.key))
    distinct = list({trials[i].binary or trials[i].config.key: i for i in reversed(timed)}.values())[::-1]
    return [i for i in distinct if _seconds(trials[i]) <= NEAR * _seconds(trials[distinct[0]])][:most]


def decide(columns: Sequence[Sequence[float] | None], again: Sequence[float] | None, keys: Sequence[str]) -> Decision:
    """Picks the winner from seconds in rounds; of those that tie the one whose key comes first.

    Args:
        columns: of each finalist; None where it failed in the duel.
        again: of the first finalist once more.

    Raises:
        ValueError: all have failed.
    """
    medians = [None if column is None else float(np.median(column)) for column in columns]
    sound = [place for place, median in enumerate(medians) if median is not None]
    if not sound:
        raise ValueError("no finalist ran to the end of the duel")
    best = min(sound, key=lambda place: medians[place] or 0.0)
    noise = LEAST_FLOOR
    if columns[0] is not None and again is not None:
        itself = stats.of_one_process(_logs(again, columns[0]))
        noise = min(max(noise, abs(itself.centre), itself.half_width()), MOST_FLOOR)
    tied = [best]
    for place in sound:
        ratio = stats.of_one_process(_logs(columns[place], columns[best]))
        if place != best and ratio.interval()[0] <= 1 + noise and ratio.centre <= 2 * noise:
            tied.append(place)
    winner = min(tied, key=lambda place: keys[place])
    ties = tuple(sorted((place for place in tied if place != winner), key=lambda place: keys[place]))
    return Decision(winner, ties, tuple(medians), float(noise))


def _logs(theirs: Sequence[float] | None, ours: Sequence[float] | None) -> stats.Array:
    return np.asarray(np.log(np.asarray(theirs, dtype=np.float64)) - np.log(np.asarray(ours, dtype=np.float64)))


def _seconds(trial: Trial) -> float:
    assert trial.median_seconds is not None
    return trial.median_seconds
