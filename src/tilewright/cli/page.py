"""The HTML report of a run, from what its stages returned."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.cli.common import Session
from tilewright.records import DebugReport


def write(
    path: Path,
    session: Session,
    title: str,
    *,
    debug: Sequence[tuple[str | Sequence[str], DebugReport]] = (),
    tune: Sequence[Any] = (),
    bench: Sequence[Any] = (),
    changes: Sequence[Any] = (),
    recorded: Sequence[Any] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Writes one self-contained page and returns its path."""
    html = importlib.import_module("tilewright.report.html")
    trials: dict[str, dict[str, list[Any]]] = {}
    for report in tune:
        for (shape, chip), found in report.trials.items():
            trials.setdefault(f"{report.operator}, {shape}", {})[chip] = list(found)
    data = html.ReportData(
        title=title,
        environment=session.environment,
        debug=list(debug),
        trials=trials,
        comparisons=[comparison for report in bench for comparison in report.comparisons],
        changes=list(changes),
        recorded=list(recorded),
        sources=_sources([report for _, report in debug]),
        notes=list(notes),
    )
    written: Path = html.write(path, data)
    return written


def _sources(reports: Sequence[DebugReport]) -> Mapping[str, str]:
    files = {finding.file for report in reports for finding in report.findings if finding.file}
    return {file: Path(file).read_text() for file in files if Path(file).is_file()}
