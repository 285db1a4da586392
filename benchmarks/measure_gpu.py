"""Runs the library's operators through ``tilewright run`` on a GPU, one results file each.

    python benchmarks/measure_gpu.py benchmarks/results h200 [attention matmul …]

Each operator's ``--json`` (environment, findings, Trials, Comparisons) becomes ``<label>_<operator>.json``.
Records of single cases are left out: what performance.md quotes are comparisons and Choices.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPERATORS = ("attention", "matmul", "masked_softmax", "examples/ragged_attention.py:attention_mended")
KEPT = ("Comparison", "Choice", "Trial", "DebugReport")
SAMPLES_KEPT = 40


def main() -> int:
    folder, label, *wanted = sys.argv[1:]
    worst = 0
    for operator in wanted or OPERATORS:
        worst = max(worst, measure(operator, Path(folder), label))
    return worst


def measure(operator: str, folder: Path, label: str) -> int:
    name = operator.rpartition(":")[2] or operator
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "tilewright", "run", operator, "--json", file.name, "--budget", "20"]
        command += [
            "--workers",
            str(max(os.cpu_count() or 2, 2)),
            "--seconds",
            "1.5",
            "--html",
            str(folder / f"{label}_{name}.html"),
        ]
        ended = subprocess.run(command, check=False)
        data = json.loads(Path(file.name).read_text())
    data["records"] = [_slim(record) for record in data["records"] if record["type"] in KEPT]
    (folder / f"{label}_{name}.json").write_text(json.dumps(data, indent=None, separators=(",", ":")) + "\n")
    print(f"{operator}: exit code {ended.returncode}", flush=True)
    return ended.returncode


def _slim(record: dict) -> dict:
    """Without the bulk: every n-th sample of a side, no per-case results of a debug report."""
    if record["type"] == "DebugReport":
        return {**record, "results": []}
    for side in ("ours", "theirs"):
        if side in record:
            samples = record[side]["samples"]
            record[side]["samples"] = samples[:: max(len(samples) // SAMPLES_KEPT, 1)]
    return record


if __name__ == "__main__":
    sys.exit(main())
