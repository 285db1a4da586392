"""The command ``tilewright tune`` on a machine with a simulated GPU: what the tests of faults start, kill and start again.

    python tune_scaled.py STORE OPTIONS    (JSON: of the space, the machine and its faults)

It prints the Choice, and ends as the command does.
"""

import json
import sys
from pathlib import Path

import scaled
from simulated import Simulated

import tilewright as tw
from tilewright.cli import common
from tilewright.errors import TilewrightError
from tilewright.spec.load import address
from tilewright.spec.operator import replace
from tilewright.tune import stage


def fill(store, after):
    """Leaves the disk room for so many more Trials, as SQLite sees it."""
    kept = store.add

    def add(run, record):
        nonlocal after
        after -= type(record).__name__ == "Trial"
        if after < 0:
            (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
            store._connection.execute(f"PRAGMA max_page_count = {pages}")
        kept(run, record)
        while after < 0:  # what room there is on the pages that it has
            kept(run, record)

    store.add = add


def main(store, given):
    warps, full_after = given.pop("warps", [1, 2, 4]), given.pop("full_after", None)
    operator = replace(scaled.scaled, space=tw.Space(BLOCK=given.pop("blocks", [32, 64]), num_warps=warps))
    options = stage.TuneOptions(
        machine=Simulated(seats=given.pop("seats", 1), more=given),
        cases=[{"n": 4096}],
        workers=1,
        limit_seconds=1.0,
        memory_bytes=2**28,
        duel_seconds=0.1,
    )
    with common.session("tune scaled", ["scaled"], None, Path(store), False) as session:
        if full_after is not None:
            fill(session.store, full_after)
        report = session.drain(stage.run(operator, address(scaled.scaled), options, session.store))
    (choice,) = report.choices.values()
    (trials,) = report.trials.values()
    told = {t.config.key: [t.status, t.median_seconds] for t in trials}
    for trial in trials:
        if trial.status == "failed":
            print(f"{trial.config.key}: {trial.reason}", file=sys.stderr)
    print(json.dumps({"choice": choice.config.key, "ties": choice.certificate["ties"], "trials": told}))


if __name__ == "__main__":
    try:
        main(sys.argv[1], json.loads(sys.argv[2]))
    except TilewrightError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None
