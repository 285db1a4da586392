"""Faults and limits that kernels of real projects brought up; their right ones are among the techniques."""

import polling
import pytest
import reduced
import torch
import triton.language as tl
from execution import execute, faults, tagged

import tilewright as tw


def _product(x, w, wrong=False):
    y = torch.empty(x.shape[0], w.shape[1])
    reduced._product[(1,)](x, w, y, WRONG=wrong)
    return y


@pytest.mark.parametrize("wrong", [False, True])
def test_what_tf32_products_alone_change_is_a_warning_with_that_cause(wrong):
    """The wrong one drops a thousandth of each product: as much as tf32 might, but exact products show it too."""
    made = tw.Operator(
        name="product",
        run=lambda x, w: _product(x, w, wrong),
        reference=lambda x, w: x @ w,
        inputs=lambda: (torch.randn(16, 16), torch.randn(16, 16)),
    )
    (finding,) = tw.debug(made, cases=[{}]).findings
    assert (finding.kind, finding.severity) == ("mismatch", "error" if wrong else "warning")
    assert finding.cause == ("unknown" if wrong else "reduced-precision-dot")


polls = pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="this Triton has no tl.atomic_poll")


@polls
@pytest.mark.parametrize("last", [False, True])
def test_who_polls_sees_what_was_released(last):
    (y, expected), executor = execute(polling.handed_over, "release", last)
    assert not executor.findings()
    assert executor.complete
    torch.testing.assert_close(y, expected)


@polls
def test_a_relaxed_store_hands_nothing_over():
    (finding,) = faults(polling.handed_over, "relaxed")
    assert (finding.kind, tagged(finding)) == ("read-write-race", "read")


@polls
def test_a_poll_for_what_never_comes_is_a_deadlock_and_with_a_timeout_an_answer():
    (finding,) = faults(polling.polled_for_nothing, None)
    assert (finding.kind, tagged(finding)) == ("deadlock", "poll")
    y, executor = execute(polling.polled_for_nothing, 100)
    assert not executor.findings()
    assert y.tolist() == [0, 0, 0]


def test_inputs_whose_gradients_are_declared_require_them():
    made = tw.Operator(
        name="doubled", run=lambda x: 2 * x, reference=lambda x: 2 * x, inputs=lambda: (torch.randn(4),), grad=("x",)
    )
    assert not tw.debug(made, cases=[{}]).findings
