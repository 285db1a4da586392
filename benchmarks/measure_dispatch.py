"""Host time of a launch under @tw.autotune and @triton.autotune, beside the raw kernel: µs, once the key is known.

Without a GPU what is launched is a stub in place of `JITFunction.run`, so that the tuners' own part is seen alone;
with one the kernels are launched too. Sides take turns, a thousand calls each; medians and least of all turns.

python benchmarks/measure_dispatch.py [turns]
"""

import statistics
import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

import tilewright as tw

sys.path.insert(0, str(Path(__file__).parent.parent))
from proof.results import keep

CALLS = 1000
GRID = (1,)


@triton.jit
def matmul_like(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pass


@triton.jit
def row_like(x, out, n, BLOCK: tl.constexpr):
    pass


def configs(*names: str) -> list:
    return [triton.Config(dict.fromkeys(names, size), num_warps=4, num_stages=3) for size in (32, 64, 128)]


def sides(kernel, names: tuple[str, ...], key: list[str], args: tuple) -> dict:
    """A call of each side, its answer known already."""
    options = {"configs": configs(*names), "key": key, "do_bench": lambda call, quantiles: [1.0, 1.0, 1.0]}
    stock, ours = triton.autotune(**options)(kernel), tw.autotune(**options, keep=False)(kernel)
    fixed = {**dict.fromkeys(names, 32), "num_warps": 4, "num_stages": 3, "num_ctas": 1}
    calls = {
        "raw": lambda: kernel[GRID](*args, **fixed),
        "tw.autotune": lambda: ours[GRID](*args),
        "triton.autotune": lambda: stock[GRID](*args),
    }
    for call in calls.values():
        call()
    return calls


def measured(calls: dict, turns: int) -> dict:
    """Microseconds a call: median and least over all turns, and the excess over the raw side."""
    taken: dict = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            taken[name].append((time.perf_counter() - start) / CALLS * 1e6)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
    figures = {name: {"median": statistics.median(times), "least": min(times)} for name, times in taken.items()}
    for name in calls:
        for word in ("median", "least"):
            figures[name][f"over_raw_{word}"] = figures[name][word] - figures["raw"][word]
    return {name: {word: round(value, 3) for word, value in words.items()} for name, words in figures.items()}


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    launches = torch.cuda.is_available()
    x = torch.zeros(4, 4, device="cuda" if launches else "cpu")
    if not launches:
        JITFunction.run = lambda self, *args, grid, warmup, **kwargs: None
    figures = {
        "launched": launches,
        "twelve_arguments": measured(
            sides(matmul_like, ("BM", "BN", "BK"), ["M", "N", "K"], (x, x, x, *[4096] * 3, 4096, 1, 4096, 1, 4096, 1)),
            turns,
        ),
        "three_arguments": measured(sides(row_like, ("BLOCK",), ["n"], (x, x, 4096)), turns),
    }
    for name, of_kernel in figures.items():
        print(name, of_kernel)
    keep("dispatch_gpu" if launches else "dispatch_host", figures)


if __name__ == "__main__":
    main()
