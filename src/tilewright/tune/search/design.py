"""Points that fill a space: each new one, of some drawn at random, is the farthest from those before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.tune.search.encoding import Matrix

DRAWN = 20
"""Candidates drawn for each (D. P. Mitchell's best candidate, 1991): far apart, and yet another sample each time."""


def farthest(rows: Matrix, among: Sequence[int], taken: Sequence[int], generator: np.random.Generator) -> int:
    """Of some of ``among``, drawn at random, the one that is farthest from all that are taken."""
    drawn = generator.choice(np.asarray(among), min(DRAWN, len(among)), replace=False)
    if not taken:
        return int(drawn[0])
    apart = ((rows[drawn][:, None, :] - rows[list(taken)][None, :, :]) ** 2).sum(axis=-1).min(axis=1)
    return int(drawn[apart.argmax()])
