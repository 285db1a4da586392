"""Seconds that `tilewright debug` takes in its quick plan as a whole command, start-up included, for the library.

python benchmarks/measure_quick.py [runs]
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tilewright.hardware.probe import environment
from tilewright.records import to_dict

RESULT = Path(__file__).parent.parent / "proof" / "results" / "debug_quick.json"
OPERATORS = ("masked_softmax", "attention", "matmul")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    figures = {}
    for name in OPERATORS:
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            command = [sys.executable, "-m", "tilewright", "debug", name, "--quick", "--no-store"]
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(round(time.perf_counter() - start, 2))
        figures[name] = {"seconds": seconds, "median": statistics.median(seconds), "least": min(seconds)}
        print(name, figures[name])
    RESULT.write_text(json.dumps({"environment": to_dict(environment()), "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
