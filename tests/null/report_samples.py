"""Records made by hand, for the tests of what a reader sees."""

import math
import random
from pathlib import Path

from tilewright.records import (
    Case,
    CaseResult,
    Choice,
    Comparison,
    Config,
    DebugReport,
    Disagreement,
    Environment,
    Finding,
    Resources,
    Timing,
    Trial,
)
from tilewright.store.rows import RunSummary

HERE = Environment(
    chip="Intel Xeon", arch=None, driver=None, clock_mhz=None, max_clock_mhz=None, power_limit_watts=None,
    cpu="Intel Xeon", cpu_count=8, python="3.12.3", torch="2.11.0", triton="3.6.0", ptxas="12.8", cuda=None,
    numpy="2.3.1", tilewright="0.1.0", commit=None, when="2026-03-01T09:30:00+00:00",
)  # fmt: skip
H100 = Environment(
    chip="NVIDIA H100 80GB HBM3", arch="sm_90", driver="570.86", clock_mhz=1755, max_clock_mhz=1980, power_limit_watts=700.0,
    cpu="AMD EPYC", cpu_count=64, python="3.12.3", torch="2.11.0", triton="3.6.0", ptxas="12.8", cuda="12.8",
    numpy="2.3.1", tilewright="0.1.0", commit="0123456789abcdef", when="2026-02-11T14:02:11+00:00",
)  # fmt: skip

SMALL = Case("attention", {"B": 1, "H": 1, "M": 1, "N": 1, "D": 16}, "bf16")
MIDDLE = Case("attention", {"B": 1, "H": 2, "M": 127, "N": 127, "D": 64}, "bf16")
LARGE = Case("attention", {"B": 2, "H": 4, "M": 256, "N": 200, "D": 64, "causal": True}, "fp32", layout="transposed")

SOURCE = '''import triton
import triton.language as tl


@triton.jit
def attention(q_ptr, k_ptr, out_ptr, M, N, D: tl.constexpr):
    """<script>alert("docstring")</script> [bold]not markup[/bold]"""
    offs_n = tl.arange(0, 128)
    k_ptrs = k_ptr + offs_n[:, None] * D + tl.arange(0, D)[None, :]
    k = tl.load(k_ptrs)  # <script>alert(1)</script> & "quotes"
    qk = tl.dot(q, k.T)
    tl.store(out_ptr + offs_n, tl.sum(qk, 1))
'''


def sources():
    """The faulty file, as if it lay in the working directory."""
    return {str(Path.cwd() / "my_attention.py"): SOURCE}


def read_fault(case=MIDDLE):
    return Finding(
        "out-of-bounds-read", "reads k[0, 0, 127, 0], but k has shape 1x2x127x64; 1 element past its end",
        tensor="k_ptr", argument="k", file=str(Path.cwd() / "my_attention.py"), line=10,
        source=SOURCE.splitlines()[9].strip(), program=(1, 0, 0), programs=2, lanes=128, element=(0, 0, 127, 0), case=case,
        cause="missing-mask", remedy="mask=offs_n[:, None] < N, other=0.0",
    )  # fmt: skip


def mismatch(case=LARGE):
    return Finding(
        "mismatch", "output differs in 400 of 51200 elements (under 1 %), in 7 of 32 8x8 tiles, all in the last column of tiles",
        tensor="out_ptr", argument="output", file="/opt/elsewhere/kernels.py", line=12, source="tl.store(out_ptr + offs_n, acc)",
        program=(0, 3, 0), lanes=400, case=case, cause="unknown",
    )  # fmt: skip


def warning(case=MIDDLE):
    return Finding(
        "redundant-write",
        "several programs store the same value",
        "warning",
        tensor="out_ptr",
        programs=4,
        program=(0, 0, 0),
        case=case,
    )


def disagreement():
    rng = random.Random(0)
    tiles = [rng.random() * 0.4 for _ in range(32 * 25)]
    for row in range(32):
        tiles[row * 25 + 24] = (1.5, 40.0, 3e4, math.inf)[row % 4] if row > 3 else 0.2
    tiles[5 * 25 + 3] = 7.0
    return Disagreement(
        "output",
        (2, 4, 256, 200),
        "fp32",
        400,
        409600,
        (0, 0, 40, 196),
        math.nan,
        0.25,
        math.inf,
        (8, 8),
        (32, 25),
        tuple(tiles),
    )


def failing_report():
    results = (
        CaseResult(MIDDLE, (read_fault(), warning()), launches=1, programs=2, seconds=0.4),
        CaseResult(LARGE, (mismatch(), read_fault(LARGE)), (disagreement(),), math.inf, 1, 16, 1.1),
        CaseResult(SMALL, (), (), 0.3, 1, 1, 0.1),
    )
    smallest = {"out-of-bounds-read k_ptr 10": SMALL}
    return DebugReport("attention", "interpreter", results, True, (), smallest)


def passing_report():
    results = tuple(CaseResult(case, (), (), 0.42, 1, 8, 0.5) for case in (SMALL, MIDDLE, LARGE))
    return DebugReport("masked_softmax", "interpreter", results)


def incomplete_report():
    limit = Finding("unsupported", "inline assembly is not executed", tensor=None, case=SMALL)
    note = "9 of 10 cases not run: the budget of 60 s was spent"
    return DebugReport("rope", "interpreter", (CaseResult(SMALL, (limit,), launches=1),), False, (note,))


def trial(m, n, warps, *, predicted, measured=None, **changes):
    config = Config({"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": 3})
    shared = 3 * (m + n) * 64 * 2
    resources = (
        Resources(
            shared, 40 + m * n // (warps * 64), 0, 0 if m * n < 16384 else 96, 0 if m * n < 16384 else 128, warps, 0.7
        ),
    )
    given = {
        "status": "compiled" if measured is None else "timed", "shared": shared, "resources": resources, "occupancy": 0.25,
        "limited_by": "shared", "waves": 1.94, "predicted_seconds": predicted, "median_seconds": measured,
    }  # fmt: skip
    return Trial("attention", LARGE, config, "h100", **{**given, **changes})


def infeasible_trial():
    return trial(
        256, 256, 8, predicted=None, status="infeasible", resources=(), occupancy=None, limited_by=None, waves=None, shared=262144,
        reason="needs 256 KiB of shared memory, a program on h100 has 227",
    )  # fmt: skip


def predicted_trials():
    return [
        trial(128, 64, 4, predicted=41.2e-6), trial(128, 128, 8, predicted=44.8e-6), trial(64, 64, 4, predicted=52.5e-6), infeasible_trial(),
    ]  # fmt: skip


def measured_trials():
    return [
        trial(128, 128, 8, predicted=44.8e-6, measured=61.4e-6), trial(128, 64, 4, predicted=41.2e-6, measured=66.0e-6),
        trial(64, 64, 4, predicted=52.5e-6, measured=91.7e-6),
        trial(64, 128, 4, predicted=50e-6, status="wrong", reason="31 times the tolerance"), infeasible_trial(),
    ]  # fmt: skip


def timing(side, microseconds, seed, spread=0.01):
    rng = random.Random(seed)
    samples = sorted(microseconds * 1e-6 * (1 + abs(rng.gauss(0, spread))) for _ in range(300))
    samples[-1] = microseconds * 5e-6  # one hiccup, as there always is
    rate = 2.1e8 / (microseconds * 1e-6)
    return Timing(side, 300, samples[150], samples[75], samples[225], 1755, rate * 10, rate / 10, tuple(samples))


def comparisons(config=None):
    prefill, decode = timing("ours", 61.4, 1), timing("ours", 9.31, 2, 0.03)
    rows = (
        ("prefill", "torch sdpa", 1.214, 1.205, 1.222, "FASTER", prefill, timing("torch sdpa", 74.6, 3)),
        ("prefill", "torch.compile", 2.87, 2.81, 2.93, "FASTER", prefill, timing("torch.compile", 176.0, 4)),
        ("decode", "torch sdpa", 0.871, 0.86, 0.883, "SLOWER", decode, timing("torch sdpa", 8.11, 5, 0.02)),
        ("decode", "torch.compile", 1.011, 0.985, 1.04, "UNDECIDED", decode, timing("torch.compile", 9.4, 6, 0.05)),
    )
    return [
        Comparison(
            "attention",
            LARGE,
            shape,
            base,
            ratio,
            low,
            high,
            verdict,
            "device time, cold L2",
            ours,
            theirs,
            0.012,
            config,
        )
        for shape, base, ratio, low, high, verdict, ours, theirs in rows
    ]


def choice():
    certificate = {"space": 48, "timed": 31, "infeasible": 17, "ties": [{"BLOCK_M": 64}], "searched": "exhaustively"}
    return Choice(
        "attention",
        LARGE,
        Config({"BLOCK_M": 128, "num_warps": 8}),
        "NVIDIA H100",
        "3.6.0",
        "",
        61.4e-6,
        75.0e-6,
        certificate,
    )


def runs():
    return [
        RunSummary(
            3,
            "2026-03-01T09:30:00.000+00:00",
            "run my_attention.py",
            ("attention",),
            1,
            "done",
            75.2,
            "0123456789",
            "NVIDIA H100",
            2,
            48,
            4,
        ),
        RunSummary(
            2,
            "2026-03-01T09:10:00.000+00:00",
            "debug my_attention.py",
            ("attention",),
            0,
            "done",
            9.1,
            None,
            "Intel Xeon",
            0,
            0,
            0,
        ),
        RunSummary(
            1, "2026-03-01T09:00:00.000+00:00", "tune a.py", ("a",), None, "", None, None, "Intel Xeon", 0, 7, 0
        ),
    ]
