"""The report as one HTML file that needs nothing else: no script, no style sheet, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined
from markupsafe import Markup

import tilewright
from tilewright.errors import StoreUnusable
from tilewright.records import Case, Change, Comparison, DebugReport, Environment, Finding, Timing, Trial
from tilewright.report import plots, tables, words

CONTEXT_LINES = 4
"""Lines of source shown above and below a faulty one."""


@dataclass(frozen=True)
class ReportData:
    """What a page shows; parts that are empty are left out.

    ``debug`` holds reports with what the user called the operator; ``trials`` lists by heading (operator
    and shape), then by target; ``recorded`` results of other machines with their label; ``sources`` the
    texts of the files that findings name; ``smallest`` cases of findings, where not in the reports.
    """

    title: str
    environment: Environment
    debug: Sequence[tuple[str | Sequence[str], DebugReport]] = ()
    trials: Mapping[str, Mapping[str, Sequence[Trial]]] = field(default_factory=dict)
    comparisons: Sequence[Comparison] = ()
    changes: Sequence[Change] = ()
    recorded: Sequence[tuple[str, Environment, Sequence[Comparison]]] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    smallest: Mapping[Finding, Case] = field(default_factory=dict)


def write(path: str | Path, sections: ReportData) -> Path:
    """Writes the page, making its folder, and returns its path.

    Raises:
        StoreUnusable: the folder or file cannot be written.
    """
    path = Path(path)
    text = render(sections)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        what = f"cannot write the report {path}: {error.strerror or error}"
        raise StoreUnusable(what, "choose another file with --html PATH") from None
    return path


def render(sections: ReportData) -> str:
    """The page as text."""
    templates = Templates(
        loader=PackageLoader("tilewright.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = templates.get_template("report.html.j2")
    return page.render(
        title=words.clean(sections.title),
        environment=_environment_rows(sections.environment),
        debug=[_debug_section(target, report, sections) for target, report in sections.debug],
        trials=[_trial_section(heading, by_target) for heading, by_target in sections.trials.items() if by_target],
        comparisons=_comparison_sections(sections.comparisons),
        changes=[_change_section(group) for group in _by_reference(sections.changes)],
        recorded=[
            {"label": words.clean(label), "environment": words.environment(env), "parts": _comparison_sections(found)}
            for label, env, found in sections.recorded
        ],
        notes=[words.clean(note) for note in sections.notes],
        version=tilewright.__version__,
    )


def _shown(value: Any) -> Any:
    """What a page says of a value: a control character in a user's text has no place in it."""
    return words.without_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# ------------------------------------------------------------------------------------------------ debug


def _debug_section(target: str | Sequence[str], report: DebugReport, sections: ReportData) -> dict[str, Any]:
    verdict, figures = words.verdict(report)
    worst = words.worst_disagreement(report)
    return {
        "operator": report.operator,
        "target": words.clean(target if isinstance(target, str) else target[0]),
        "verdict": verdict,
        "figures": figures,
        "findings": [_finding(finding, target, report, sections) for finding in words.ordered(report)],
        "tile_map": Markup(plots.tile_map(worst[1])) if worst else "",
        "tile_case": words.clean(worst[0].label) if worst else "",
        "notes": [words.clean(note) for note in report.notes],
        "cases": [
            {
                "label": words.clean(result.case.label),
                "id": result.case.id,
                "findings": words.clean(", ".join(dict.fromkeys(f.kind for f in result.findings))),
                "error": "" if result.error_over_tolerance is None else f"{result.error_over_tolerance:.3g}",
                "seconds": f"{result.seconds:.2f}",
            }
            for result in report.results
        ],
    }


def _finding(
    finding: Finding, target: str | Sequence[str], report: DebugReport, sections: ReportData
) -> dict[str, Any]:
    smallest = words.smallest_case(report, finding, sections.smallest)
    return {
        "word": words.severity(finding),
        "kind": finding.kind,
        "tensor": words.tensor(finding),
        "place": words.place(finding.file, finding.line),
        "message": words.message(finding),
        "origin": words.origin(finding),
        "variables": words.variables(finding),
        "cause": words.cause(finding),
        "remedies": words.remedies(finding),
        "remedy": words.clean(finding.remedy) if finding.remedy and not finding.remedies else None,
        "seen": "in " + words.part(words.cases_showing(report, finding), len(report.results), "case"),
        "smallest": words.clean(smallest.label) if smallest else None,
        "again": f"tilewright debug {words.typed(target)} --case {words.typed(words.case_option(smallest))}"
        if smallest
        else None,
        "excerpt": excerpt(finding, sections.sources),
    }


def excerpt(finding: Finding, sources: Mapping[str, str]) -> list[tuple[int, str, bool]]:
    """Lines around a faulty one: number, text, and whether it is the one.

    Where the file's text is not given or has changed, the line that the finding itself holds.
    """
    if finding.line is None:
        return []
    own = words.clean_line(finding.source or "").strip()
    lines = sources.get(finding.file or "", "").splitlines()
    if finding.line > len(lines) or (own and words.clean_line(lines[finding.line - 1]).strip() != own):
        return [(finding.line, own, True)] if own else []
    first = max(finding.line - CONTEXT_LINES, 1)
    shown = lines[first - 1 : finding.line + CONTEXT_LINES]
    return [(number, words.clean_line(line), number == finding.line) for number, line in enumerate(shown, first)]


# ------------------------------------------------------------------------------------- trials and timings


def _trial_section(heading: str, by_target: Mapping[str, Sequence[Trial]]) -> dict[str, Any]:
    parts = []
    for target, trials in by_target.items():
        for table, group in tables.trial_groups(trials, target):
            parts.append({"table": table, "plot": Markup(plots.trial_bars(group))})
    return {"heading": words.clean(heading), "parts": parts}


def _comparison_sections(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Each table with its ratios, and the samples of each shape."""
    sections = []
    for table, group in tables.comparison_groups(comparisons):
        sides = _sides(group)
        samples = [Markup(plots.distribution(t) + plots.course(t)) for t in sides.values()]
        shapes = [words.clean(shape) for shape, _ in sides]
        sections.append(
            {
                "table": table,
                "plot": Markup(plots.ratio_intervals(group)),
                "samples": list(zip(shapes, samples, strict=True)),
            }
        )
    return sections


def _by_reference(changes: Sequence[Change]) -> list[list[Change]]:
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.operator, change.against), []).append(change)
    return list(groups.values())


def _change_section(group: Sequence[Change]) -> dict[str, Any]:
    return {"table": tables.changes(group), "plot": Markup(plots.change_intervals(group)), "samples": []}


def _sides(group: Sequence[Comparison]) -> dict[tuple[str, str], list[Timing]]:
    """Our timing and the baselines' of each shape, where there are samples to draw."""
    sides: dict[tuple[str, str], list[Timing]] = {}
    for comparison in group:
        if comparison.ours.samples:
            timings = sides.setdefault((comparison.shape, comparison.case.id), [comparison.ours])
            timings.append(comparison.theirs)
    return sides


def _environment_rows(env: Environment) -> list[tuple[str, str]]:
    clock = None if env.clock_mhz is None else f"{env.clock_mhz} MHz"
    if clock and env.max_clock_mhz:
        clock += f", at most {env.max_clock_mhz} MHz"
    power = None if env.power_limit_watts is None else f"{env.power_limit_watts:.0f} W"
    rows = [
        ("chip", f"{env.chip} ({env.arch})" if env.arch else env.chip), ("driver", env.driver), ("clock", clock),
        ("power limit", power), ("cpu", f"{env.cpu}, {words.count(env.cpu_count, 'core')}"), ("python", env.python),
        ("torch", env.torch), ("triton", env.triton), ("cuda", env.cuda), ("ptxas", env.ptxas), ("numpy", env.numpy),
        ("tilewright", env.tilewright), ("commit", env.commit), ("when", env.when),
    ]  # fmt: skip
    return [(name, words.clean(value)) for name, value in rows if value]
