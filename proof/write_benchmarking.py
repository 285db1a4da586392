"""Puts the study's figures into docs/benchmarking.md, between its two marks.

python proof/write_benchmarking.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarking.md"
RESULTS = ROOT / "proof" / "results" / "verdicts.json"
START, END = "<!-- study -->\n", "<!-- end of study -->"


def main() -> int:
    current = PAGE.read_text()
    before, _, rest = current.partition(START)
    text = before + START + tables(json.loads(RESULTS.read_text())) + END + rest.partition(END)[2]
    if "--check" in sys.argv:
        if current != text:
            print(f"{PAGE} is not what the results say: run python proof/write_benchmarking.py", file=sys.stderr)
        return int(current != text)
    PAGE.write_text(text)
    return 0


def tables(data: dict[str, Any]) -> str:
    figures, made = data["figures"], data["environment"]
    parts = [
        f"`proof/results/verdicts.json`: {figures['plans']} plans in each figure, {figures['seconds']} s of processor time, "
        f"commit {made['commit']}, {made['when'][:10]}.",
        "**Gate.**\n\n" + our_table(figures, "gate", (0.01, 0.02)),
        "**Quick**, which has one process for all of it: it makes nothing up, and leaves undecided what is too noisy for it.\n\n"
        + our_table(figures, "quick", (0.02, 0.04)),
        "**The rules of others**, one process a verdict (nvbench two), 160 samples a side: called different though the same, "
        "then 1 % found, in per cent. `do_bench`: the medians of both sides, one after the other, different by 0.5 % or more. "
        "Mann-Whitney: p < 0.05 on single launches. nvbench: `nvbench_compare_robust.py`, default thresholds; in brackets how often "
        "it calls 1 % the same.\n\n" + rival_table(figures),
        "**The hardest truth**, a difference of just the margin, so that any claim of one is wrong: claimed by gate at most "
        f"{worst(figures, 'faster')} % of the time, and by someone who looks after 6, 10 and 16 processes and stops when one "
        f"claims it {worst(figures, 'claims_when_peeking')} %.",
        runs_line(figures),
        "**95 % intervals over few processes**, how often they hold the truth, in per cent:\n\n"
        + interval_table(figures),
    ]
    return "\n" + "\n\n".join(parts) + "\n\n"


def our_table(figures: dict[str, Any], plan: str, slowdowns: tuple[float, float]) -> str:
    rows = [row for row in figures["ours"] if row["plan"] == plan]
    lines = [
        "| machine | the same: SAME, UNDECIDED, wrong (%) | "
        + " | ".join(f"{100 * s:.0f} % found (%)" for s in slowdowns)
        + " | interval holds the truth (%) | half-width (%) | processes |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for machine in machines(figures):
        by = {row["slowdown"]: row for row in rows if row["machine"] == machine}
        same = by[0.0]
        wrong = same["faster"] + same["slower"]
        found = " | ".join(percent(by[s]["faster"]) for s in slowdowns)
        coverage = [row["coverage"] for row in by.values()]
        lines.append(
            f"| {machine} | {percent(same['same'])}, {percent(same['undecided'])}, {percent(wrong)} | {found} | "
            f"{percent(min(coverage))} to {percent(max(coverage))} | {100 * same['half_width']:.2f} | {same['processes']:.1f} |"
        )
    return "\n".join(lines)


def rival_table(figures: dict[str, Any]) -> str:
    rules = list(dict.fromkeys(row["rule"] for row in figures["rivals"]))
    lines = ["| machine | " + " | ".join(rules) + " |", "| --- |" + " ---: |" * len(rules)]
    for machine in machines(figures):
        cells = []
        for rule in rules:
            by = {r["slowdown"]: r for r in figures["rivals"] if r["rule"] == rule and r["machine"] == machine}
            wrong = by[0.0]["faster"] + by[0.0]["slower"]
            same = f" ({percent(by[0.01]['same'])})" if rule == "nvbench" else ""
            cells.append(f"{percent(wrong)}, {percent(by[0.01]['faster'])}{same}")
        lines.append(f"| {machine} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def runs_line(figures: dict[str, Any]) -> str:
    rows = figures["runs"]
    total = sum(row["runs"] for row in rows)
    wrong = sum(round(row["runs_with_a_false_verdict"] * row["runs"]) for row in rows)
    found = min(row["found"] for row in rows if row["found"] is not None)
    return (
        f"**Runs of {rows[0]['shapes']} shapes** judged together: {wrong} of {total} runs with any false verdict; the one shape "
        f"that was 1 % slower found in {percent(found)} % of the runs that had one."
    )


def interval_table(figures: dict[str, Any]) -> str:
    lines = ["| processes | Student's t, as used | percentile bootstrap |", "| ---: | ---: | ---: |"]
    lines += [
        f"| {row['processes']} | {percent(row['students_t'])} | {percent(row['percentile_bootstrap'])} |"
        for row in figures["intervals"]
    ]
    return "\n".join(lines)


def worst(figures: dict[str, Any], name: str) -> str:
    margin = 0.005
    return percent(max(r[name] for r in figures["ours"] if r["plan"] == "gate" and r["slowdown"] == margin))


def machines(figures: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["machine"] for row in figures["ours"]))


def percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


if __name__ == "__main__":
    raise SystemExit(main())
