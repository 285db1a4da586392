"""The checked executor against a GPU: the kernels of the conformance study on both, on the same inputs.

    python proof/conformance_gpu.py OUT.json [workers] [seconds]

Every tensor argument is compared afterwards, in units of the last place (0: bit for bit, any NaN equals any
other). Floating contraction is off on the GPU, so that a product and a sum round twice there as well. Of atomics
the memory alone is compared, and not after exchanges: what they return follows the hardware's order.
Kernels are compiled and run by several processes; what they did not reach in the time is counted.
"""

import json
import multiprocessing
import os
import queue
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "cpu" / "executor"))

from conformance import atomics, casting, control, launching, library, mixtures, products, tiles, values
from conformance import lanewise as single
from conformance.comparing import apart
from conformance.samples import DTYPES, operands

from tilewright.hardware.probe import environment
from tilewright.records import to_dict

LANES = 4096
SEED = 0
SHOWN = 3


class Both:
    """Takes the place of ``launching.run``: the executor first, then the GPU, then the comparison."""

    def __init__(self) -> None:
        self.name = ("", "")
        self.found: dict[tuple[str, str], dict] = {}
        self._executor_run = launching.run

    def __call__(self, kernel, grid, *arguments, allowed=(), **options):
        copies: dict[int, torch.Tensor] = {}
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                copies.setdefault(id(argument), argument.cuda())
        executor = self._executor_run(kernel, grid, *arguments, allowed=allowed, **options)
        kernel[grid](*(copies.get(id(a), a) for a in arguments), **options, enable_fp_fusion=False)
        torch.cuda.synchronize()
        ordered = arguments[:1] if self.name[0] == "atomics" else arguments  # the memory comes first
        for position, argument in enumerate(ordered):
            if isinstance(argument, torch.Tensor):
                self._compare(position, copies[id(argument)].cpu(), argument, arguments)
        return executor

    def _compare(self, position, gpu, ours, arguments) -> None:
        entry = self.found.setdefault(self.name, {"lanes": 0, "different": 0, "worst_ulps": 0, "first": []})
        distance = apart(ours, gpu)
        entry["lanes"] += ours.numel()
        different = distance > 0
        entry["different"] += int(different.sum())
        entry["worst_ulps"] = max(entry["worst_ulps"], int(distance.max()) if distance.numel() else 0)
        for at in different.nonzero()[: max(SHOWN - len(entry["first"]), 0)].tolist():
            index = tuple(at)
            inputs = [
                str(a[index].item())
                for i, a in enumerate(arguments)
                if isinstance(a, torch.Tensor) and i != position and a.shape == ours.shape
            ]
            entry["first"].append(
                {"inputs": inputs, "executor": str(ours[index].item()), "gpu": str(gpu[index].item())}
            )


def checks() -> list[tuple[str, str, object]]:
    """Family, name and what to call, of everything that is compared."""
    found = []
    families = {"integer": single.integer_cases, "floating": single.floating_cases, "library": library.cases}
    for family, cases in families.items():
        for case in cases():
            inputs = lambda case=case: case.draw(LANES, SEED)
            found.append((family, str(case), lambda c=case, i=inputs: launching.lanewise(c.op, i(), DTYPES[c.output])))
    for kind, pairs in (("cast", casting.pairs()), ("bitcast", casting.bitcasts()), ("rtz", casting.CUT_SHORT)):
        for source, to in pairs:
            found.append(("conversions", f"{kind} {source} to {to}", lambda k=kind, s=source, t=to: convert(k, s, t)))
    groups = (tiles.integer_reductions, tiles.scans, tiles.floating_reductions, tiles.spread_reductions, tiles.shapes)
    found += [("tiles", str(case.name), lambda c=case: c.check(SEED)) for group in groups for case in group()]
    found += [("products", f"dot {c}", lambda c=c: c.check(SEED)) for c in products.dots()]
    found += [("products", f"dot_scaled {c}", lambda c=c: c.check(SEED)) for c in products.scaled()]
    found += [("atomics", str(c), lambda c=c: c.check(SEED)) for c in atomics.cases() if c.name != "xchg"]
    found += [("control", k.__name__, lambda k=k, e=e: control.check(k, e, torch.int32)) for k, e in control.CASES]
    found += [("values", "constants", values.check_constants), ("values", "promotions", values.check_promotions)]
    mixed = (mixtures.check_welford, mixtures.check_segments, mixtures.check_truths)
    return found + [("mixtures", check.__name__, lambda c=check: c(SEED)) for check in mixed]


def convert(kind: str, source: str, to: str) -> None:
    (x,) = operands((source,), LANES, SEED)
    out = torch.zeros(LANES, dtype=DTYPES[to])
    rounding = "rtz" if kind == "rtz" else None
    launching.run(
        casting.cast_kernel,
        (LANES // 64,),
        x,
        out,
        TO=casting.TRITON[to],
        BLOCK=64,
        ROUNDING=rounding,
        BITCAST=kind == "bitcast",
    )


def work(numbers, results, deadline: float) -> None:
    both = Both()
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("conformance") and hasattr(module, "run"):
            module.run = both
    torch.set_num_threads(1)
    every = checks()
    while time.time() < deadline:
        try:
            number = numbers.get_nowait()
        except queue.Empty:
            return
        family, name, check = every[number]
        both.name, both.found = (family, name), {}
        try:
            check()
            error = None
        except Exception as problem:
            error = f"{type(problem).__name__}: {str(problem).strip().splitlines()[0][:300] if str(problem) else ''}"
        results.put((family, name, both.found.get(both.name), error))
        if error and "CUDA error" in error:
            return  # this process can launch nothing more


def main() -> int:
    out, workers, seconds = Path(sys.argv[1]), int((sys.argv[2:] or ["8"])[0]), float((sys.argv[3:] or ["150"])[0])
    context = multiprocessing.get_context("spawn")
    numbers, results = context.Queue(), context.Queue()
    total = len(checks())
    for number in range(total):
        numbers.put(number)
    deadline = time.time() + seconds
    pool = [context.Process(target=work, args=(numbers, results, deadline), daemon=True) for _ in range(workers)]
    for process in pool:
        process.start()
    found: dict[str, dict] = {}
    reached = 0
    while time.time() < deadline + 20 and reached < total:
        try:
            family, name, entry, error = results.get(timeout=2)
        except queue.Empty:
            if not any(process.is_alive() for process in pool):
                break
            continue
        reached += 1
        entry = {**(entry or {}), **({"error": error} if error else {})}
        found.setdefault(family, {})[name] = entry
    summary = {
        family: {
            "checks": len(entries),
            "bit_for_bit": sum(e.get("worst_ulps") == 0 for e in entries.values()),
            "errors": sum("error" in e for e in entries.values()),
        }
        for family, entries in found.items()
    }
    apart_ = {f: {n: e for n, e in es.items() if e.get("worst_ulps") or "error" in e} for f, es in found.items()}
    figures = {"reached": reached, "of": total, "summary": summary, "not_bit_for_bit": apart_}
    data = {"study": "conformance_gpu", "environment": to_dict(environment()), "figures": figures}
    out.write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps({"reached": reached, "of": total, **summary}))
    os._exit(0)


if __name__ == "__main__":
    main()
