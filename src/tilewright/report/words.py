"""Records in words and figures, for the terminal and for the page alike."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.records import (
    Case,
    CaseResult,
    Choice,
    Comparison,
    DebugReport,
    Disagreement,
    Edit,
    Environment,
    Finding,
    fault_key,
    finding_name,
)
from tilewright.wording import count as count
from tilewright.wording import part as part
from tilewright.wording import percent

# Escape sequences whole (CSI, OSC, two-character ones), then every other control character but the newline.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?|[\x00-\x09\x0b-\x1f\x7f-\x9f]"
)
_OF_ADDRESSES = ("out-of-bounds-read", "out-of-bounds-write", "redundant-write", "write-write-race", "read-write-race")
_SUBJECTLESS = ("reads ", "writes ", "stores ", "loads ", "adds ", "waits ")

CAUSES = {
    "missing-mask": "lanes take part that lie beyond the tensor",
    "wrong-bound": "a bound is off: it leaves out what belongs there, or lets in what does not",
    "wrong-neutral-element": "lanes that are masked off hold a value that counts",
    "padded-lanes-in-reduction": "lanes beyond the tensor are reduced together with the others",
    "low-precision-accumulation": "values are kept in a type too narrow for them",
    "reduced-precision-dot": "tf32 keeps ten bits of each operand's fraction",
    "integer-division-semantics": "// and % round towards zero in Triton, towards minus infinity in Python",
    "offset-overflow": "offsets of 32 bits wrap",
    "wrong-stride": "a stride is not the one of the dim it steps along",
    "not-contiguous": "the kernel takes a tensor to be contiguous, and it is not",
    "empty-row": "nothing is left of a row, whose maximum is -inf and whose sum is 0",
    "race": "programs of one launch run in any order",
    "uninitialized-memory": "memory is read that nobody has written",
    "loop-bound": "a loop ends one block early",
    "grid-too-small": "no program is launched for some elements",
}
"""What the causes of findings mean."""
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
SEVERITY_WORDS = {"error": "FAIL", "warning": "WARN", "note": "NOTE"}


def without_controls(text: str) -> str:
    """Text of a user's without the control characters that would steer a terminal; newlines stay."""
    return _ESCAPES.sub(" ", text)


def clean(text: object) -> str:
    """Text of a user's on one line, without control characters."""
    return " ".join(without_controls(str(text)).split())


def typed(target: str | Sequence[str]) -> str:
    """What a user types to name an operator: one word, or several where options belong to it."""
    return shlex.join(map(clean, [target] if isinstance(target, str) else target))


def clean_line(line: str) -> str:
    """A line of source: as it is, but for tabs and control characters."""
    return without_controls(line.expandtabs(4)).rstrip()


def place(file: str | None, line: int | None) -> str:
    """``file:line``, relative to the working directory where the file is below it."""
    if not file:
        return ""
    path = Path(file)
    cwd = Path.cwd()
    shown = os.path.relpath(path, cwd) if path.is_absolute() and path.is_relative_to(cwd) else str(path)
    return clean(f"{shown}:{line}" if line else shown)


# --------------------------------------------------------------------------------------------- findings


def severity(finding: Finding) -> str:
    """The word a finding starts with; our own limits are no fault of the kernel."""
    return "SKIP" if finding.kind == "unsupported" else SEVERITY_WORDS[finding.severity]


def message(finding: Finding) -> str:
    """What happened, with the programs and lanes that showed it."""
    text = clean(finding.message)
    if finding.program is None:
        return text
    program = f"program {_tuple(finding.program)}"
    if not text.startswith(_SUBJECTLESS):
        if finding.programs and finding.programs > 1:
            return f"{text}; {_programs_and_lanes(finding)}, first: {program}"
        return f"{text}; {'stored by' if finding.kind in ('mismatch', 'non-finite') else 'in'} {program}"
    if finding.programs and finding.programs > 1:
        return f"{_programs_and_lanes(finding)}; first: {program} {text}"
    return f"{program}, {count(finding.lanes, 'lane')}: {text}" if finding.lanes else f"{program} {text}"


def cause(finding: Finding) -> str | None:
    """The cause, where one is known, and what it means."""
    if not finding.cause or finding.cause == "unknown":
        return None
    meaning = CAUSES.get(finding.cause)
    return clean(finding.cause) + (f": {meaning}" if meaning else "")


def remedies(finding: Finding) -> list[str]:
    """The sets of edits that mend a kernel: a line that says what they do, then one for each edit."""
    lines = []
    for position, remedy in enumerate(finding.remedies):
        number = len(remedy.edits)
        what = "this edit" if number == 1 else f"{NUMBERS.get(number, number)} edits together"
        does = ("meets" if number == 1 else "meet") if remedy.cases else ("ends" if number == 1 else "end")
        where = "the case" if remedy.cases == 1 else f"all {remedy.cases} cases"
        head = f"{what} {does} the reference in {where}:" if remedy.cases else f"{what} {does} it:"
        if position:
            head = f"or, of another cause ({remedy.cause}):" if remedy.cause != finding.cause else "or:"
        lines += [head, *(f"  {_edit_place(edit, finding)}{clean(edit.text)}" for edit in remedy.edits)]
    return lines


def _edit_place(edit: Edit, finding: Finding) -> str:
    if edit.line is None:
        return ""
    return f"line {edit.line}  " if edit.file == finding.file else f"{place(edit.file, edit.line)}  "


def origin(finding: Finding) -> str | None:
    """Where the faulty value was made, if that is another line."""
    return None if finding.origin_line in (None, finding.line) else f"the value comes from line {finding.origin_line}"


def case_option(case: Case) -> str:
    """A case as ``--case`` takes it where no store knows its id: ``M=129,N=127,dtype=bf16``."""
    said = dict(case.arguments)
    said |= {"dtype": case.dtype} if case.dtype else {}
    said |= {"layout": case.layout} if case.layout != "contiguous" else {}
    said |= {"values": case.values} if case.values != "normal" else {}
    said |= {"seed": case.seed} if case.seed else {}
    return ",".join(f"{name}={value}" for name, value in said.items())


def variables(finding: Finding) -> str | None:
    """The kernel's scalars in play: ``where pid = 4, start = 128``."""
    if not finding.variables:
        return None
    shown = (
        f"{name} = {value:.6g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in finding.variables
    )
    return clean("where " + ", ".join(shown))


def tensor(finding: Finding) -> str:
    """The kernel's parameter, and the operator's name for it where that is another."""
    names = [name for name in (finding.tensor, finding.argument) if name]
    if len(names) == 2 and names[0] != names[1]:
        return clean(f"{names[0]} ({names[1]})")
    return clean(names[0]) if names else ""


def cases_showing(report: DebugReport, finding: Finding) -> int:
    """How many cases showed a fault."""
    key = fault_key(finding)
    return sum(any(fault_key(other) == key for other in result.findings) for result in report.results)


def smallest_case(report: DebugReport, finding: Finding, given: Mapping[Finding, Case] | None = None) -> Case | None:
    """The smallest case that shows a fault: the one given, else the report's own, else the first seen.

    The report names its findings by kind, tensor and line.
    """
    if given and finding in given:
        return given[finding]
    return report.smallest.get(finding_name(finding), finding.case)


def ordered(report: DebugReport) -> list[Finding]:
    """Each fault once: errors first, then warnings, notes, and our own limits.

    What is a warning in one case and an error in another is the error. An access that leaves its tensor, or meets
    another program's, because its offset wraps is told by the offset.
    """
    order = {"FAIL": 0, "WARN": 1, "NOTE": 2, "SKIP": 3}
    wrapped = {(f.severity, f.case, _spot(f)) for f in report.findings if f.kind == "offset-overflow"}
    found: dict[tuple[object, ...], Finding] = {}
    for finding in sorted(report.findings, key=lambda f: order[severity(f)]):
        if finding.kind not in _OF_ADDRESSES or (finding.severity, finding.case, _spot(finding)) not in wrapped:
            found.setdefault((finding.kind, _spot(finding)), finding)
    return list(found.values())


def _spot(finding: Finding) -> tuple[object, ...]:
    """Where a fault is, and in what tensor."""
    return finding.tensor or finding.argument, finding.file, finding.line


def verdict(report: DebugReport) -> tuple[str, str]:
    """``PASS``, ``FAIL`` or ``INCOMPLETE``, and the figures behind it."""
    cases = len(report.results)
    seconds = sum(result.seconds for result in report.results)
    tail = f"{count(sum(r.launches for r in report.results), 'launch', 'launches')}, {seconds:.1f} s, {clean(report.executor)}"
    if report.errors:
        keys = {fault_key(finding) for finding in report.errors}
        hit = sum(any(fault_key(f) in keys for f in result.findings) for result in report.results)
        return "FAIL", f"{count(len(report.errors), 'error')}, in {part(hit, cases, 'case')}; {tail}"
    limits = sum(finding.kind == "unsupported" for finding in report.findings)
    if not report.complete or limits or not cases:
        return "INCOMPLETE", f"nothing wrong in {count(cases, 'case')}, but not all could be looked at; {tail}"
    worst = [r.error_over_tolerance for r in report.results if r.error_over_tolerance is not None]
    words = f"worst error {max(worst):.2g} of the tolerance, " if worst else "values not compared, "
    warnings = sum(finding.severity == "warning" for finding in report.findings)
    said = f"{count(warnings, 'warning')}, " if warnings else ""
    return "PASS", f"{count(cases, 'case')}, {said}{words}{tail}"


def worst_disagreement(report: DebugReport) -> tuple[Case, Disagreement] | None:
    """The disagreement whose tiles say most: of an error, not wrong everywhere, the furthest over its tolerance."""
    found = [(r, d) for r in report.results for d in r.disagreements if d.kind == "value" and len(d.tiles) > 1]

    def telling(pair: tuple[CaseResult, Disagreement]) -> tuple[bool, bool, float, int]:
        result, one = pair
        is_error = any(f.severity == "error" for f in result.findings)
        return is_error, any(tile <= 1 for tile in one.tiles), one.worst_over_tolerance, one.wrong

    best = max(found, key=telling, default=None)
    return None if best is None else (best[0].case, best[1])


def tile_rows(found: Disagreement) -> list[str]:
    """The tile map as text: one character a tile, ``.`` right, ``#`` wrong."""
    rows, columns = found.tile_grid
    # `not <= 1` and not `> 1`: a NaN is wrong too.
    return ["".join("." if found.tiles[r * columns + c] <= 1 else "#" for c in range(columns)) for r in range(rows)]


# ---------------------------------------------------------------------------------------------- figures


def microseconds(seconds: float | None) -> str:
    """Seconds as a figure in µs, to three digits or whole."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    value = seconds * 1e6
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.3g}" if value < 100 else f"{value:.1f}"


def duration(seconds: float | None) -> str:
    """A wall time a person waited."""
    if seconds is None:
        return ""
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def interval(low: float, high: float) -> str:
    """An interval of ratios; one without an upper end is none."""
    return f"{low:.3f}–{high:.3f}" if math.isfinite(high) and low > 0 else "too few samples"


def change(ratio: float | None) -> str:
    """By how much an operator became faster or slower at a change point."""
    if ratio is None:
        return ""
    return f"{percent(ratio - 1)} faster" if ratio > 1 else f"{percent(1 / ratio - 1)} slower"


def plan_lines(comparison: Comparison) -> list[str]:
    """What a comparison's plan was, and what it made of a call that is slower by a known share."""
    if not comparison.plan or comparison.margin is None:
        return []
    margin = percent(comparison.margin)
    number = len(comparison.processes)
    seen = "" if number > 1 else "; what another process would say is allowed for, not measured: --gate measures it"
    lines = [f"{comparison.shape}: {count(number, 'process', 'processes')}, margin {margin}{seen}"]
    if comparison.control_ratio is not None and comparison.slowdown is not None:
        known, found = percent(comparison.slowdown), percent(comparison.control_ratio - 1)
        lines.append(f"{comparison.shape}: a call made {known} slower measured {found} slower")
    return lines


def environment(env: Environment) -> str:
    """What numbers were obtained on, in one line; what is not known is left out."""
    clock = f"at most {env.max_clock_mhz} MHz" if env.max_clock_mhz else None  # the clock of an idle chip says nothing
    parts = [
        f"{env.chip} ({env.arch})" if env.arch else env.chip,
        f"driver {env.driver}" if env.driver else None,
        clock,
        f"{env.power_limit_watts:.0f} W" if env.power_limit_watts else None,
        f"torch {env.torch}" if env.torch else "no torch",
        f"triton {env.triton}" if env.triton else "no Triton",
        f"ptxas {env.ptxas}" if env.ptxas else None,
        f"python {env.python}",
        "tilewright from a checkout" if env.tilewright == "not installed" else f"tilewright {env.tilewright}",
        f"commit {env.commit[:10]}" if env.commit else None,
        env.when[:16].replace("T", " "),
    ]
    return clean(", ".join(part for part in parts if part))


def choice(made: Choice) -> str:
    """A tuned answer, and what is known of its worth."""
    words = [clean(str(made.config) or "the kernel as it is")]
    if made.median_seconds is not None:
        words.append(f"{microseconds(made.median_seconds)} µs")
        if made.default_seconds:
            ratio = made.default_seconds / made.median_seconds
            words.append(f"default {microseconds(made.default_seconds)} µs ({ratio:.2f}x)")
    certificate = made.certificate
    if "space" in certificate:
        words.append(f"{certificate.get('timed', 0)} of {certificate['space']} timed")
    regret = certificate.get("regret")
    if isinstance(regret, float) and regret > 0:
        words.append(
            f"at most {100 * regret:.2g} % slower than the best of them at {100 * certificate['confidence']:.0f} % confidence"
        )
    ties = certificate.get("ties")
    if isinstance(ties, Sequence) and not isinstance(ties, str) and ties:
        words.append(f"{count(len(ties), 'other')} as fast within the noise")
    return ", ".join(words)


def _programs_and_lanes(finding: Finding) -> str:
    words = count(finding.programs, "program")
    return f"{words}, {count(finding.lanes, 'lane')}" if finding.lanes else words


def _tuple(values: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, values)) + ")"
