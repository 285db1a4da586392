"""bfloat16 arithmetic of the interpreter, against torch."""

import half
import numpy as np
import pytest
import torch

from tilewright.debug.bfloat import narrow, widen
from tilewright.debug.child import Session
from tilewright.debug.options import DebugOptions
from tilewright.debug.stage import run
from tilewright.records import drain
from tilewright.spec.load import address


def bits(tensor: torch.Tensor) -> np.ndarray:
    return tensor.view(torch.int16).numpy().view(np.uint16)


def test_narrow_rounds_to_nearest_even_as_torch_does():
    values = torch.cat(
        [torch.randn(10_000), torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 3.4e38, 1e-40, 1.00390625, 1.01171875])]
    )
    assert (narrow(values.numpy()) == bits(values.bfloat16())).all()


def test_nan_stays_nan():
    assert np.isnan(widen(narrow(np.array([np.nan, -np.nan], dtype=np.float32)))).all()


@pytest.mark.parametrize("seed", range(3))
def test_widen_is_exact(seed):
    values = torch.randn(1000, generator=torch.Generator().manual_seed(seed)).bfloat16()
    assert (widen(bits(values)) == values.float().numpy()).all()


# ------------------------------------------------------------------------- whole kernels in the interpreter


@pytest.fixture(scope="module")
def session():
    with Session(DebugOptions(executor="interpreter")) as session:
        yield session


def check(session, name, **case):
    report = drain(
        run(name, address(getattr(half, name)), DebugOptions(executor="interpreter", cases=[case]), session),
        lambda event: None,
    )
    assert report.findings == (), report.findings[0].message


@pytest.mark.parametrize("name", ["summed", "largest", "smallest", "where_largest", "reduced", "scanned", "multiplied"])
@pytest.mark.parametrize("size", [16, 33])
def test_reductions_and_scans_of_bfloat16_are_of_numbers(session, name, size):
    check(session, name, M=3, N=size)


def test_a_reduction_over_all_axes_is_of_numbers(session):
    check(session, "total", N=33)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_combine_function_rounds_no_more_often_than_on_hardware(session, dtype):
    check(session, "reduced", M=16, N=1000, dtype=dtype)


@pytest.mark.parametrize("keep", [False, True])
def test_a_combine_function_may_carry_indices(session, keep):
    check(session, "largest_and_where", N=33, keep=keep)


def test_atomic_additions_of_bfloat16_are_of_numbers_lane_by_lane(session):
    check(session, "added", N=65)
    check(session, "histogram", N=65)


def test_printed_tiles_show_numbers(capfd):
    with Session(DebugOptions(executor="interpreter")) as session:
        check(session, "printing", N=4)
    assert "1.5" in capfd.readouterr().out
