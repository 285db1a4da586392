"""Kernels in the manner of real projects: right ones are left alone and compute what PyTorch does."""

import assembly
import pytest
import reduced
import torch
from execution import execute

import tilewright as tw

TECHNIQUES = [*assembly.TECHNIQUES]


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.__name__)
def test_a_right_kernel_is_left_alone(technique):
    torch.manual_seed(0)
    pairs, executor = execute(technique)
    found = [f for f in executor.findings() if f.severity != "note"]
    assert not found, [(f.kind, f.line, f.source, f.message) for f in found]
    assert executor.complete
    for got, expected in pairs:
        tolerance = 2e-2 if got.dtype == torch.float16 else 1e-4
        torch.testing.assert_close(got, expected.to(got.dtype), atol=tolerance, rtol=tolerance)


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
