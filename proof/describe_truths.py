"""Adds to a file of exhaustive trials what is known of each configuration with no GPU, and keeps it in ``truths/``.

    python describe_truths.py FILE...

Resources are those that the file has of the compiler; the model's prediction, occupancy, waves and tiles are ours.
"""

import json
import sys
from pathlib import Path

from truth_kernels import OPERATORS

from tilewright.hardware.targets import find
from tilewright.records import Case, Config, Resources
from tilewright.tune.candidates import Candidates

TRUTHS = Path(__file__).parent / "truths"
KEPT = ("config", "median_ms", "p20_ms", "p80_ms", "registers", "spills", "shared", "failed")


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        data = json.loads(path.read_text())
        operator, names = OPERATORS[data["kernel"]]
        case = Case(operator.name, dict(zip(names, data["shape"], strict=True)))
        inputs = operator.make_inputs(case, drawn=False)
        candidates = Candidates(operator, case, inputs, find("h200"), None)
        entries = [described(entry, candidates) for entry in data["trials"]]
        heading = {name: data[name] for name in ("kernel", "shape", "dtype", "device", "torch", "triton")}
        lines = ",\n".join(json.dumps(entry) for entry in entries)
        text = json.dumps(heading)[:-1] + ', "trials": [\n' + lines + "\n]}\n"
        TRUTHS.mkdir(exist_ok=True)
        (TRUTHS / path.name).write_text(text)
        print(f"{path.name}: {len(entries)} configurations")


def described(entry: dict, candidates: Candidates) -> dict:
    kept = {name: entry[name] for name in KEPT if name in entry}
    if "registers" not in entry:
        return kept
    candidate = candidates.catch(Config(entry["config"]))
    if candidate.trial.status != "compiled":
        raise RuntimeError(f"{entry['config']}: {candidate.trial.reason}")
    needs = Resources(
        entry["shared"], entry["registers"], None, entry["spills"], None, entry["config"]["num_warps"], 0.0
    )
    candidates.with_resources(candidate, [needs])
    trial = candidate.trial
    known = {"occupancy": trial.occupancy, "waves": trial.waves, **trial.features}
    kept["features"] = {name: round(value, 4) for name, value in known.items() if value is not None}
    if trial.predicted_seconds is not None:
        kept["predicted_ms"] = round(1e3 * trial.predicted_seconds, 6)
    return kept


if __name__ == "__main__":
    main()
