"""Single operations on operands that hypothesis makes, bit by bit, and makes small where they differ from NumPy's."""

import torch
from conformance import lanewise
from conformance.comparing import first_wrong
from conformance.launching import lanewise as launched
from conformance.samples import DTYPES
from hypothesis import given, settings
from hypothesis import strategies as st

LANES = 64
CASES = [*lanewise.integer_cases(), *lanewise.floating_cases()]


def lanes(name):
    """Tensors of any bits of a dtype."""
    size = LANES * DTYPES[name].itemsize
    bits = st.binary(min_size=size, max_size=size).map(lambda b: torch.frombuffer(bytearray(b), dtype=torch.uint8))
    if name == "bool":
        return bits.map(lambda values: values % 2 == 1)
    return bits.map(lambda values: values.view(DTYPES[name]))


@st.composite
def operations(draw):
    case = draw(st.sampled_from(CASES))
    return case, case.prepare([draw(lanes(name)) for name in case.inputs])


def check(operation):
    case, inputs = operation
    got = launched(case.op, inputs, DTYPES[case.output])
    assert not first_wrong(got, case.expected(*inputs), case.ulps, inputs), str(case)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(operations())
def test_an_operation_on_any_bits_gives_what_the_hardware_does(operation):
    check(operation)
