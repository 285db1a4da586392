"""Inputs out of the ordinary: each has a defined answer."""

import resource
import time

import odd
import pytest
import torch
import triton
from execution import execute, faults, findings

from tilewright.errors import LauncherFailed


def test_no_programs_run_nothing():
    x, y = torch.randn(16), torch.zeros(16)
    _, executor = execute(lambda: odd.double[(0,)](x, y, 16, BLOCK=16))
    assert not executor.findings()
    assert executor.programs == 0
    assert y.eq(0).all()


def test_tensors_of_no_elements_are_touched_nowhere():
    x, y = torch.randn(0), torch.empty(0)
    assert not findings(lambda: odd.double[(1,)](x, y, 0, BLOCK=16))
    found = faults(lambda: odd.double[(1,)](x, y, 3, BLOCK=16))
    assert [(f.kind, f.tensor, f.lanes) for f in found] == [
        ("out-of-bounds-read", "x_ptr", 3),
        ("out-of-bounds-write", "y_ptr", 3),
    ]
    inner = torch.randn(4, 8)[2:2]
    (read, _) = faults(lambda: odd.double[(1,)](inner, torch.empty(4, 0), 2, BLOCK=16))
    assert (read.kind, read.tensor) == ("out-of-bounds-read", "x_ptr")


def test_tensors_of_no_axes_hold_one_element():
    x, y = torch.tensor(3.0), torch.tensor(0.0)
    assert not findings(lambda: odd.scalar[(1,)](x, y))
    assert y.item() == 4
    (read, write) = faults(lambda: odd.move[(1,)](x, y, 2, BLOCK=2))
    assert (read.kind, write.kind) == ("out-of-bounds-read", "out-of-bounds-write")
    assert (read.lanes, write.lanes) == (1, 1)


def test_expanded_and_overlapping_views_are_read_as_they_are():
    row = torch.randn(8)
    y = torch.empty(4, 8)
    expanded = row.expand(4, 8)
    assert not findings(lambda: odd.strided[(1,)](expanded, y, 4, 8, *expanded.stride(), BM=4, BN=8))
    assert torch.equal(y, expanded)
    windows = torch.randn(11).unfold(0, 8, 1)
    assert not findings(lambda: odd.strided[(1,)](windows, y, 4, 8, *windows.stride(), BM=4, BN=8))
    assert torch.equal(y, windows)
    reverse = torch.randn(8, 4).t()
    assert not findings(lambda: odd.strided[(1,)](reverse, y, 4, 8, *reverse.stride(), BM=4, BN=8))
    assert torch.equal(y, reverse)


def test_writing_different_values_through_an_overlapping_view_is_a_conflict():
    memory = torch.zeros(32, dtype=torch.int32)
    for view in (memory[:8].expand(4, 8), memory.unfold(0, 8, 1)[:4]):
        (finding,) = faults(lambda view=view: odd.fill_strided[(1,)](view, 4, 8, *view.stride(), BM=4, BN=8))
        assert finding.kind == "write-conflict"
    apart = memory.view(4, 8)
    assert not faults(lambda: odd.fill_strided[(1,)](apart, 4, 8, *apart.stride(), BM=4, BN=8))


def test_one_tensor_as_two_parameters_is_one_memory():
    x = torch.ones(64)
    assert not findings(lambda: odd.double[(4,)](x, x, 64, BLOCK=16))
    assert x.eq(2).all()
    assert {f.kind for f in faults(lambda: odd.double[(4,)](x[:32], x[16:48], 32, BLOCK=16))} == {"read-write-race"}
    assert {f.kind for f in faults(lambda: odd.double[(4,)](x[:63], x[1:], 63, BLOCK=16))} == {"read-write-race"}


def test_neighbours_in_one_storage_do_not_meet():
    pool = torch.ones(96)
    assert not findings(lambda: odd.double[(2,)](pool[:32], pool[32:64], 32, BLOCK=16))
    (finding,) = faults(lambda: odd.double[(2,)](pool[:32], pool[32:62], 31, BLOCK=32))
    assert (finding.kind, finding.tensor, finding.element) == ("out-of-bounds-write", "y_ptr", (30,))


def test_a_mutated_argument_may_be_returned():
    def launcher(x):
        odd.double[(1,)](x, x, 16, BLOCK=16)
        return x

    x = torch.ones(16)
    result, executor = execute(launcher, x)
    assert result is x
    assert x.eq(2).all()
    assert not executor.findings()


def test_a_tensor_elsewhere_is_refused_in_words():
    x = torch.empty(16, device="meta")
    with pytest.raises(LauncherFailed, match="x_ptr"):
        execute(lambda: odd.double[(1,)](x, torch.empty(16), 16, BLOCK=16))


def test_none_and_tuples_and_ones():
    x, bias, y = torch.randn(10), torch.randn(10), torch.empty(10)
    assert not findings(lambda: odd.maybe_biased[(1,)](x, None, y, 10, BLOCK=16))
    assert torch.equal(y, x)
    assert not findings(lambda: odd.maybe_biased[(1,)](x, bias, y, 10, BLOCK=16))
    assert torch.equal(y, x + bias)
    outs = (torch.empty(10), torch.empty(10))
    assert not findings(lambda: odd.of_tuples[(1,)]((x, bias), outs, 10, BLOCK=16))
    assert torch.equal(outs[1], bias * 2)
    (finding,) = faults(lambda: odd.of_tuples[(1,)]((x, bias[:9]), outs, 10, BLOCK=16))
    assert (finding.kind, finding.tensor) == ("out-of-bounds-read", "inputs.1")


def test_grids_have_three_axes():
    y = torch.empty(2 * 3 * 4, dtype=torch.int32)
    assert not findings(lambda: odd.three_axes[(4, 3, 2)](y, BLOCK=1))
    x, b, a = torch.meshgrid(torch.arange(2), torch.arange(3), torch.arange(4), indexing="ij")
    assert torch.equal(y, (a + 10 * b + 100 * x).flatten().int())
    (finding,) = faults(lambda: odd.three_axes[(4, 3, 2)](y[:23], BLOCK=1))
    assert finding.program == (3, 2, 1)


def test_reinterpreted_pointers_keep_the_tensors_bounds():
    x, y = torch.randint(0, 255, (32,), dtype=torch.uint8), torch.empty(32, dtype=torch.uint8)
    as_fp8 = [triton.reinterpret(t, triton.language.float8e5) for t in (x, y)]
    assert not findings(lambda: odd.move[(2,)](*as_fp8, 32, BLOCK=16))
    assert torch.equal(x, y)
    found = faults(lambda: odd.move[(3,)](*as_fp8, 33, BLOCK=16))
    assert [(f.kind, f.element) for f in found] == [("out-of-bounds-read", (32,)), ("out-of-bounds-write", (32,))]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.bool,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int64,
        torch.float64,
    ],
)
def test_elements_of_every_size_are_moved_as_they_are(dtype):
    x = torch.randint(0, 2, (40,)).to(dtype)
    y = torch.zeros(40).to(dtype)
    assert not findings(lambda: odd.move[(3,)](x, y, 40, BLOCK=16))
    assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))
    assert [f.kind for f in faults(lambda: odd.move[(3,)](x[:39], y, 40, BLOCK=16))] == ["out-of-bounds-read"]


def test_a_pointer_of_no_argument_is_followed_or_told():
    x, y = torch.randn(16), torch.empty(16)
    assert not findings(lambda: odd.through_integer[(1,)](x.data_ptr(), y, BLOCK=16))
    assert torch.equal(x, y)
    (finding,) = faults(lambda: odd.through_integer[(1,)](1 << 40, y, BLOCK=16))
    assert (finding.kind, finding.lanes) == ("out-of-bounds-read", 16)
    assert "belongs to no tensor" in finding.message


def test_five_billion_elements_take_no_memory_and_no_time():
    def launcher(step):
        x = torch.empty(5_000, 1_000_000, dtype=torch.int8)
        y = torch.empty_like(x)
        for t in (x, y):
            t[0, :16], t[-1, :16] = 1, 2
        odd.ends[(2,)](x, y, 5_000, 1_000_000, BLOCK=16)
        odd.ends_in_place[(2,)](y, 5_000, 1_000_000, BLOCK=16, STEP=step)
        return y[0, 0].item(), y[-1, 0].item()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    execute(launcher, 1)
    start = time.perf_counter()
    result, executor = execute(launcher, 1)
    assert time.perf_counter() - start < 1
    assert result == (2, 3)
    assert not executor.findings()
    assert {f.kind for f in faults(launcher, 2)} == {"out-of-bounds-write"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB


def test_nothing_written_to_five_billion_elements_is_uninitialised():
    def launcher(filled):
        x = torch.empty(5_000, 1_000_000, dtype=torch.int8)
        if filled:
            x[0] = 0
        odd.ends_in_place[(2,)](x, 5_000, 1_000_000, BLOCK=16, STEP=1)

    assert {f.kind for f in faults(launcher, False)} == {"uninitialized-read"}
    assert not faults(launcher, True)
