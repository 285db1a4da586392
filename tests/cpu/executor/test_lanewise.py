"""Operations of single lanes against NumPy: a sample of what proof/test_conformance.py goes through in full."""

import pytest
import torch
from conformance import casting, lanewise
from conformance.comparing import first_wrong
from conformance.launching import lanewise as launched
from conformance.launching import run
from conformance.samples import DTYPES, operands

LANES = 256


@pytest.mark.parametrize("case", [*lanewise.integer_cases()[::9], *lanewise.floating_cases()[::5]], ids=str)
def test_an_operation_gives_what_the_hardware_does(case):
    inputs = case.draw(LANES, seed=0)
    got = launched(case.op, inputs, DTYPES[case.output])
    assert not first_wrong(got, case.expected(*inputs), case.ulps, inputs)


def converted(x, to, **options):
    out = torch.zeros(x.numel(), dtype=DTYPES[to])
    run(casting.cast_kernel, (x.numel() // 64,), x, out, TO=casting.TRITON[to], BLOCK=64, **options)
    return out


@pytest.mark.parametrize(("source", "to"), casting.pairs()[::13])
def test_a_conversion_rounds_once_and_saturates(source, to):
    (x,) = operands((source,), LANES, seed=1)
    got = converted(x, to, ROUNDING=None, BITCAST=False)
    assert not first_wrong(got, casting.cast(x, source, to), 0, [x])


@pytest.mark.parametrize(("source", "to"), casting.bitcasts()[::11])
def test_a_bitcast_keeps_every_bit(source, to):
    (x,) = operands((source,), LANES, seed=2)
    got = converted(x, to, ROUNDING=None, BITCAST=True)
    assert not first_wrong(got, casting.bits_as(x, to), 0, [x])


@pytest.mark.parametrize(("source", "to"), casting.CUT_SHORT[::2])
def test_rtz_rounds_towards_zero(source, to):
    (x,) = operands((source,), LANES, seed=3)
    got = converted(x, to, ROUNDING="rtz", BITCAST=False)
    assert not first_wrong(got, casting.towards_zero(x, to), 0, [x])
