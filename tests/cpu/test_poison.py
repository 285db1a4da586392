"""Poisoned memory: every allocation without values is filled, and what nobody wrote is told from what somebody did."""

import pytest
import torch

from tilewright.spec.poison import Poisoned, poison, untouched

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e5m2,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_shows_until_it_is_overwritten(dtype):
    tensor = torch.zeros(2, 3, dtype=dtype)
    poison(tensor)
    assert untouched(tensor).all()
    if dtype.is_floating_point:
        assert tensor.float().isnan().all()
    tensor[0, 1] = 1
    assert untouched(tensor).tolist() == [[True, False, True], [True, True, True]]


def test_a_nan_that_arithmetic_made_is_not_poison():
    tensor = torch.full((4,), torch.inf) - torch.inf
    assert tensor.isnan().all()
    assert not untouched(tensor).any()


@pytest.mark.parametrize(
    "allocate",
    [
        lambda x: torch.empty(3, 4),
        lambda x: torch.empty_like(x),
        lambda x: x.new_empty(5),
        lambda x: torch.empty_strided((3, 2), (2, 1)),
        lambda x: x.new_empty_strided((3, 2), (2, 1)),
    ],
)
def test_allocations_without_values_are_poisoned_and_remembered(allocate):
    x = torch.ones(3, 4)
    with Poisoned() as mode:
        tensor = allocate(x)
        assert untouched(tensor).all()
        assert mode.allocated(tensor)
        assert not mode.allocated(torch.zeros(3))
    assert not mode.allocated(x)


def test_code_that_torch_compiles_allocates_poison_too():
    compiled = torch.compile(lambda x: torch.empty_like(x), backend="eager")
    with Poisoned() as poisoned:
        fresh = compiled(torch.zeros(8))
    assert poisoned.allocated(fresh)
    assert untouched(fresh).all()
