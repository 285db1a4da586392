"""bfloat16 arithmetic of the interpreter, against torch."""

import numpy as np
import pytest
import torch

from tilewright.debug.bfloat import narrow, widen


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
