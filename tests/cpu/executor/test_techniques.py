"""Right kernels, in the techniques of tutorials and libraries: their values are PyTorch's and nothing is found."""

import attention
import library
import matmuls
import projects
import pytest
import rows
import torch
import waits
from execution import execute

FAMILIES = (rows, library, matmuls, attention, waits, projects)
TECHNIQUES = [technique for family in FAMILIES for technique in family.TECHNIQUES]


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.__name__)
def test_a_right_kernel_computes_what_pytorch_does_and_is_left_alone(technique):
    torch.manual_seed(0)
    pairs, executor = execute(technique)
    found = [f for f in executor.findings() if f.severity != "note"]
    assert not found, [(f.kind, f.line, f.source, f.message) for f in found]
    assert executor.complete
    for got, expected in pairs:
        tolerance = 2e-2 if got.dtype == torch.float16 else 1e-4
        torch.testing.assert_close(got, expected.to(got.dtype), atol=tolerance, rtol=tolerance)
