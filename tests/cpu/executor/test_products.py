"""Matrix products and atomics: samples of what proof/test_conformance.py goes through in full."""

import pytest
from conformance import atomics, products


@pytest.mark.parametrize("case", products.dots()[::4], ids=str)
def test_a_product_is_as_exact_as_its_precision(case):
    assert not case.check(seed=0)


@pytest.mark.parametrize("case", products.scaled()[::5], ids=str)
def test_a_scaled_product_decodes_its_formats(case):
    assert not case.check(seed=0)


def test_a_side_may_be_the_same_in_all_programs():
    assert not products.check_shared_side(seed=0)


@pytest.mark.parametrize("case", atomics.cases()[::5], ids=str)
def test_atomics_happen_one_after_the_other(case):
    assert not case.check(seed=0)


@pytest.mark.parametrize("dtype", ["int32", "uint64", "fp32"])
def test_compare_and_swap_happens_one_after_the_other(dtype):
    assert not atomics.check_swap(dtype, seed=0)


@pytest.mark.parametrize("dtype", ["int32", "fp32"])
def test_atomics_of_scalars_return_what_was_there(dtype):
    assert not atomics.check_scalar(dtype)
