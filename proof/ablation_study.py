"""What each part of the default search is worth: the same search without it, on recorded trials, names scrambled.

python ablation_study.py [--seeds 30] [--workers 2]
"""

import argparse
import importlib
import math
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

import numpy as np
from replay_study import BUDGET, FIRST_SEED, SHAPED_ON, scrambled, truths
from results import keep

from tilewright.tune.replay import Truth, evaluations, fractions
from tilewright.tune.search.gaussian import Prediction
from tilewright.tune.search.portfolio import Portfolio, improvement, log_times

portfolio = importlib.import_module("tilewright.tune.search.portfolio")
NEVER = 10**9


class One(Portfolio):
    """With one of the two surrogates."""

    which = 1

    def _improvement(self, candidates):
        best, rows = math.log(min(self._times().values())), self._rows[list(candidates)]
        return improvement(self._models()[self.which].predict(rows), best)


class Rough(One):
    which = 0


class Forest(Portfolio):
    """With scikit-learn's extra trees, asked for the mean and spread of 60."""

    def _improvement(self, candidates):
        ensemble = importlib.import_module("sklearn.ensemble")
        known = list(self._told)
        values = log_times([self._told[index] for index in known])
        trees = ensemble.ExtraTreesRegressor(60, random_state=0, n_jobs=1).fit(self._rows[known], values)
        found = np.array([tree.predict(self._rows[list(candidates)]) for tree in trees.estimators_])
        return improvement(Prediction(found.mean(axis=0), found.std(axis=0) + 1e-6), float(values.min()))


VARIANTS = {
    "as it is": (Portfolio, {}),
    "smooth surrogate only": (One, {}),
    "rough surrogate only": (Rough, {}),
    "extra trees instead": (Forest, {}),
    "no polish": (Portfolio, {"POLISH_EVERY": NEVER}),
    "no exploration share": (Portfolio, {"EXPLORE_EVERY": NEVER}),
    "no resources": (Portfolio, {}),
}


def run(truth: Truth, variant: str, seed: int) -> float:
    """The fraction of the best after the budget."""
    make, constants = VARIANTS[variant]
    seen = scrambled(truth)
    points = seen.points
    if variant == "no resources":
        points = tuple(type(point)(point.config) for point in points)
    with mock.patch.multiple(portfolio, **constants) if constants else mock.patch.dict({}):
        ended = evaluations(make(points, seed), truth.trials, BUDGET)
    return fractions(ended, truth.best, BUDGET)[-1]


def study(seeds: int, workers: int) -> dict:
    started = time.time()
    chosen = [truth for truth in truths() if len(truth.points) > 60]
    rows = []
    with ProcessPoolExecutor(workers) as pool:
        for truth in chosen:
            waiting = {
                name: [pool.submit(run, truth, name, seed) for seed in range(FIRST_SEED, FIRST_SEED + seeds)]
                for name in VARIANTS
            }
            found = {name: [part.result() for part in parts] for name, parts in waiting.items()}
            rows.append({
                "truth": truth.name, "shaped on": any(word.lower() in truth.name.lower() for word in SHAPED_ON),
                "variants": {name: {"mean": round(statistics.fmean(values), 4), "worst": round(min(values), 4)}
                             for name, values in found.items()},
            })  # fmt: skip
            print(rows[-1], flush=True)
            keep("ablation", {"budget": BUDGET, "seeds": seeds, "first seed": FIRST_SEED, "truths": rows,
                              "seconds": round(time.time() - started)})  # fmt: skip
    return {"truths": rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    study(given.seeds, given.workers)


if __name__ == "__main__":
    main()
