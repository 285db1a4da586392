"""The figures of ``bench_gpu.py`` from its rows."""

import math
import statistics

import numpy as np

SHORT, LEAST = 20.0, 5.0  # µs


def summarise(rows):
    return {
        "quick": _against_itself(rows["quick"], with_do_bench=True),
        "gate": _against_itself([r for r in rows["gate"] if r["key"].startswith("verdict/")], with_do_bench=False),
        "slowed by 1 %": _slowed([r for r in rows["slowed"] if r["key"].startswith("verdict/")]),
    }


def _against_itself(rows, *, with_do_bench):
    """Of the same call on both sides: by length, how far ratios stray from 1, and how many verdicts are false."""
    known = [row for row in rows if "ratio" in row]
    typical = {}
    for row in known:
        typical.setdefault((row["operator"], row["shape"]), []).append(row["microseconds"])
    length = {pair: statistics.median(times) for pair, times in typical.items()}
    groups = {
        f"from {SHORT:.0f} µs on": lambda us: us >= SHORT,
        f"{LEAST:.0f} to {SHORT:.0f} µs": lambda us: LEAST <= us < SHORT,
        f"under {LEAST:.0f} µs": lambda us: us < LEAST,
    }
    found = {
        "pairs": len(typical),
        "invocations": len(known),
        "failed": sorted({f"{row['operator']} {row['shape']}: {row['error']}" for row in rows if "error" in row}),
        "seconds an invocation": _median([row["cost"] for row in known]),
    }
    if with_do_bench:
        found["seconds an invocation, do_bench"] = _median([row["do_bench"]["seconds"] for row in known])
    for name, belongs in groups.items():
        own = [row for row in known if belongs(length[row["operator"], row["shape"]])]
        if own:
            found[name] = _group(own, with_do_bench)
    found["rows"] = [
        {"operator": o, "shape": s, "microseconds": round(us, 2), "ratios": [
            round(r["ratio"], 5) for r in known if (r["operator"], r["shape"]) == (o, s)
        ], **({"do_bench": [
            round(r["do_bench"]["theirs"] / r["do_bench"]["ours"], 5) for r in known if (r["operator"], r["shape"]) == (o, s)
        ]} if with_do_bench else {})}
        for (o, s), us in sorted(length.items(), key=lambda item: item[1])
    ]  # fmt: skip
    return found


def _group(rows, with_do_bench):
    found = {
        "pairs": len({(row["operator"], row["shape"]) for row in rows}),
        **_spread([row["ratio"] for row in rows]),
        "verdicts": {v: sum(row["verdict"] == v for row in rows) for v in ("SAME", "UNDECIDED", "FASTER", "SLOWER")},
        "intervals that hold 1": sum(row["low"] <= 1 <= (row["high"] or math.inf) for row in rows) / len(rows),
    }
    if with_do_bench:
        ratios = [row["do_bench"]["theirs"] / row["do_bench"]["ours"] for row in rows]
        beyond = sum(abs(math.log(ratio)) > math.log1p(0.01) for ratio in ratios)
        found["do_bench"] = {**_spread(ratios), "beyond 1 %": beyond}
    return found


def _spread(ratios):
    off = 100 * np.abs(np.log(ratios))
    return {
        "ratios": len(ratios),
        "off by, median %": round(float(np.median(off)), 4),
        "off by, 95th percentile %": round(float(np.percentile(off, 95)), 4),
        "off by, most %": round(float(off.max()), 4),
    }


def _slowed(rows):
    known = [row for row in rows if "ratio" in row]
    return {
        "invocations": len(known),
        "found": sum(row["verdict"] == "FASTER" for row in known),
        "called SAME or SLOWER": sum(row["verdict"] in ("SAME", "SLOWER") for row in known),
        "seconds an invocation": _median([row["cost"] for row in known]),
        "rows": [
            {
                name: row[name]
                for name in ("operator", "shape", "ratio", "low", "high", "verdict", "microseconds", "why")
            }
            for row in known
        ],
    }


def _median(values):
    return round(statistics.median(values), 3) if values else None
