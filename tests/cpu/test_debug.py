"""The debug stage end to end: each kind of fault found at its line, right kernels silent."""

from pathlib import Path

import faulty
import pytest
import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

import tilewright as tw
from tilewright.debug.check import check_case
from tilewright.debug.child import Session
from tilewright.debug.options import DebugOptions
from tilewright.debug.stage import run
from tilewright.errors import ChildFailed
from tilewright.hardware.targets import find
from tilewright.records import Case, drain
from tilewright.spec.load import address

SOURCE = Path(faulty.__file__).read_text().splitlines()
SIZES = [{"N": 32}, {"N": 33}, {"N": 1}]


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE, 1) if text in line)


@pytest.fixture(scope="module")
def reports():
    """Reports of all operators of the file."""
    operators = {n: v for n, v in vars(faulty).items() if isinstance(v, tw.Operator)}
    own = {"gather": [{"V": 5, "N": 33}], "tuned": [{"n": 33}]}
    found = {}
    with Session(DebugOptions()) as session:
        for name, operator in operators.items():
            options = DebugOptions(cases=own.get(name, SIZES))
            found[name] = drain(run(name, address(operator), options, session), lambda event: None)
    return found


def only(report, severity="error"):
    found = [f for f in report.findings if f.severity == severity]
    assert len(found) == 1, found
    return found[0]


class Dying(Session):
    """A session whose child does not survive what is done beside the verdict."""

    def shrink(self, *arguments):
        raise ChildFailed("the process ended by signal 11", reason="signal")

    explain = shrink


def test_a_search_that_ends_its_child_is_told_and_the_findings_stand(reports):
    options = DebugOptions(cases=SIZES)
    with Dying(options) as session:
        report = drain(run("wild_load", address(faulty.wild_load), options, session), lambda event: None)
    assert only(report).line == only(reports["wild_load"]).line
    assert report.exit_code == 1
    assert [note for note in report.notes if "ended" in note] == [
        "the search for smaller cases ended: the process ended by signal 11",
        "the search for causes ended: the process ended by signal 11",
    ]


@pytest.mark.parametrize("name", ["right", "gather", "in_place", "tuned", "square"])
def test_right_operators_are_silent(reports, name):
    assert reports[name].findings == ()
    assert reports[name].exit_code == 0


def test_a_wild_load_is_found_at_its_line_with_program_and_element(reports):
    finding = only(reports["wild_load"])
    assert (finding.kind, finding.tensor, finding.argument) == ("out-of-bounds-read", "x_ptr", "x")
    assert finding.line == line_of("the wild load")
    assert finding.source.startswith("x = tl.load(x_ptr + offsets)")
    assert (finding.program, finding.element, finding.lanes) == ((1, 0, 0), (33,), 31)
    assert finding.case.arguments == {"N": 33}
    assert "past its end" in finding.message


def test_a_store_outside_the_view_is_found_inside_its_storage(reports):
    finding = only(reports["wild_store"])
    assert (finding.kind, finding.tensor, finding.line) == ("out-of-bounds-write", "y_ptr", line_of("the wild store"))
    assert "inside its storage, outside its view" in finding.message


def test_wrong_values_name_count_tile_element_and_the_program_that_stored_them(reports):
    finding = only(reports["wrong_factor"])
    assert (finding.kind, finding.cause, finding.tensor) == ("mismatch", "unknown", "y_ptr")
    assert finding.line == line_of("tl.store(y_ptr + offsets, y, mask=offsets < n)")
    assert "32 of 32 elements (100 %)" in finding.message
    report = reports["wrong_factor"]
    assert report.results[0].disagreements[0].worst_value == pytest.approx(
        report.results[0].disagreements[0].worst_expected * 2.125 / 2, rel=1e-3
    )


def test_elements_that_nobody_wrote_are_counted(reports):
    finding = only(reports["short_grid"])
    assert (finding.kind, finding.lanes, finding.element) == ("unwritten-output", 1, (32,))
    assert finding.case.arguments == {"N": 33}


def test_an_input_changed_without_a_word_is_found_and_the_declaration_named(reports):
    finding = only(reports["changes_its_input"])
    assert (finding.kind, finding.argument) == ("mismatch", "x")
    assert 'mutates=("x",)' in finding.remedy


def test_another_shape_or_dtype_than_the_reference(reports):
    assert "shape (32), the reference (32, 1)" in only(reports["other_shape"]).message
    assert "fp32, the reference fp16" in only(reports["other_dtype"]).message


def test_exceptions_name_the_line_of_the_host_or_of_the_kernel(reports):
    host = only(reports["raises_on_the_host"])
    assert (host.kind, host.line) == ("launch-error", line_of("the host's line"))
    assert "the launcher raised ValueError: this launcher refuses" in host.message
    kernel = only(reports["asserts"])
    assert (kernel.kind, kernel.line, kernel.program) == ("launch-error", line_of("the kernel's line"), (0, 0, 0))


def test_a_wrong_gradient_is_found_though_the_output_is_right(reports):
    finding = only(reports["square_with_a_wrong_gradient"])
    assert (finding.kind, finding.argument) == ("mismatch", "gradient of x")


def test_a_suppressed_finding_is_not_reported(reports):
    assert reports["suppressed"].findings == ()


def test_planned_cases_find_the_fault_and_shrink_it():
    report = tw.debug(faulty.wild_load)
    finding = only(report)
    assert report.exit_code == 1
    assert list(report.smallest.values()) == [Case("wild_load", {"N": 1}, "fp32")]
    assert {r.case.arguments["N"] for r in report.results} == {0, 1, 3, 31, 32, 33, 40, 64, 67}
    assert finding.kind == "out-of-bounds-read"


def test_the_same_plan_comes_twice():
    first, second = (tw.debug(faulty.right, budget_seconds=None) for _ in range(2))
    assert [r.case for r in first.results] == [r.case for r in second.results]
    assert {r.case.dtype for r in first.results} == {"fp32", "fp16", "bf16"}
    assert {r.case.layout for r in first.results} == {"contiguous", "sliced", "offset"}


def test_a_spent_budget_is_said_and_makes_the_report_incomplete():
    report = tw.debug(faulty.right, budget_seconds=0.0)
    assert not report.complete
    assert report.exit_code == 4
    assert "not run" in report.notes[0]


def test_options_have_the_defaults_the_command_line_shows():
    assert DebugOptions().budget_seconds == 60.0


@triton.jit
def summed(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        o = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + o, mask=o < n, other=0.0)
    tl.store(out_ptr, tl.sum(total, 0))


@tw.operator(dtypes=("fp32",))
def sum_of_all(x: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    out = torch.empty((), device=x.device)
    summed[(1,)](x, out, x.numel(), BLOCK=16)
    return out


def test_a_loop_over_a_huge_size_is_too_long_for_us_and_no_fault():
    huge = Case("sum_of_all", {"N": 1 << 30}, "fp32")
    result = check_case(sum_of_all, huge, find("h100"), checked=True, seconds=0.3)
    assert [f.kind for f in result.findings] == ["unsupported"]
    assert "takes too long here" in result.refused


def test_one_reason_to_refuse_cases_is_one_note():
    def run(x, k):
        out = torch.empty(1)
        summed[(1,)](x, out, k, BLOCK=16)
        return out

    operator = tw.Operator(
        name="first",
        run=run,
        reference=lambda x, k: x.topk(k)[0].sum()[None],
        inputs=lambda N=40, k=4: (torch.ones(N), k),
    )
    (note,) = (note for note in tw.debug(operator).notes if "out of range" in note)
    assert "more left out: the reference raised: RuntimeError" in note
