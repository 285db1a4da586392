"""Constants, promotions, choices, random numbers, libdevice, and operands that are alike in some axes or programs."""

import pytest
import torch
from conformance import kernels_lanewise, lanewise, library, mixtures, random_numbers, values
from conformance.comparing import first_wrong
from conformance.launching import binary_kernel, run
from conformance.launching import lanewise as launched
from conformance.samples import DTYPES


def test_constants_are_what_the_source_says():
    assert not values.check_constants()


def test_operands_of_two_types_meet_as_triton_has_it():
    assert not values.check_promotions()


def test_indices_are_divided_by_numbers():
    assert not values.check_divisions()


def test_a_choice_may_hang_on_the_program_the_lane_or_both():
    assert not values.check_choices(seed=0)


def test_a_scalar_function_runs_on_every_lane_and_on_packs():
    assert not values.check_elementwise(seed=0)


@pytest.mark.parametrize("check", [mixtures.check_welford, mixtures.check_segments, mixtures.check_truths])
def test_combine_functions_take_tuples_of_several_types_and_truth_values(check):
    assert not check(seed=0)


def test_hints_and_options_of_loops_change_nothing():
    assert not mixtures.check_statements()


def test_fp8_takes_part_in_no_arithmetic():
    x, out = torch.ones(64).to(torch.float8_e5m2), torch.zeros(64)
    executor = run(binary_kernel, (1,), x, x, out, OP=kernels_lanewise.add, BLOCK=64, allowed=("unsupported",))
    assert not executor.complete
    assert "convert to a wider type" in executor.findings()[0].message


@pytest.mark.parametrize("seed", [0, 2**40 + 7, -3])
def test_random_numbers_are_philox(seed):
    assert not random_numbers.check(seed)


@pytest.mark.parametrize("case", library.cases()[::8], ids=str)
def test_a_library_function_is_as_near_as_cuda_promises(case):
    inputs = case.draw(128, seed=0)
    assert not first_wrong(launched(case.op, inputs, DTYPES[case.output]), case.expected(*inputs), case.ulps, inputs)


@pytest.mark.parametrize("case", lanewise.uneven_cases()[::11], ids=str)
def test_what_is_kept_once_counts_for_all(case):
    assert not lanewise.check_outer(case, seed=0)
    assert not lanewise.check_scalar(case, seed=0)
