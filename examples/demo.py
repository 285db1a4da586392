"""``make demo``: the pipeline on the case study, checked to show what it is meant to show."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(os.path.relpath(Path(__file__).parent / "ragged_attention.py"))
REPORT = Path(".tilewright/demo.html")


def main() -> int:
    print("A fused attention kernel as people write it first, and the same kernel mended.\n", flush=True)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "tilewright", "run", str(EXAMPLE), "--arch", "a100,h100"]
        ended = subprocess.run([*command, "--html", str(REPORT), "--json", file.name], check=False)
        records = json.loads(Path(file.name).read_text() or '{"records": []}')["records"]
    reports = {r["operator"]: r for r in records if r["type"] == "DebugReport"}
    problem = _problem(ended.returncode, reports)
    if problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 1
    print(f"\nThe first try was caught and the mended kernel passed. Report: {REPORT.resolve()}")
    return 0


def _problem(exit_code: int, reports: dict) -> str | None:
    """What is not as the case study promises."""
    if exit_code != 1:
        return f"tilewright run ended with {exit_code}, expected 1 (a finding in the first try)"
    lines = EXAMPLE.read_text().splitlines()
    first = next(i for i, line in enumerate(lines, 1) if "k = tl.load(" in line)
    found = {(f["kind"], f["line"]) for result in reports["attention_first_try"]["results"] for f in result["findings"]}
    if ("out-of-bounds-read", first) not in found:
        return f"the unmasked load of k on line {first} was not found: {found}"
    if any(result["findings"] for result in reports["attention_mended"]["results"]):
        return "the mended kernel has findings"
    return None


if __name__ == "__main__":
    sys.exit(main())
