"""Writes docs/performance.md from the results files: every figure in it comes from one of them.

python benchmarks/write_performance.py [--check]
"""

import json
import sys
from pathlib import Path

from tilewright.bench.recorded import read
from tilewright.records import Comparison, Environment
from tilewright.wording import count

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"
EXECUTOR = RESULTS / "executor_cpu.json"

INTRODUCTION = """\
# Performance

Written by `benchmarks/write_performance.py` from the files in `benchmarks/results/`; losses included. Measured with
`benchmarks/measure_gpu.py`, which runs `tilewright run` on each operator. Times are medians of device time with a
cold L2, interleaved with the baselines in random order, in one process a shape; a ratio is the baseline's time over
ours (above 1 ours is faster), with a 95 % interval over blocks of that one process. bf16 unless a shape says otherwise.
"""

EXECUTOR_WORDS = """\
Measured with `benchmarks/measure_executor.py`: every check on, medians of six runs in one process with the TTIR
cached; the first run lowers it. The stock interpreter runs once, and checks nothing.
"""


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        current = PAGE.read_text() if PAGE.exists() else ""
        if current != text:
            print(f"{PAGE} is not what the results say: run python benchmarks/write_performance.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


def page() -> str:
    parts = [INTRODUCTION]
    for path in sorted(RESULTS.glob("*.json")):
        if path != EXECUTOR:
            environment, comparisons = read(path)
            parts.append(section(path, environment, comparisons))
    return "\n".join([*parts, executor_section()])


def executor_section() -> str:
    """The checked executor against the stock interpreter."""
    data = json.loads(EXECUTOR.read_text())
    made = data["environment"]
    where = f"{made['cpu']}, {count(data['threads'], 'thread')}, Python {made['python']}, torch {made['torch']}, "
    where += f"Triton {made['triton']}, NumPy {made['numpy']}, commit {made['commit']}, {made['when'][:10]}"
    lines = ["## The checked executor, on a CPU", "", f"`{EXECUTOR.name}`: {where}", "", EXECUTOR_WORDS]
    lines += ["| case | checked, s | first run, s | peak memory, GiB | stock interpreter, s | times its speed |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
    for row in data["rows"]:
        ours, stock = row["checked"], row["stock"]
        figures = f"{ours['seconds']:.3f} | {ours['first']:.2f} | {ours['peak_gib']:.2f} | {stock['seconds']:.1f}"
        lines.append(f"| {row['case']} | {figures} | {row['speedup']:.0f} |")
    lines += [
        "",
        "Time by number of programs (an add, blocks of 1024):",
        "",
        "| programs | seconds |",
        "| ---: | ---: |",
    ]
    lines += [f"| {row['programs']:,} | {row['seconds']:.4f} |" for row in data["decades"]]
    return "\n".join(lines) + "\n"


def section(path: Path, environment: Environment, comparisons: tuple[Comparison, ...]) -> str:
    """One results file: a table of each operator, in its default and in its tuned configurations."""
    lines = []
    for operator in dict.fromkeys(c.operator for c in comparisons):
        lines += [f"## {operator}", "", f"`{path.name}`: {described(environment)}", ""]
        own = [c for c in comparisons if c.operator == operator]
        for title, group in (
            ("Tuned", [c for c in own if c.config is not None]),
            ("As it comes, untuned", [c for c in own if c.config is None]),
        ):
            if group:
                lines += [f"{title}:", "", *table(group), ""]
    return "\n".join(lines)


def described(environment: Environment) -> str:
    words = [
        environment.chip,
        f"driver {environment.driver}",
        f"torch {environment.torch}",
        f"Triton {environment.triton}",
    ]
    return ", ".join([*words, f"ptxas {environment.ptxas}", f"commit {environment.commit}", environment.when[:10]])


def table(group: list[Comparison]) -> list[str]:
    baselines = list(dict.fromkeys(c.baseline for c in group))
    rows = [
        "| shape | ours, µs | rate | SM clock, MHz | " + " | ".join(f"vs {b}" for b in baselines) + " |",
        "| --- | ---: | ---: | ---: | " + " | ".join("---" for _ in baselines) + " |",
    ]
    for shape in dict.fromkeys(c.shape for c in group):
        own = {c.baseline: c for c in group if c.shape == shape}
        ours = next(iter(own.values())).ours
        cells = [ratio(own.get(baseline)) for baseline in baselines]
        rows.append(
            f"| {shape} | {1e6 * ours.median:,.1f} | {rate(ours)} | {ours.clock_mhz or ''} | "
            + " | ".join(cells)
            + " |"
        )
    configs = {c.shape: c.config for c in group if c.config is not None}
    return rows + ([""] + [f"- {shape}: `{config}`" for shape, config in configs.items()] if configs else [])


def rate(ours) -> str:
    flops, moved = ours.flops_per_second, ours.bytes_per_second
    if flops and (not moved or flops > 32 * moved):
        return f"{flops / 1e12:.0f} TFLOP/s"
    return f"{moved / 1e12:.2f} TB/s" if moved else ""


def ratio(comparison: Comparison | None) -> str:
    if comparison is None:
        return "does not apply"
    return f"{comparison.ratio:.2f} ({comparison.low:.2f}–{comparison.high:.2f}) {comparison.verdict}"


if __name__ == "__main__":
    sys.exit(main())
