"""Control flow that differs from program to program, against plain Python."""

import pytest
import torch
from conformance import control
from conformance.launching import run


@pytest.mark.parametrize(("kernel", "expected"), control.CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_programs_go_their_own_way(kernel, expected):
    assert not control.check(kernel, expected, torch.int64)


@pytest.mark.parametrize(("kernel", "expected"), control.CASES[::4], ids=lambda c: getattr(c, "__name__", ""))
def test_programs_go_one_way_together(kernel, expected):
    assert not control.check(kernel, expected, torch.int32, [5, 5, 5])


@pytest.mark.parametrize("bounds", [(0, 9, 2), (5, 5, 1), (7, 2, 1), (-3, 4, 3)])
def test_bounds_that_all_programs_share(bounds):
    assert not control.check_shared_bounds(*bounds)


def test_every_axis_of_the_grid():
    out = torch.zeros(4, 3, 2, dtype=torch.int64)
    run(control.k.programs, (2, 3, 4), out, out)
    x, y, z = torch.arange(2), torch.arange(3)[:, None], torch.arange(4)[:, None, None]
    assert torch.equal(out, x + 10 * y + 100 * z)
