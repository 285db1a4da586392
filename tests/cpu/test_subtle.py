"""Faults that hide: in one configuration, behind an assertion, in a declaration, in a backward pass."""

from pathlib import Path

import faulty
import pytest
import subtle

import tilewright as tw
from tilewright.debug.child import Session
from tilewright.debug.configs import MOST, spread
from tilewright.debug.options import DebugOptions
from tilewright.debug.stage import run
from tilewright.errors import ReferenceFailed, UnknownDim, UsageError
from tilewright.records import drain
from tilewright.spec.load import address

SOURCE = Path(subtle.__file__).read_text().splitlines()


def line_of(text):
    return next(number for number, line in enumerate(SOURCE, 1) if text in line)


@pytest.fixture(scope="module")
def session():
    with Session(DebugOptions()) as session:
        yield session


@pytest.fixture
def debugged(session):
    def debugged(name, *cases, **options):
        wanted = DebugOptions(cases=list(cases) or None, **options)
        return drain(run(name, address(getattr(subtle, name)), wanted, session), lambda event: None)

    return debugged


def _errors(result):
    return [finding for finding in result.findings if finding.severity == "error"]


def only(report):
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


# --------------------------------------------------------------------------------------------- configurations


@pytest.mark.parametrize("name", ["wrong_at_128", "tuned_wrong_at_128"])
def test_a_fault_of_one_configuration_is_found_and_named(debugged, name):
    report = debugged(name)
    assert {f.kind for f in report.findings} == {"out-of-bounds-read", "out-of-bounds-write", "config-dependent"}
    finding = report.findings[0]
    assert (finding.kind, finding.line) == ("out-of-bounds-read", line_of("the wild line"))
    assert finding.message.endswith("in configuration BLOCK=128")
    assert finding.case.arguments["BLOCK"] == 128
    assert finding.case.arguments.get("N", finding.case.arguments.get("n")) == 129, "a case beside its own block"
    assert report.notes == ("2 of 2 configurations checked",)
    assert report.complete


@pytest.mark.parametrize(("name", "dim"), [("wrong_at_128", "N"), ("tuned_wrong_at_128", "n")])
def test_a_case_may_name_a_configuration(debugged, name, dim):
    kinds = [f.kind for f in debugged(name, {dim: 65, "BLOCK": 128}).findings]
    assert kinds == ["out-of-bounds-read", "out-of-bounds-write"]
    assert debugged(name, {dim: 65, "BLOCK": 64}).findings == ()
    with pytest.raises(UnknownDim, match="no dim, option or meta-parameter 'BLOK'"):
        debugged(name, {dim: 65, "BLOK": 64})


def test_what_the_interpreter_cannot_see_makes_no_configuration(debugged):
    report = debugged("warps_alone")
    assert report.notes == ()
    assert not any("num_warps" in result.case.arguments for result in report.results)


def test_of_many_configurations_some_are_checked_that_hold_every_pair_of_values():
    space = tw.Space(A=[1, 2, 4], B=[1, 2, 4], C=[1, 2, 4], D=[1, 2])
    chosen = spread([dict(config.values) for config in space], MOST)
    assert len(chosen) == MOST == len({str(c) for c in chosen})
    names = ("A", "B", "C", "D")
    pairs = {(a, b, config[a], config[b]) for config in chosen for a in names for b in names if a < b}
    assert len(pairs) == 3 * 9 + 3 * 6


# ------------------------------------------------------------------------------------------------- assertions


def test_assertions_of_kernels_fire_at_their_line(debugged):
    finding = only(debugged("asserts_device", {"N": 33}))
    assert (finding.kind, finding.message) == ("launch-error", "device_assert failed: offsets leave the row")
    assert (finding.line, finding.program, finding.lanes) == (line_of("the device's line"), (1, 0, 0), 31)
    plain = only(debugged("asserts_plain", {"N": 33}))
    assert (plain.line, plain.program) == (line_of("the plain line"), (1, 0, 0))
    assert "a tile that is not all true" in plain.message


@pytest.mark.parametrize(("name", "size"), [("device", 64), ("plain", 64), ("masked", 33), ("overflow", 33)])
def test_assertions_that_hold_are_silent(debugged, name, size):
    assert debugged(f"asserts_{name}", {"N": size}).findings == ()


# ------------------------------------------------------------------------------------------- what was declared


@pytest.mark.parametrize(
    ("name", "case", "words"),
    [
        ("another_shape", {"M": 2, "N": 3}, "output has shape (2, 3), declared is Float[N M]"),
        ("another_rank", {"N": 3}, "output has shape (3), declared is Float[N 1]"),
        ("another_kind", {"N": 3}, "output is fp32, declared is Int[N]"),
    ],
)
def test_results_are_held_against_their_annotation(debugged, name, case, words):
    assert only(debugged(name, case)).message == words


def test_a_dim_that_only_the_result_has_may_have_any_size(debugged):
    assert debugged("its_own_dim", {"N": 3}).findings == ()


@pytest.mark.parametrize("name", ["returns_what_it_changed", "returns_it_beside_it"])
def test_a_mutated_argument_that_is_returned_is_no_other_output(debugged, name):
    report = debugged(name, {"N": 33})
    assert report.findings == ()
    assert report.results[0].error_over_tolerance is not None


def test_results_and_golden_ones_that_differ_in_number_are_named(debugged):
    found = only(debugged("returns_too_little", {"N": 3}))
    assert found.message == "the launcher gives x, the reference output, x"


def test_an_operator_that_launches_nothing_is_said(debugged):
    report = debugged("launches_nothing", {"N": 3})
    assert report.findings == ()
    assert "no case launched a kernel" in report.notes[-1]


def test_elements_nobody_wrote_have_the_line_that_stores_the_others(session):
    options = DebugOptions(cases=[{"N": 33}])
    report = drain(run("short_grid", address(faulty.short_grid), options, session), lambda event: None)
    finding = only(report)
    assert (finding.kind, finding.tensor) == ("unwritten-output", "y_ptr")
    assert finding.source.startswith("tl.store(y_ptr + offsets, y, mask=offsets < n)")


def test_sizes_that_a_case_does_not_name_are_said(debugged):
    assert debugged("its_own_dim", {"N": 3}).notes == ()
    report = debugged("careful_gradient", {"M": 3})
    assert report.notes == ("case M3 N16 fp32: N=16 where --case says nothing",)


# -------------------------------------------------------------------------------------------------- gradients


def test_a_backward_pass_must_take_any_strides(debugged):
    layouts = {r.case.layout for r in debugged("careless_gradient").results if _errors(r)}
    assert layouts == {"expanded-grad", "transposed-grad"}
    report = debugged("careful_gradient")
    assert report.findings == ()
    assert layouts < {r.case.layout for r in report.results}


# ------------------------------------------------------------------------------------------------ what spins


def test_a_kernel_that_spins_is_known_for_it(debugged):
    finding = only(debugged("spins", {"N": 3}))
    assert (finding.kind, finding.program) == ("deadlock", (0, 0, 0))
    assert finding.line in (line_of("the line it spins on") - 1, line_of("the line it spins on"))


def test_a_kernel_that_spins_is_stopped_at_its_line_by_the_interpreter():
    options = DebugOptions(executor="interpreter", cases=[{"N": 3}], case_seconds=8.0)
    with Session(options) as session:
        report = drain(run("spins", address(subtle.spins), options, session), lambda event: None)
    finding = only(report)
    assert finding.kind == "launch-error"
    assert finding.message.startswith("still running after 6.4 s")
    assert finding.line in (line_of("the line it spins on") - 1, line_of("the line it spins on"))
    assert finding.program == (0, 0, 0)


def test_what_the_standard_library_raises_is_said_at_the_kernels_line():
    options = DebugOptions(executor="interpreter", cases=[{"N": 3}])
    with Session(options) as session:
        here = address(subtle.fails_in_the_standard_library)
        report = drain(run("fails_in_the_standard_library", here, options, session), lambda event: None)
    finding = only(report)
    assert finding.message.startswith("the kernel raised AttributeError")
    assert finding.line == line_of("the line that calls what fails")


# ----------------------------------------------------------------------------------------------------- errors


def test_a_reference_out_of_its_domain_hints_at_values(debugged):
    with pytest.raises(ReferenceFailed) as caught:
        debugged("out_of_its_table", {"V": 4, "D": 2, "N": 8})
    assert 'values={"index": tw.values.indices("N")}' in caught.value.remedy


@pytest.mark.parametrize("size", [-5, 2.5, "many", True])
def test_what_is_no_size_is_refused(debugged, size):
    with pytest.raises(UsageError, match=r"N=.* is no size of its_own_dim"):
        debugged("its_own_dim", {"N": size})
