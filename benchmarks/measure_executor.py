"""Times the checked executor against Triton's stock interpreter, in one run, all checks on.

    OMP_NUM_THREADS=1 python benchmarks/measure_executor.py benchmarks/results/executor_cpu.json

Each measurement has a process of its own, whose time and peak memory are reported beside the time inside it.
The checked executor runs a kernel several times with its TTIR cached; the stock interpreter once.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import executor_kernels as kernels
import torch

from tilewright.debug.executor.executor import Executor
from tilewright.hardware.probe import environment
from tilewright.hardware.targets import find
from tilewright.launch.capture import capture
from tilewright.records import to_dict

REPEATS = 7
DECADES = (10, 100, 1_000, 10_000)


def main() -> int:
    if sys.argv[1] == "--child":
        print(json.dumps(measured(sys.argv[2], sys.argv[3])))
        return 0
    out = Path(sys.argv[1])
    rows = []
    for name in kernels.CASES:
        row = {"case": name, "checked": in_child("checked", name), "stock": in_child("stock", name)}
        row["speedup"] = row["stock"]["seconds"] / row["checked"]["seconds"]
        rows.append(row)
        print(
            f"{name}: {row['checked']['seconds']:.3f} s, {row['speedup']:.0f} times the stock interpreter's speed",
            flush=True,
        )
    decades = [{"programs": n, **in_child("checked", f"programs={n}")} for n in DECADES]
    result = {
        "environment": to_dict(environment()),
        "records": [],  # a results file holds these; here there are none
        "threads": torch.get_num_threads(),
        "rows": rows,
        "decades": decades,
    }
    out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def in_child(executor: str, name: str) -> dict:
    env = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    env.pop("TRITON_INTERPRET", None)
    if executor == "stock":
        env["TRITON_INTERPRET"] = "1"
    started = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, __file__, "--child", executor, name], env=env, capture_output=True, text=True, check=True
    )
    return {**json.loads(ended.stdout.splitlines()[-1]), "process_seconds": time.perf_counter() - started}


def measured(executor: str, name: str) -> dict:
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if name.startswith("programs="):
        call, golden = kernels.add(1024 * int(name.partition("=")[2]))
    else:
        call, golden = kernels.CASES[name]()
    seconds = [once(executor, call) for _ in range(REPEATS if executor == "checked" else 1)]
    error = (
        float((call_result(executor, call).double() - golden().double()).abs().max()) if executor == "checked" else None
    )
    best = sorted(seconds[1:] or seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": best[len(best) // 2], "first": seconds[0], "peak_gib": peak, "worst_error": error}


def once(executor: str, call) -> float:
    started = time.perf_counter()
    call_result(executor, call)
    return time.perf_counter() - started


def call_result(executor: str, call):
    if executor == "stock":
        return call()
    checked = Executor(find("h100"))
    with capture(checked, find("h100")):
        result = call()
    if checked.findings():
        raise SystemExit(f"findings on a right kernel: {checked.findings()}")
    return result


if __name__ == "__main__":
    sys.exit(main())
