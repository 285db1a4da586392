"""Kernels in the manner of real projects: right ones are left alone and compute what PyTorch does."""

import assembly
import pytest
import torch
from execution import execute

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
