"""Each kind of fault: found at its line, with the tensor, the element and the counts; and its near twin left alone."""

import linecache

import numpy as np
import pytest
import torch
import wrong
import wrong_values
from execution import TARGET, execute, faults, findings, tagged

from tilewright.debug.executor import second
from tilewright.launch.capture import capture

# kind, tag of the line, tensor, element, first program, programs, lanes, tag of the line it came from
FAULTS = {
    "reads_past_the_storage": [("out-of-bounds-read", "load", "x_ptr", (3, 0), (2, 0, 0), 1, 2, None)],
    "reads_padding_of_a_view": [("out-of-bounds-read", "load", "x_ptr", (0, 10), (0, 0, 0), 4, 4, None)],
    "writes_past_the_storage": [("out-of-bounds-write", "store", "y_ptr", (2, 0), (2, 0, 0), 1, 16, None)],
    "writes_a_neighbour_in_a_pool": [
        ("out-of-bounds-read", "load", "x_ptr", (2, 0), (1, 0, 0), 1, 16, None),
        ("out-of-bounds-write", "store", "y_ptr", (2, 0), (1, 0, 0), 1, 16, None),
    ],
    "reads_before_the_start": [("out-of-bounds-read", "load", "x_ptr", (-2,), (0, 0, 0), 1, 2, None)],
    "reads_what_a_stride_skips": [("out-of-bounds-read", "load", "x_ptr", (0,), (0, 0, 0), 2, 20, None)],
    "reads_where_no_tensor_is": [("out-of-bounds-read", "load", None, None, (1, 0, 0), 1, 1, None)],
    "programs_share_a_row": [("write-write-race", "store", "y_ptr", (0, 0), (0, 0, 0), 2, 20, None)],
    "programs_write_the_same": [("redundant-write", "store", "y_ptr", (0, 0), (0, 0, 0), 2, 20, None)],
    "shifts_in_place": [("read-write-race", "store", "y_ptr", (16,), (1, 0, 0), 3, 3, None)],
    "lanes_disagree": [("write-conflict", "store", "x_ptr", (0,), (0, 0, 0), 1, 8, None)],
    "stores_what_others_add_to": [("write-write-race", "atomic", "x_ptr", (0,), (1, 0, 0), 2, 2, None)],
    "sums_dead_lanes": [("undefined-lanes", "store", "x_ptr", None, (0, 0, 0), 3, 3, "origin")],
    "gathers_by_dead_lanes": [("undefined-lanes", "address", "i_ptr", None, (0, 0, 0), 1, 6, "origin")],
    "branches_on_a_dead_lane": [("undefined-lanes", "branch", "x_ptr", None, (0, 0, 0), 1, 1, "origin")],
    "accumulates_into_empty": [("uninitialized-read", "store", "y_ptr", None, (0, 0, 0), 2, 40, "origin")],
    "accumulates_into_a_half_written_one": [("uninitialized-read", "store", "y_ptr", None, (0, 0, 0), 2, 30, "origin")],
    "adds_to_empty_integers": [("uninitialized-read", "atomic", "y_ptr", (0,), (0, 0, 0), 2, 32, "atomic")],
    "offset_wraps": [
        ("offset-overflow", "load", "x_ptr", None, (4, 0, 0), 1, 16, None),
        ("out-of-bounds-read", "load", "x_ptr", (-4, 128), (4, 0, 0), 1, 16, None),
    ],
    "divides_by_zero": [("integer-hazard", "store", None, None, (0, 0, 0), 1, 1, "origin")],
    "shifts_too_far": [("integer-hazard", "store", None, None, (0, 0, 0), 1, 8, "origin")],
    "descriptor_of_crooked_rows": [("misaligned", "descriptor", "x_ptr", None, (0, 0, 0), 1, 1, None)],
    "descriptor_of_a_crooked_base": [("misaligned", "descriptor", "x_ptr", None, (0, 0, 0), 1, 1, None)],
    "loads_four_bytes_from_the_second": [("misaligned", "load", "x_ptr", None, (0, 0, 0), 1, 1, None)],
    "grid_too_high": [("grid-limit", None, None, None, None, None, None, None)],
}


def described(finding):
    origin = linecache.getline(finding.file, finding.origin_line or 0).partition("# ")[2].strip() or None
    return (
        finding.kind, tagged(finding), finding.tensor, finding.element,
        finding.program, finding.programs, finding.lanes, origin,
    )  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_its_twin_is_left_alone(name):
    launcher = getattr(wrong if hasattr(wrong, name) else wrong_values, name)
    found = faults(launcher, True)
    assert [described(f) for f in found] == FAULTS[name]
    severities = {"redundant-write": "warning"}
    assert all(f.severity == severities.get(f.kind, "error") for f in found)
    assert not faults(launcher, False)


def test_out_of_bounds_tells_the_view_from_the_storage():
    words = {
        name: faults(getattr(wrong, name), True)[-1].message for name in FAULTS if name.startswith(("reads", "writes"))
    }
    assert words["reads_past_the_storage"].endswith("1 element past its end")
    assert words["reads_before_the_start"].endswith("2 elements before its start")
    for name in ("reads_padding_of_a_view", "reads_what_a_stride_skips", "writes_a_neighbour_in_a_pool"):
        assert words[name].endswith("inside its storage, outside its view")


def test_a_race_names_two_programs_that_meet():
    (race,) = faults(wrong.programs_share_a_row, True)
    assert race.message.endswith("y_ptr[0, 0], programs (0, 0, 0) and (4, 0, 0)")
    (race,) = faults(wrong.shifts_in_place, True)
    assert race.message.endswith("y_ptr[16], programs (1, 0, 0) and (0, 0, 0)")


@pytest.mark.parametrize("how", ["rem", "and", "shift", "xor"])
def test_a_hash_that_wraps_is_no_offset_overflow(how):
    assert not findings(wrong_values.hash_wraps, how)


@pytest.mark.parametrize("how", ["assume", "tile", "contiguous"])
def test_a_promise_that_does_not_hold_is_a_false_hint(how):
    (finding,) = findings(wrong_values.hints, how, 40)
    assert (finding.kind, tagged(finding), finding.severity) == ("false-hint", "hint", "error")
    assert not findings(wrong_values.hints, how, 32)


@pytest.mark.parametrize("how", ["where", "clamp", "wrap"])
@pytest.mark.parametrize("m", [1, 10, 40, 48])
def test_hints_that_hold_but_for_the_edge_of_a_tensor_are_a_note_at_most(how, m):
    found = findings(wrong_values.hints_at_the_edge, how, m)
    assert [f.kind for f in found] == (["false-hint"] if m % 16 else [])
    assert all(f.severity == "note" for f in found)


def test_floats_added_by_several_programs_are_a_note():
    for dtype in (torch.float32, torch.float16):
        out, executor = execute(wrong_values.sums_by_atomics, dtype)
        assert out.item() == 64
        (finding,) = executor.findings()
        assert (finding.kind, tagged(finding), finding.severity) == ("nondeterministic", "atomic", "note")
        assert finding.element == (0,)
    assert not findings(wrong_values.sums_by_atomics, torch.int32)
    assert not findings(wrong_values.sums_by_atomics, torch.float32, 1)


def test_what_is_not_supported_is_said_at_its_line():
    _, executor = execute(wrong_values.uses_assembly)
    (finding,) = executor.findings()
    assert (finding.kind, tagged(finding)) == ("unsupported", "asm")
    assert not executor.complete


def _numpy(y):
    np.asarray(y.numpy())[:] = 1.0


INITIALISED = {
    "fill_": lambda y: y.fill_(1.0),
    "zero_": lambda y: y.zero_(),
    "copy_": lambda y: y.copy_(torch.ones(40)),
    "out": lambda y: torch.add(torch.ones(40), 1, out=y),
    "slices": lambda y: (y[:17].fill_(1), y.__setitem__(slice(17, None), 2.0)),
    "rows": lambda y: [y.view(4, 10)[i].copy_(torch.ones(10)) for i in range(4)],
    "columns": lambda y: [y.view(4, 10)[:, i].fill_(i) for i in range(10)],
    "index": lambda y: y.__setitem__(torch.arange(40), torch.ones(40)),
    "mask": lambda y: y.__setitem__(torch.ones(40, dtype=torch.bool), 3.0),
    "numpy": _numpy,
    "random": lambda y: y.normal_(),
    "foreach": lambda y: torch._foreach_zero_([y]),
}


@pytest.mark.parametrize("how", INITIALISED)
@pytest.mark.parametrize("make", [torch.empty, torch.zeros(1).new_empty, lambda n: torch.empty_like(torch.ones(n))])
def test_memory_that_the_host_initialised_is_initialised(how, make):
    def launcher(leave_out):
        y = make(40)
        if not leave_out:
            INITIALISED[how](y)
        wrong._accumulate[(2,)](torch.randn(40), y, 40, BLOCK=32)

    assert not faults(launcher, False)
    assert {f.kind for f in faults(launcher, True)} == {"uninitialized-read"}


def test_the_host_may_initialise_between_launches():
    def launcher(fills):
        x, y = torch.randn(40), torch.empty(60)
        wrong._copy[(1,)](x, y, 16, 16, 16, BLOCK=16)
        if fills:
            y[16:50] = 0.0
        wrong._accumulate[(2,)](x, y[:40], 40, BLOCK=32)

    assert not faults(launcher, True)
    (finding,) = faults(launcher, False)
    assert (finding.kind, finding.lanes) == ("uninitialized-read", 24)


def test_what_an_earlier_launch_wrote_is_initialised():
    def launcher(n):
        x, y = torch.randn(3, 16), torch.empty(3, 16)
        wrong._copy[(3,)](x, y, 16, n, 16, BLOCK=16)
        wrong._accumulate[(1,)](x, y, 48, BLOCK=64)

    assert not faults(launcher, 16)
    (finding,) = faults(launcher, 10)
    assert (finding.kind, finding.lanes) == ("uninitialized-read", 18)


def _second(launcher, *args):
    result, executor = execute(launcher, *args)

    def again(other):
        with capture(other, TARGET), other.poisoned:
            return {"out": launcher(*args)}

    return result, executor, again


def test_results_that_change_with_the_order_of_programs_are_order_dependent():
    result, executor, again = _second(wrong_values.by_order, "last")
    assert not executor.findings()
    (finding,) = second.order_dependent(executor, {"out": result}, again)
    assert (finding.kind, tagged(finding), finding.severity) == ("order-dependent", "last", "error")
    assert (finding.element, finding.program, finding.tensor) == ((0,), (4, 0, 0), "out_ptr")
    result, executor, again = _second(wrong_values.summed_under_a_lock, 0.5)
    assert not executor.findings()
    (finding,) = second.order_dependent(executor, {"out": result}, again)
    assert (finding.kind, tagged(finding)) == ("order-dependent", "sum")


def test_a_race_on_a_way_that_no_program_goes_in_the_usual_order_is_found():
    result, executor, again = _second(wrong_values.handed_on, False)
    found = executor.findings() + second.order_dependent(executor, {"out": result}, again)
    assert ("read-write-race", "taken") in [(f.kind, tagged(f)) for f in found]
    result, executor, again = _second(wrong_values.handed_on, True)
    assert not (executor.findings() + second.order_dependent(executor, {"out": result}, again))


def test_another_order_of_a_sum_or_of_places_is_no_fault():
    for launcher, how, notes in (
        (wrong_values.summed_under_a_lock, 1.0, []),
        (wrong_values.by_order, "share", []),
        (wrong_values.by_order, "slot", ["nondeterministic"]),
        (wrong_values.sums_by_atomics, torch.float32, []),
    ):
        result, executor, again = _second(launcher, how)
        found = second.order_dependent(executor, {"out": result}, again)
        assert [f.kind for f in found] == notes
        assert all(f.severity == "note" for f in found)


@pytest.mark.parametrize(
    ("launcher", "args", "line", "programs"),
    [
        (wrong_values.softmax, (torch.tensor([[1.0, 2.0], [1.0, 200.0]]), False), "exp", 1),
        (wrong_values.softmax, (torch.tensor([[1.0, 2.0], [-float("inf")] * 2]),), "shift", 1),
        (wrong_values.softmax, (torch.randn(2, 5), True, True), "narrow", 2),
        (wrong_values.mean_of_none, (False,), "divide", 1),
    ],
)
def test_a_value_that_is_not_finite_is_traced_to_where_it_arose(launcher, args, line, programs):
    result, executor, again = _second(launcher, *args)
    assert not result.isfinite().all()
    (finding,) = second.born(executor, again)
    assert (described(finding)[-1], tagged(finding), finding.programs) == (line, "store", programs)


def test_padding_that_is_discarded_gives_birth_to_nothing():
    for launcher, args in ((wrong_values.softmax, (torch.randn(3, 10),)), (wrong_values.mean_of_none, (True,))):
        _, executor, again = _second(launcher, *args)
        assert not second.born(executor, again)
