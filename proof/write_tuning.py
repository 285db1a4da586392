"""Puts the figures of the search and its certificate into docs/tuning.md, between its two marks.

python proof/write_tuning.py [--check]
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tuning.md"
RESULTS = ROOT / "proof" / "results"
START, END = "<!-- search study -->\n", "<!-- end of search study -->"
WORST = 0.95


def main() -> int:
    current = PAGE.read_text()
    before, _, rest = current.partition(START)
    text = before + START + tables(*read()) + END + rest.partition(END)[2]
    if "--check" in sys.argv:
        if current != text:
            print(f"{PAGE} is not what the results say: run python proof/write_tuning.py", file=sys.stderr)
        return int(current != text)
    PAGE.write_text(text)
    return 0


def read() -> list[dict[str, Any]]:
    """The results of the three studies."""
    return [json.loads((RESULTS / f"{name}.json").read_text()) for name in ("replay", "ablation", "certificates")]


def tables(search: dict[str, Any], ablation: dict[str, Any], certificates: dict[str, Any]) -> str:
    figures, made = search["figures"], search["environment"]
    large = [row for row in figures["truths"] if row["points"] > 2 * figures["budget"]]
    parts = [
        f"`proof/results/replay.json`, commit {made['commit']}, {made['when'][:10]}; seeds from {figures['first seed']} on. "
        "Fraction of the exhaustive best, mean over seeds / worst seed.",
        f"**Names scrambled**, after {figures['budget']} evaluations; of Kernel Tuner 1.5 the strategy with the best mean "
        f"on that truth ({rival(large[0])[1]['seeds']} seeds), which nobody knows beforehand:\n\n"
        + scrambled_table(large),
        "**With the analytic model**, and with each of its predictions off by log-normal noise "
        f"(sigma {figures['sigma']}, drawn anew for each seed):\n\n" + model_table(figures["truths"]),
        shortfalls(large),
        f"**What each part is worth**: the search without it, names scrambled, after {figures['budget']} evaluations, "
        f"{ablation['figures']['seeds']} seeds (`proof/results/ablation.json`), over truths that the search was shaped on "
        "and over those held out:\n\n" + ablation_table(ablation["figures"]["truths"]),
        "**The stated regret**, at 90 % confidence, names scrambled (`proof/results/certificates.json`):\n\n"
        + regret_table(certificates["figures"]),
    ]
    return "\n" + "\n\n".join(parts) + "\n\n"


def pair(found: dict[str, Any], at: int) -> str:
    return f"{found[f'mean at {at}']:.3f} / {found[f'worst at {at}']:.3f}"


def rival(row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The strategy of Kernel Tuner that did best on a truth."""
    found = {name: one for name, one in row["searches"].items() if name.startswith("Kernel Tuner ")}
    name = max(found, key=lambda name: found[name]["mean at 30"])
    return name.removeprefix("Kernel Tuner "), found[name]


def scrambled_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| truth | points | held out | ours | random | Kernel Tuner's best |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        name, theirs = rival(row)
        ours, chance = (pair(row["searches"][way], 30) for way in ("ours, names scrambled", "random"))
        held = "" if row["shaped on"] else "yes"
        lines.append(f"| {row['truth']} | {row['points']} | {held} | {ours} | {chance} | {pair(theirs, 30)} {name} |")
    return "\n".join(lines)


def model_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| truth | points | ours, 15 | the model's order alone, 15 | ours, spoiled, 30 | a spoiled model's order alone, 30 |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        found = row["searches"]
        if "ours, with the model" not in found:
            continue
        cells = [pair(found["ours, with the model"], 15), pair(found["the model's order alone"], 15)]
        for way in ("ours, with a spoiled model", "a spoiled model's order alone"):
            cells.append(pair(found[way], 30) if row["points"] > 30 else "all measured")
        lines.append(f"| {row['truth']} | {row['points']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shortfalls(rows: list[dict[str, Any]]) -> str:
    """Where the aim (a mean of 0.98, a worst seed of 0.95) is not met with names scrambled."""
    ours = [(row["truth"], row["searches"]["ours, names scrambled"]) for row in rows]
    short = [name for name, found in ours if found["mean at 30"] < 0.98 or found["worst at 30"] < WORST]
    said = "; ".join(short) or "none"
    return f"**Not reached** with names scrambled (a mean of 0.98 and {WORST} with each seed, after 30): {said}."


def ablation_table(rows: list[dict[str, Any]]) -> str:
    """Mean over truths of the mean and of the worst seed, of both kinds of truths."""
    lines = ["| search | shaped on: mean / worst | held out: mean / worst |", "| --- | ---: | ---: |"]
    for name in rows[0]["variants"]:
        cells = []
        for shaped in (True, False):
            found = [row["variants"][name] for row in rows if row["shaped on"] == shaped]
            cells.append(
                " / ".join(f"{statistics.fmean(one[word] for one in found):.3f}" for word in ("mean", "worst"))
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def regret_table(figures: dict[str, Any]) -> str:
    lines = [
        "| | runs | true regret within the stated | stated, median | true, mean | true, worst | measured, mean |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    groups = {"recorded trials": figures["all"], **figures["landscapes"]}
    for name, looks in groups.items():
        for when, look in looks.items():
            cells = [f"{100 * look[word]:.1f} %" for word in ("covered", "stated median", "true mean", "true worst")]
            lines.append(f"| {name}, {when} | {look['runs']} | {' | '.join(cells)} | {look['measured mean']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
