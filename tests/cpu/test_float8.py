"""8-bit floats: the interpreter's conversions against PyTorch's, and outputs that hold them."""

import eight
import pytest
import torch

from tilewright.debug.child import Session
from tilewright.debug.options import DebugOptions
from tilewright.debug.stage import run
from tilewright.records import drain
from tilewright.spec import dtypes, golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import address


@pytest.fixture(scope="module")
def session():
    with Session(DebugOptions(executor="interpreter")) as session:
        yield session


def debugged(session, name):
    cases = [{"N": 131, "dtype": dtype} for dtype in getattr(eight, name).dtypes]
    return drain(
        run(name, address(getattr(eight, name)), DebugOptions(executor="interpreter", cases=cases), session),
        lambda event: None,
    )


@pytest.mark.parametrize("direction", ["to", "from"])
@pytest.mark.parametrize("kind", eight.KINDS)
def test_conversions_round_as_pytorch_does(session, kind, direction):
    report = debugged(session, f"{direction}_{str(kind).removeprefix('torch.')}")
    assert report.findings == ()
    assert all(result.error_over_tolerance == 0.0 for result in report.results)


def test_a_wrong_value_of_8_bits_is_found(session):
    assert [f.kind for f in debugged(session, "wrong_factor").findings] == ["mismatch"]


@pytest.mark.parametrize("kind", eight.KINDS)
def test_a_reference_may_return_8_bit_floats(kind):
    x = torch.linspace(-4, 4, 64)
    (expected,) = golden.expect(lambda x: (x * 3).to(kind), Inputs((x,), {}, ("x",)))
    right = (x * 3).to(kind)
    assert golden.compare(right, expected).disagreement is None
    wrong = right.clone()
    wrong[5] = -1.0
    assert golden.compare(wrong, expected).disagreement.worst_index == (5,)


@pytest.mark.parametrize("kind", eight.KINDS)
def test_values_too_large_for_8_bits_may_be_infinite_nan_or_the_largest(kind):
    x = torch.full((4,), 1e6)
    (expected,) = golden.expect(lambda x: x * 1.0, Inputs((x,), {}, ("x",)), declared=(kind,))
    largest = torch.finfo(kind).max
    assert golden.compare(torch.full((4,), largest).to(kind), expected).disagreement is None
    assert golden.compare(x.to(kind), expected).disagreement is None
    assert golden.compare(torch.ones(4).to(kind), expected).disagreement is not None


@pytest.mark.parametrize(("kind", "bits"), list(zip(eight.KINDS, (4, 3, 4, 3), strict=True)))
def test_roundoff_is_that_of_the_bits(kind, bits):
    assert dtypes.roundoff(kind) == 2.0**-bits
    assert dtypes.to_torch(dtypes.short(kind)) is kind
