"""What a terminal and a pipe get to see."""

import dataclasses
import io
import math
import re
import subprocess
import sys

import pytest
import report_samples as samples
from rich.text import Text

from tilewright.errors import NoGpu
from tilewright.records import (
    Case,
    CaseDone,
    CaseResult,
    Config,
    DebugReport,
    Edit,
    Finding,
    Note,
    Progress,
    Remedy,
    StageFinished,
    StageReport,
    StageStarted,
    Tried,
)
from tilewright.report import terminal, words
from tilewright.report.console import Console

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def plain():
    """A console on a pipe, and how to read what came out of it."""
    stream = io.StringIO()
    console = Console(stream)
    console.said = stream.getvalue
    return console


@pytest.fixture
def wide(monkeypatch):
    return on_terminal(monkeypatch, 140)


def on_terminal(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    console = Console(stream)
    console.said = stream.getvalue
    return console


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def show_everything(console):
    console.handle(StageStarted("debug", "attention", 3, "the stock interpreter"))
    console.handle(Progress("debug", 1, "M1 N1"))
    console.debug_report(samples.failing_report(), "my_attention.py")
    console.debug_report(samples.incomplete_report(), "rope")
    console.trials(samples.measured_trials())
    console.comparisons(samples.comparisons())
    console.runs(samples.runs())
    console.environment(samples.H100)
    console.choice("prefill", samples.choice())
    console.line("report: report.html")
    console.close()


# ----------------------------------------------------------------------------------------------- streams


def test_a_pipe_gets_no_control_character(plain):
    assert plain.plain
    show_everything(plain)
    assert "\x1b" not in plain.said()
    assert not CONTROL.search(plain.said())


def test_a_terminal_gets_colour_and_keeps_its_cursor(wide):
    assert not wide.plain
    show_everything(wide)
    assert "\x1b[1;31mFAIL" in wide.said().replace("\x1b[1;31m FAIL", "\x1b[1;31mFAIL")
    assert wide.said().count("\x1b[?25l") == wide.said().count("\x1b[?25h") == 1


def test_plain_can_be_asked_for_on_a_terminal_and_is_taken_where_it_is_dumb(monkeypatch):
    stream = Terminal()
    show_everything(Console(stream, plain=True))
    assert "\x1b" not in stream.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert Console(Terminal()).plain


def test_what_a_user_wrote_neither_steers_the_terminal_nor_is_markup(wide, plain):
    nasty = "x = 1  # \x1b[31mred\x1b[0m \x1b]0;title\x07 [bold]b[/bold] \x08\x00 :smile: [link=u]"
    finding = dataclasses.replace(
        samples.read_fault(), source=nasty, message="reads k[0]\x1b[2J", cause=nasty, remedy=nasty
    )
    for console in (wide, plain):
        console.finding(finding)
        console.line(nasty)
        shown = without_colours(console.said())
        assert "x = 1 # red [bold]b[/bold] :smile: [link=u]" in shown
        assert not CONTROL.search(shown)
    assert "\x1b[2J" not in wide.said()


def test_a_stream_that_knows_no_greek_gets_a_substitute():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Console(stream).trials(samples.predicted_trials())
    stream.flush()
    assert b"41.2 ?s" in raw.getvalue()


# ------------------------------------------------------------------------------------------------ events


def test_a_pipe_gets_a_line_a_stage_and_none_for_progress(plain):
    plain.handle(StageStarted("debug", "attention", 300, "the stock interpreter"))
    for done in range(300):
        plain.handle(Progress("debug", done, f"case {done}"))
        plain.handle(CaseDone(CaseResult(samples.SMALL, (samples.read_fault(),))))
    plain.handle(StageStarted("tune", "attention", None, "prefill on h100: 48 configurations"))
    for trial in samples.predicted_trials():
        plain.handle(Tried(trial))
    plain.close()
    assert plain.said().splitlines() == [
        "debug attention: 300 cases, the stock interpreter",
        "tune attention: prefill on h100: 48 configurations",
    ]


def test_a_terminal_sees_where_a_stage_is_and_nothing_of_it_after(wide):
    wide.handle(StageStarted("debug", "attention", 3, "the stock interpreter"))
    wide.handle(Progress("debug", 2, "M1 [bold]N1"))
    wide._live.refresh()
    assert "debug attention" in without_colours(wide.said())
    assert "2/3" in without_colours(wide.said())
    assert "M1 [bold]N1" in without_colours(wide.said())
    wide.line("done")
    assert wide._live is None
    assert wide.said().endswith("done\n")
    assert "\x1b[2K" in wide.said()  # the live line was wiped


def test_a_stage_of_unknown_length_has_no_bar(wide):
    wide.handle(StageStarted("tune", "attention", None, "48 configurations"))
    wide.handle(Progress("tune", 7, "compiling, 7 of 48"))
    wide._live.refresh()
    wide.close()
    assert "compiling, 7 of 48" in without_colours(wide.said())
    assert "/None" not in without_colours(wide.said())


def test_notes_and_the_end_of_a_stage_are_lines(plain):
    plain.handle(Note("decode: baseline flash does not apply"))
    plain.handle(StageFinished(StageReport("debug", "attention", "passed", 0, "22 cases")))
    assert plain.said().splitlines() == [
        "note: decode: baseline flash does not apply",
        "debug attention  passed  22 cases",
    ]


def test_quiet_keeps_to_what_is_asked_for():
    stream = io.StringIO()
    console = Console(stream, quiet=True)
    console.handle(StageStarted("debug", "attention", 3))
    console.handle(Note("something"))
    assert stream.getvalue() == ""
    console.debug_report(samples.passing_report(), "x.py")
    assert stream.getvalue().startswith(" PASS  masked_softmax")


# ---------------------------------------------------------------------------------------------- findings


def test_a_finding_says_what_where_why_and_how_to_see_it_again(plain, monkeypatch):
    plain.finding(samples.read_fault(), seen="in 2 of 3 cases", smallest=samples.SMALL, target="my_attention.py")
    assert plain.said().splitlines() == [
        ' FAIL  out-of-bounds-read  k_ptr (k)   my_attention.py:10   k = tl.load(k_ptrs) # <script>alert(1)</script> & "quotes"',
        "       2 programs, 128 lanes; first: program (1, 0, 0) reads k[0, 0, 127, 0], but k has shape 1x2x127x64; 1 element past its end",
        "       in 2 of 3 cases",
        "       cause  missing-mask: lanes take part that lie beyond the tensor",
        "       remedy  mask=offs_n[:, None] < N, other=0.0",
        f"       smallest case  B1 H1 M1 N1 D16 bf16     again: tilewright debug my_attention.py --case {samples.SMALL.id}"
        "     step through: … --pdb",
    ]


def test_edits_that_mend_a_kernel_are_shown_once_with_their_lines(plain):
    fault = samples.read_fault()
    edits = (Edit(fault.file, 10, "mask=offs_n < N, other=0.0"), Edit("other.py", 3, "then x = 1"))
    remedies = (Remedy("missing-mask", edits, 48), Remedy("wrong-stride", edits[:1], 48))
    mended = dataclasses.replace(fault, remedies=remedies)
    second = dataclasses.replace(mended, kind="mismatch")
    plain.debug_report(DebugReport("attention", "checked", (CaseResult(samples.MIDDLE, (mended, second)),)), "x.py")
    said = plain.said()
    assert (
        "              two edits together meet the reference in all 48 cases:\n"
        "                line 10  mask=offs_n < N, other=0.0\n"
        "                other.py:3  then x = 1\n"
        "              or, of another cause (wrong-stride):\n"
        "                line 10  mask=offs_n < N, other=0.0\n"
    ) in said
    assert said.count("two edits") == 1
    assert "mended by what mends the first one above" in said


def test_a_finding_that_knows_little_says_little(plain):
    plain.finding(Finding("launch-error", "the launcher raised ValueError: no", cause="unknown"))
    assert plain.said().splitlines() == [" FAIL  launch-error", "       the launcher raised ValueError: no"]


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (samples.mismatch(), "tiles; stored by program (0, 3, 0)"),
        (samples.warning(), "several programs store the same value; 4 programs, first: program (0, 0, 0)"),
        (dataclasses.replace(samples.read_fault(), programs=1), "program (1, 0, 0), 128 lanes: reads k[0, 0, 127, 0]"),
        (dataclasses.replace(samples.read_fault(), programs=1, lanes=None), "program (1, 0, 0) reads k[0, 0, 127, 0]"),
        (
            Finding("launch-error", "the kernel raised\nKeyError", program=(2, 0, 0)),
            "the kernel raised KeyError; in program (2, 0, 0)",
        ),
    ],
)
def test_a_message_names_the_program(finding, said):
    assert said in words.message(finding)


def test_a_path_is_relative_only_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words.place(str(tmp_path / "a" / "k.py"), 3) == "a/k.py:3"
    assert words.place("/elsewhere/k.py", 3) == "/elsewhere/k.py:3"
    assert words.place("k.py", None) == "k.py"
    assert words.place(None, None) == ""


def test_the_target_is_quoted_for_a_shell(plain):
    plain.finding(samples.read_fault(), target="my attention.py:f")
    assert "tilewright debug 'my attention.py:f' --case" in plain.said()


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_finding_fits_the_terminal(monkeypatch, width):
    console = on_terminal(monkeypatch, width)
    console.debug_report(samples.failing_report(), "my_attention.py")
    lines = without_colours(console.said()).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line.startswith((" FAIL", " WARN", "       ")) for line in lines)


# ----------------------------------------------------------------------------------------------- reports


def test_a_report_has_each_fault_once_with_its_smallest_case(plain):
    plain.debug_report(samples.failing_report(), "my_attention.py")
    said = plain.said()
    assert said.startswith(" FAIL  attention  2 errors, in 2 of 3 cases; 3 launches, 1.6 s, interpreter\n")
    assert said.count("out-of-bounds-read") == 1
    assert "in 2 of 3 cases\n" in said
    assert f"--case {samples.SMALL.id}" in said  # shrunk: the report's own
    assert f"--case {samples.LARGE.id}" in said  # not shrunk: the first that showed it
    assert said.index(" FAIL  mismatch") < said.index(" WARN  redundant-write")


def test_smallest_cases_may_be_given_by_finding(plain):
    given = {finding: Case("attention", {"M": 3}) for finding in samples.failing_report().findings}
    plain.debug_report(samples.failing_report(), "x.py", given)
    assert plain.said().count("smallest case  M3 ") == 3


def test_the_tile_map_shows_where_an_output_is_wrong(plain):
    plain.debug_report(samples.failing_report(), "x.py")
    rows = [line.strip() for line in plain.said().splitlines() if set(line.strip()) <= {".", "#"} and line.strip()]
    assert len(rows) == 32
    assert all(len(row) == 25 for row in rows)
    assert [row.endswith("#") for row in rows] == [number > 3 for number in range(32)]
    assert rows[5] == "...#" + "." * 20 + "#"
    assert "one character a tile of 8x8: . right, # wrong" in plain.said()


def test_a_nan_in_the_tile_map_is_wrong():
    found = dataclasses.replace(samples.disagreement(), tile_grid=(1, 3), tiles=(math.nan, math.inf, 1.0))
    assert words.tile_rows(found) == ["##."]


def test_verdicts(plain):
    plain.debug_report(samples.passing_report(), "x.py")
    plain.debug_report(samples.incomplete_report(), "x.py")
    plain.debug_report(DebugReport("empty", "interpreter", ()), "x.py")
    said = plain.said()
    assert " PASS  masked_softmax  3 cases, worst error 0.42 of the tolerance, 3 launches, 1.5 s, interpreter\n" in said
    assert " INCOMPLETE  rope  nothing wrong in 1 case, but not all could be looked at" in said
    assert " SKIP  unsupported\n" in said
    assert "note: 9 of 10 cases not run: the budget of 60 s was spent\n" in said
    assert " INCOMPLETE  empty  nothing wrong in 0 cases" in said


def test_a_note_that_was_said_is_not_repeated(plain):
    report = samples.incomplete_report()
    plain.handle(Note(report.notes[0]))
    plain.debug_report(report, "x.py")
    assert plain.said().count(report.notes[0]) == 1


# ------------------------------------------------------------------------------------------------ tables


def test_trials_as_a_table(plain):
    plain.trials(samples.measured_trials(), title="attention, prefill, h100")
    lines = plain.said().splitlines()
    assert lines[1] == "attention, prefill, h100"
    assert re.split(r"  +", lines[2]) == [
        "configuration", "shared", "registers", "spill", "warps", "occupancy", "waves", "predicted", "measured", "status",
    ]  # fmt: skip
    assert lines[3].split() == ["KiB", "B", "%", "µs", "µs"]
    row = re.split(r"  +", lines[5])
    assert row == [
        "BLOCK_M=128 BLOCK_N=128 num_warps=8", "96", "72", "224", "8", "25", "1.94", "44.8", "61.4", "timed, limited by shared",
    ]  # fmt: skip
    assert lines[8].endswith("wrong: 31 times the tolerance")
    assert lines[9].endswith("infeasible: needs 256 KiB of shared memory, a program on h100 has 227")
    assert lines[10] == "in all configurations: num_stages=3"
    assert lines[11].startswith(
        "3 of 5 configurations fit, 1 wrong; first: BLOCK_M=128 BLOCK_N=128 num_warps=8 num_stages=3 (measured 61.4"
    )


def test_infeasible_rows_are_dimmed(wide):
    wide.trials(samples.predicted_trials())
    dimmed = next(line for line in wide.said().splitlines() if "BLOCK_M=256" in line)
    assert dimmed.startswith("\x1b[2m")


def test_trials_of_several_targets_are_several_tables(plain):
    trials = samples.predicted_trials()
    plain.trials([*trials, *(dataclasses.replace(t, target="a100") for t in trials)])
    assert [line for line in plain.said().splitlines() if line.endswith((" h100", " a100"))] == [
        f"attention, {samples.LARGE.label}, h100",
        f"attention, {samples.LARGE.label}, a100",
    ]
    assert plain.said().count("3 of 4 configurations fit; first:") == 2


def test_nothing_fits(plain):
    plain.trials([samples.infeasible_trial()])
    assert "0 of 1 configuration fits\n" in plain.said()


def test_comparisons_as_a_table(plain):
    plain.comparisons(samples.comparisons())
    rows = [re.split(r"  +", line.strip()) for line in plain.said().splitlines()]
    assert rows[1] == ["attention (device time, cold L2)"]
    assert rows[5] == ["prefill", "61.8", "34.2", "torch sdpa", "75.1", "1.214", "1.205–1.222", "FASTER"]
    assert rows[6] == ["torch.compile", "177.0", "2.870", "2.810–2.930", "FASTER"]
    assert rows[8][-1] == "UNDECIDED"
    assert rows[9][0].endswith("noise floor up to 1.2 %")


def test_a_clock_that_stood_still_is_one_figure(plain):
    comparison = samples.comparisons()[0]
    at = lambda clock: dataclasses.replace(comparison, ours=dataclasses.replace(comparison.ours, clock_mhz=clock))
    plain.comparisons([at(1965), at(1965)])
    assert "SM clock while timed: 1965 MHz" in plain.said()
    plain.comparisons([at(1900), at(1965)])
    assert "SM clock while timed: 1900 to 1965 MHz" in plain.said()


def test_tuned_comparisons_say_their_configuration(plain):
    plain.comparisons(samples.comparisons() + samples.comparisons(Config({"BLOCK_M": 128})))
    assert "attention, default configurations (device time, cold L2)" in plain.said()
    assert "attention, tuned configurations (device time, cold L2)" in plain.said()
    assert "prefill: BLOCK_M=128" in plain.said()


def test_too_few_samples_give_no_interval(plain):
    one = dataclasses.replace(samples.comparisons()[0], low=0.0, high=math.inf, verdict="UNDECIDED")
    plain.comparisons([one])
    assert "too few samples" in plain.said()


@pytest.mark.parametrize("width", [72, 90, 110, 140])
def test_tables_fit_the_terminal(monkeypatch, width):
    console = on_terminal(monkeypatch, width)
    console.trials(samples.measured_trials())
    console.comparisons(samples.comparisons())
    console.runs(samples.runs())
    lines = without_colours(console.said()).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "UNDECIDED" in text
    assert "infeasible: needs 256 KiB of shared memory" in text
    assert "num_warps=8" in text


def test_where_a_row_does_not_fit_its_first_cell_gets_a_line():
    from tilewright.report.tables import Cell, Column, Table

    table = Table("", (Column("name"), Column("value", "µs", True)), ((Cell("a" * 30), Cell("12.5")),))
    assert [line.plain for line in terminal.table_lines(table, 20)][-2:] == ["a" * 30, "     12.5"]
    assert all(isinstance(line, Text) for line in terminal.table_lines(table, 20))


def test_runs(plain):
    plain.runs(samples.runs())
    said = plain.said()
    assert re.search(
        r"3  2026-03-01 \d\d:\d\d  run my_attention.py    exit 1        1 min 15 s         2      48            4  NVIDIA H100  01234567",
        said,
    )
    assert "not finished" in said
    plain.runs([])
    assert plain.said().endswith("no runs in the store\n")


def test_an_environment_in_a_line(plain):
    plain.environment(samples.H100)
    plain.environment(dataclasses.replace(samples.HERE, torch=None, triton=None, ptxas=None))
    first, second = plain.said().splitlines()
    assert first == (
        "NVIDIA H100 80GB HBM3 (sm_90), driver 570.86, at most 1980 MHz, 700 W, torch 2.11.0, triton 3.6.0, ptxas 12.8, "
        "python 3.12.3, tilewright 0.1.0, commit 0123456789, 2026-02-11 14:02"
    )
    assert second.startswith("Intel Xeon, no torch, no Triton, python 3.12.3")


def test_a_choice_in_a_line(plain):
    plain.choice("prefill", samples.choice())
    assert plain.said() == (
        "chosen  prefill  BLOCK_M=128 num_warps=8, 61.4 µs, default 75.0 µs (1.22x), 31 of 48 timed, 1 other as fast within the noise\n"
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(9.5e-6, "9.50"), (61.44e-6, "61.4"), (123.44e-6, "123.4"), (0.01234, "12,340"), (None, ""), (math.inf, "")],
)
def test_microseconds(seconds, said):
    assert words.microseconds(seconds) == said


def test_an_error_is_one_line_on_stderr(plain, capsys):
    plain.error(NoGpu("no GPU here,\nat all", "bench --device cpu"))
    assert capsys.readouterr().err == "error: no GPU here, at all; bench --device cpu\n"
    assert plain.said() == ""


def test_the_package_imports_neither_torch_nor_triton():
    code = (
        "import sys, tilewright.report.console, tilewright.report.html, tilewright.report.plots; "
        "print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_one_fault_is_shown_once_however_grave_it_is_elsewhere_and_whatever_follows_from_it():
    def found(kind, severity, line):
        return Finding(kind, "said", severity, tensor="x_ptr", file="k.py", line=line, case=case)

    case = Case("op", {"M": 1 << 27}, "fp32")
    findings = (
        found("offset-overflow", "note", 9),
        found("out-of-bounds-read", "note", 9),  # the address that wrapped
        found("redundant-write", "note", 9),
        found("out-of-bounds-read", "note", 10),
        found("mismatch", "warning", 12),
        found("mismatch", "error", 12),
    )
    shown = words.ordered(DebugReport("op", "checked", (CaseResult(case, findings),)))
    assert [(f.kind, f.severity, f.line) for f in shown] == [
        ("mismatch", "error", 12),
        ("offset-overflow", "note", 9),
        ("out-of-bounds-read", "note", 10),
    ]
