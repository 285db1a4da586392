"""Whether the regret that a certificate states is one that holds: on recorded trials, over seeds, early and late.

python certificate_study.py [--seeds 30] [--workers 2]
"""

import argparse
import dataclasses
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

from replay_study import scrambled, truths
from results import keep

from tilewright.tune.certificate import SMALL, StopRule, estimated_regret
from tilewright.tune.points import points_of
from tilewright.tune.regret import CONFIDENCE
from tilewright.tune.replay import Truth
from tilewright.tune.search.named import search_named

LOOKED_AT = (15, 30, 60)


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
        waiting = [(truth, [pool.submit(run, truth, seed) for seed in range(seeds)]) for truth in chosen]
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
    looks = {at: [look for one in everything for look in one["looks"] if look["measured"] == at] for at in LOOKED_AT}
    ends = [one["end"] for one in everything]
    return {
        "confidence": CONFIDENCE,
        "truths": rows,
        "all": {f"after {at}": summary(looks[at]) for at in LOOKED_AT}
        | {
            "when stopped": summary(ends),
            "when stopped, not exhausted": summary([end for end in ends if end["stated"] > 0]),
        },
        "seconds": time.time() - started,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    keep("certificates", study(given.seeds, given.workers))


if __name__ == "__main__":
    main()
