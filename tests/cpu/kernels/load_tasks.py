"""A task for the tests of addresses."""

from tilewright.spec.load import resolve


def call_it(emit, *, where, case):
    operator = resolve(where)
    return operator.launch(operator.make_inputs(case)).tolist()
