"""Whether the regret that a certificate states is one that holds: on recorded trials, over seeds, early and late.

python certificate_study.py [--seeds 30] [--workers 2]
"""

import argparse
import dataclasses
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from replay_study import FIRST_SEED, scrambled, truths
from results import keep

from tilewright.records import Case, Config, Trial
from tilewright.tune.certificate import SMALL, StopRule, estimated_regret
from tilewright.tune.points import points_of
from tilewright.tune.recorded import Recorded
from tilewright.tune.regret import CONFIDENCE
from tilewright.tune.replay import Truth, truth_of
from tilewright.tune.search.named import search_named

LOOKED_AT = (15, 30, 60)


def drawn(seed: int, ordered: bool) -> Truth:
    """A landscape over 300 configurations: each parameter's own effect, one of a pair, and some noise."""
    generator, sizes = np.random.default_rng(seed), (5, 5, 3, 4)
    grid = np.array(list(np.ndindex(*sizes)))
    effects = [generator.normal(0, 0.3, size) for size in sizes]
    logs = sum((effect.cumsum() if ordered else effect)[grid[:, i]] for i, effect in enumerate(effects))
    logs = logs + generator.normal(0, 0.1, sizes[:2])[grid[:, 0], grid[:, 1]] + generator.normal(0, 0.02, len(grid))
    case = Case("drawn", {})
    return truth_of(Recorded("drawn", tuple(
        Trial("drawn", case, Config({f"p{i}": int(v) for i, v in enumerate(row)}), "", "timed", median_seconds=1e-4 * float(np.exp(log)))
        for row, log in zip(grid, logs, strict=True)
    )))  # fmt: skip


def run_drawn(seed: int, ordered: bool) -> dict:
    return run(drawn(seed, ordered), seed)


def run(truth: Truth, seed: int) -> dict:
    """One search that stops by the rule: the regret stated on the way and at the end, beside the true one."""
    seen = scrambled(truth)
    blank = [dataclasses.replace(trial, config=point.config, features=point.features, predicted_seconds=None,
             resources=(), occupancy=None, waves=None)
             for trial, point in zip(truth.trials, seen.points, strict=True)]  # fmt: skip
    trials = [dataclasses.replace(trial, status="compiled", median_seconds=None) for trial in blank]
    search, rule = search_named("portfolio", points_of(trials), seed), StopRule()
    looks, measured, why = [], 0, None
    while why is None and (index := search.next()) is not None:
        trials[index] = blank[index]
        search.told(index, blank[index].median_seconds)
        measured += 1
        if measured in LOOKED_AT:
            looks.append(_look(truth, trials, measured))
        why = rule(trials)
    return {
        "looks": looks,
        "end": {**_look(truth, trials, measured), "why": (why or "all were measured").split(" ")[0]},
    }


def _look(truth: Truth, trials, measured: int) -> dict:
    times = [trial.median_seconds for trial in trials if trial.status == "timed"]
    true = 1 - truth.best / min(times) if times else 1.0
    return {"measured": measured, "true": true, "stated": estimated_regret(trials)}


def covered(looks: list[dict]) -> float:
    return sum(look["true"] <= look["stated"] + 1e-9 for look in looks) / len(looks)


def summary(looks: list[dict]) -> dict:
    return {
        "runs": len(looks),
        "covered": round(covered(looks), 3),
        "true mean": round(statistics.fmean(look["true"] for look in looks), 4),
        "true worst": round(max(look["true"] for look in looks), 4),
        "stated median": round(statistics.median(look["stated"] for look in looks), 4),
        "measured mean": round(statistics.fmean(look["measured"] for look in looks), 1),
    }


def study(seeds: int, workers: int) -> dict:
    started = time.time()
    chosen = [truth for truth in truths() if len(truth.points) > 40]
    rows, everything = [], []
    with ProcessPoolExecutor(workers) as pool:
        apart = {
            f"drawn, levels {'in order' if ordered else 'in no order'}": [
                pool.submit(run_drawn, seed, ordered) for seed in range(FIRST_SEED, FIRST_SEED + seeds)
            ]
            for ordered in (True, False)
        }
        waiting = [
            (truth, [pool.submit(run, truth, seed) for seed in range(FIRST_SEED, FIRST_SEED + seeds)])
            for truth in chosen
        ]
        for truth, parts in waiting:
            found = [part.result() for part in parts]
            everything += found
            looks = {at: [look for one in found for look in one["looks"] if look["measured"] == at] for at in LOOKED_AT}
            rows.append({
                "truth": truth.name, "points": len(truth.points), "exhausted": len(truth.points) <= SMALL,
                **{f"after {at}": summary(looks[at]) for at in LOOKED_AT if looks[at]},
                "when stopped": summary([one["end"] for one in found]),
            })  # fmt: skip
            print(rows[-1], flush=True)
        landscapes = {name: over([part.result() for part in parts]) for name, parts in apart.items()}
    return {
        "confidence": CONFIDENCE, "first seed": FIRST_SEED, "truths": rows, "all": over(everything),
        "landscapes": landscapes, "seconds": round(time.time() - started),
    }  # fmt: skip


def over(runs: list[dict]) -> dict:
    """Coverage on the way and at the end, over runs."""
    looks = {at: [look for one in runs for look in one["looks"] if look["measured"] == at] for at in LOOKED_AT}
    ends = [one["end"] for one in runs]
    some = {f"after {at}": looks[at] for at in LOOKED_AT} | {"when stopped": ends}
    some["when stopped, not exhausted"] = [end for end in ends if end["why"] != "all"]
    return {name: summary(found) for name, found in some.items() if found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    keep("certificates", study(given.seeds, given.workers))


if __name__ == "__main__":
    main()
