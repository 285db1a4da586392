"""Writes docs/mutants.md from proof/results/mutants.json: every figure in it comes from there.

python proof/write_mutants.py [--check]
"""

import json
import sys
from pathlib import Path

from mutation.mutations import KINDS

from tilewright.wording import count

PROJECT = Path(__file__).parent.parent
RESULTS = PROJECT / "proof" / "results" / "mutants.json"
PAGE = PROJECT / "docs" / "mutants.md"

INTRODUCTION = """\
# Faults made on purpose

Written by `proof/write_mutants.py` from `proof/results/mutants.json`, which `proof/test_mutants.py` makes. Right
kernels, each of which passes the default cases, are changed in one place by a program (`proof/mutation/`), and the
default cases are run on each mutant. What the columns say:

- **refused**: Triton does not compile it. **set aside**: no input tells it from the original; looked at by hand, each
  with its reason below. **missed**, **found**: without or with a finding of severity error. **noted**: said, but not as
  an error: with one conversion to 64 bits gone, a kernel that had no other is one of those that end at 32-bit offsets.
- **at the line**: of those found, a finding or an edit of its remedy names the mutated line; the line that reads what
  that line assigns; or the first load, store, atomic, product or reduction that this value reaches (in brackets: each).
- **remedy**: of those found, how many print edits, and for how many all of these are right: made in the mutant they
  give back the original, or a kernel that passes the cases.
"""


def main() -> int:
    text = page(json.loads(RESULTS.read_text()))
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != text:
            print(f"{PAGE} is not what the results say: run python proof/write_mutants.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


def page(data: dict) -> str:
    figures, made = data["figures"], data["environment"]
    where = f"{made['cpu']}, Python {made['python']}, torch {made['torch']}, Triton {made['triton']}, "
    where += f"commit {made['commit']}, {made['when'][:10]}"
    mutants = figures["mutants"]
    names = list(dict.fromkeys(m["operator"] for m in mutants))
    parts = [
        INTRODUCTION,
        f"{where}.\n",
        table(figures),
        "\n## Operators\n",
        ", ".join(f"`{name}` {sum(m['operator'] == name for m in mutants)}" for name in names) + ".",
        "\n## Missed\n",
        listed([m for m in mutants if m["outcome"] in ("missed", "noted")], lambda m: m["outcome"]),
        "\n## Remedies that are not right\n",
        listed([m for m in mutants if wrong_remedies(m)], wrong_remedies),
        "\n## Set aside\n",
        listed([m for m in mutants if m["outcome"] == "set aside"], lambda m: m["reason"]),
    ]
    return "\n".join(parts) + "\n"


def table(figures: dict) -> str:
    heads = "| | made | refused | set aside | missed | noted | found | at the line (mutated, use, access) | remedy printed | right |"
    lines = [heads, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    lines += [row(words, figures["kinds"][kind]) for kind, words in KINDS.items()]
    return "\n".join([*lines, row(f"all, {count(figures['operators'], 'operator')}", figures["total"])])


def row(words: str, figures: dict) -> str:
    near = ", ".join(str(figures.get(f"nearest: {name}", 0)) for name in ("mutated", "use", "access"))
    of = sum(figures.get(name, 0) for name in ("found", "missed", "noted"))
    cells = [figures.get(name, 0) for name in ("made", "refused", "set aside", "missed", "noted")]
    cells += [f"{figures.get('found', 0)} ({share(figures.get('found', 0), of)})"]
    cells += [
        f"{figures.get('at the line', 0)} ({near}; {share(figures.get('at the line', 0), figures.get('found', 0))})"
    ]
    printed, right = figures.get("remedy printed", 0), figures.get("remedy right", 0)
    return f"| {words} | " + " | ".join(map(str, [*cells, printed, f"{right} ({share(right, printed)})"])) + " |"


def share(part: int, total: int) -> str:
    return f"{100 * part / total:.0f} %" if total else "–"


def wrong_remedies(mutant: dict) -> str:
    right = ("undone", "passes", "by hand, right")
    return "; ".join(f"{text} ({how})" for text, how in mutant.get("remedies", {}).items() if not how.startswith(right))


def listed(mutants: list[dict], more=lambda mutant: "") -> str:
    lines = ["| operator | mutation | line | |", "| --- | --- | --- | --- |"]
    for m in mutants:
        cells = [m["operator"], m["mutation"], f"`{m['line'][:120]}`", more(m)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) if mutants else "None."


if __name__ == "__main__":
    sys.exit(main())
