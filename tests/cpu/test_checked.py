"""What debug does around the checked executor: sizes without memory, scalars in play, limits, the executors compared."""

import sys
from dataclasses import replace
from pathlib import Path

import checked
import pytest
import torch

import tilewright as tw
from tilewright.debug.agreement import ONLY_INTERPRETER, together
from tilewright.debug.check import Ran
from tilewright.debug.comparison import against_executor
from tilewright.hardware.targets import find
from tilewright.launch.capture import record
from tilewright.records import Case, CaseResult, Finding
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.poison import Poisoned

SOURCE = Path(checked.__file__).read_text().splitlines()


def line_of(tag):
    return next(number for number, line in enumerate(SOURCE, 1) if line.endswith(f"# {tag}"))


# --------------------------------------------------------------------------------------- sizes without memory


def test_an_offset_that_wraps_is_found_at_five_billion_elements():
    report = tw.debug(checked.narrow_rows, [dict(M=1_300_003, N=4000)])
    wrapped = [f for f in report.findings if f.kind == "offset-overflow"]
    assert {f.tensor for f in wrapped} == {"x_ptr", "y_ptr"}
    assert wrapped[0].line == line_of("the row's line")
    assert report.results[0].addresses_only
    assert "too large to compare values" in report.notes[-1]


def test_the_same_in_64_bits_is_silent_and_says_that_values_were_not_compared():
    report = tw.debug(checked.wide_rows, [dict(M=1_300_003, N=4000)])
    assert report.findings == ()
    assert report.results[0].error_over_tolerance is None


# ------------------------------------------------------------------------------------------ what findings say


def test_a_finding_holds_the_scalars_in_play():
    finding = tw.debug(checked.shifted, [dict(N=33)]).findings[0]
    assert (finding.kind, finding.line, finding.program) == (
        "out-of-bounds-read",
        line_of("the shifted line"),
        (1, 0, 0),
    )
    assert dict(finding.variables) == {"start": 16, "shift": 3, "n": 33}


def test_what_is_not_supported_is_said_and_leaves_the_verdict_incomplete():
    report = tw.debug(checked.assembly)
    assert [(f.kind, f.line) for f in report.findings] == [("unsupported", line_of("assembly"))]
    assert "--interpreter" in report.findings[0].remedy
    assert (report.complete, report.exit_code) == (False, 4)


def test_a_mismatch_that_tf32_explains_is_a_warning():
    (finding,) = tw.debug(checked.product).findings
    assert (finding.kind, finding.severity, finding.cause) == ("mismatch", "warning", "reduced-precision-dot")
    assert "input_precision" in finding.remedy


@pytest.mark.parametrize("executor", ["checked", "interpreter"])
def test_booleans_nobody_wrote_are_seen(executor):
    assert tw.debug(checked.flags, [dict(n=33)], executor=executor).findings == ()
    unwritten = tw.debug(checked.flags, [dict(n=33, skip=1)], executor=executor).findings
    assert [(f.kind, f.element, f.lanes) for f in unwritten] == [("unwritten-output", (32,), 1)]
    if executor == "checked":
        kinds = {f.kind for f in tw.debug(checked.flags, [dict(n=33, fresh=True)]).findings}
        assert "uninitialized-read" in kinds


# ------------------------------------------------------------------------------------------------ tw.execute


def test_execute_runs_one_launch_and_tells_what_each_program_touched():
    x = torch.randn(33)
    (launch,) = record(checked.shifted, Inputs((x,), {}, ("x",)), find("h100"))
    done = tw.execute(launch, trace=True)
    assert [f.kind for f in done.findings] == ["out-of-bounds-read"]
    assert (done.complete, done.programs) == (True, 3)
    touched = {(access.verb, access.tensor): elements for access, elements in done.trace.of(1)}
    assert touched["read", "x_ptr"] == list(range(19, 33))
    assert touched["write", "y_ptr"] == list(range(16, 32))
    assert tw.execute(launch).trace is None


# ------------------------------------------------------------------------------------- executors side by side


def result(*findings, error=None):
    return CaseResult(Case("op", {}), findings, error_over_tolerance=error)


def test_both_executors_findings_come_together():
    ours, theirs = Finding("out-of-bounds-read", "here"), Finding("launch-error", "there")
    found = together(result(ours, error=0.5), result(ours, theirs, error=0.7)).findings
    assert [f.kind for f in found] == ["out-of-bounds-read", "launch-error"]
    assert found[1].message.endswith(ONLY_INTERPRETER)


@pytest.mark.parametrize(("ours", "theirs", "warns"), [(0.2, 9.0, True), (9.0, 0.2, True), (9.0, 8.0, False)])
def test_values_that_one_executor_alone_calls_wrong_are_a_warning(ours, theirs, warns):
    found = together(result(error=ours), result(error=theirs)).findings
    assert [f.severity for f in found] == (["warning"] if warns else [])


def ran(values, **more):
    return Ran({"output": values}, Inputs((), {}, ()), Poisoned(), None, **more)


def test_what_the_gpu_alone_gets_wrong_is_named_for_it():
    inputs = Inputs((torch.randn(64),), {}, ("x",))
    expected = golden.expect(lambda x: x * 2, inputs)
    right = inputs.args[0] * 2
    mismatch = Finding("mismatch", "differs", argument="output", cause="unknown")
    (named,) = against_executor([mismatch], ran(right + 1), ran(right), expected)
    assert (named.kind, named.severity) == ("compiled-differs", "error")
    assert "differs" in named.message
    assert against_executor([mismatch], ran(right + 1), ran(right + 1), expected) == [mismatch]
    faulty = replace(ran(right), found=(Finding("read-write-race", "races"),))
    assert against_executor([mismatch], ran(right + 1), faulty, expected) == [mismatch], "explained without a compiler"


def test_without_a_reference_the_gpu_is_held_to_the_executor():
    values = torch.randn(64)
    assert against_executor([], ran(values), ran(values * (1 + 1e-7)), None) == []
    (found,) = against_executor([], ran(values + 1), ran(values), None)
    assert (found.kind, found.lanes) == ("compiled-differs", 64)
    assert against_executor([], ran(values + 1), replace(ran(values), complete=False), None) == []


@pytest.mark.skipif(sys.platform != "linux", reason="reserves memory as Linux does")
def test_an_operator_made_in_a_function_is_debugged_in_this_process():
    factor = 3.0
    operator = tw.Operator(
        name="local",
        run=checked.rows,
        reference=lambda x, wide: x * factor,
        inputs=lambda N=8: (torch.ones(2, N), True),
    )
    assert [f.kind for f in tw.debug(operator, [dict(N=8)]).findings] == ["mismatch"]
