"""Host time of a launch under @tw.autotune and @triton.autotune, beside the raw kernel: µs, once the key is known.

Without a GPU what is launched is a stub in place of `JITFunction.run`, so that the tuners' own part is seen alone, and
the clock is the thread's CPU time, for other processes do not matter there. With a GPU the kernels are launched too, by
the wall clock. Sides take turns, 200 calls each (fewer than a stream holds); medians and least of all turns.

python benchmarks/measure_dispatch.py [turns]
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

import tilewright as tw

sys.path.insert(0, str(Path(__file__).parent.parent))
from proof.results import keep

CALLS = 200
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


def measured(calls: dict, turns: int, clock: Callable[[], float]) -> dict:
    """Microseconds a call: median and least over all turns, and the excess over the raw side."""
    taken: dict = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            start = clock()
            for _ in range(CALLS):
                call()
            taken[name].append((clock() - start) / CALLS * 1e6)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
    figures = {name: {"median": statistics.median(times), "least": min(times)} for name, times in taken.items()}
    for name in calls:
        for word in ("median", "least"):
            figures[name][f"over_raw_{word}"] = figures[name][word] - figures["raw"][word]
    return {name: {word: round(value, 3) for word, value in words.items()} for name, words in figures.items()}


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    launches = torch.cuda.is_available()
    x = torch.zeros(4, 4, device="cuda" if launches else "cpu")
    if not launches:
        JITFunction.run = lambda self, *args, grid, warmup, **kwargs: None
    clock = time.perf_counter if launches else time.thread_time
    strides = (4096, 1) * 3
    many = sides(matmul_like, ("BM", "BN", "BK"), ["M", "N", "K"], (x, x, x, 4096, 4096, 4096, *strides))
    few = sides(row_like, ("BLOCK",), ["n"], (x, x, 4096))
    figures = {
        "launched": launches,
        "twelve_arguments": measured(many, turns, clock),
        "three_arguments": measured(few, turns, clock),
    }
    for name, of_kernel in figures.items():
        print(name, of_kernel)
    keep("dispatch_gpu" if launches else "dispatch_host", figures)


if __name__ == "__main__":
    main()
