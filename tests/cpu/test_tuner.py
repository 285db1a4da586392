"""The faults of @triton.autotune itself, and the usual usage that has none."""

from pathlib import Path

import pytest
import tuned

import tilewright as tw

SOURCE = Path(tuned.__file__).read_text().splitlines()


def line_of(text):
    return next(number for number, line in enumerate(SOURCE, 1) if text in line)


def faults(report):
    """Findings without notes: sums by atomics are said to be so in any case."""
    return [finding for finding in report.findings if finding.severity != "note"]


def only(report):
    (finding,) = faults(report)
    return finding


# ------------------------------------------------------------------------------------------------- mutation


def test_an_accumulator_that_the_tuner_never_zeroes():
    finding = only(tw.debug(tuned.sum_never_reset, [dict(n=5)]))
    assert (finding.kind, finding.severity, finding.tensor) == ("autotune-mutation", "error", "total_ptr")
    assert finding.line == line_of("def sum_kernel"), "it is tuned without a decorator"
    assert finding.remedy == '@triton.autotune(..., reset_to_zero=["total_ptr"])'
    assert "after one such run 1 of 1 elements of output are wrong" in finding.message


def test_buffers_updated_in_place_have_to_be_put_back():
    finding = only(tw.debug(tuned.step_never_restored, [dict(N=70)]))
    assert (finding.kind, finding.severity, finding.tensor) == ("autotune-mutation", "error", "p_ptr")
    assert finding.line == line_of("the decorator, not the kernel's def") - 1
    assert finding.remedy == '@triton.autotune(..., restore_value=["p_ptr", "m_ptr"])'


def test_zeroing_what_holds_values_is_no_remedy():
    finding = only(tw.debug(tuned.step_zeroed, [dict(N=70)]))
    assert finding.kind == "autotune-mutation"
    assert finding.remedy == 'restore_value=["p_ptr", "m_ptr"] instead of reset_to_zero'


def test_one_configuration_of_several_may_be_the_one_that_accumulates():
    report = tw.debug(tuned.split_sum)
    finding = only(report)
    assert (finding.kind, finding.tensor) == ("autotune-mutation", "y_ptr")
    assert finding.message.endswith("in configuration BLOCK=64 SPLIT=2")


@pytest.mark.parametrize(
    "name",
    ["sum_reset", "sum_hooked", "sum_config_hooked", "sum_of_one_configuration", "step_restored", "relu_in_place"],
)
def test_what_a_tuner_may_run_twice_is_silent(name):
    assert faults(tw.debug(getattr(tuned, name))) == []


def test_host_code_that_tries_configurations_on_live_data_is_wrong_as_it_stands():
    assert only(tw.debug(tuned.tuned_by_hand, [dict(N=70)])).kind == "mismatch"


# ----------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("name", "held", "words"),
    [
        ("key_with_a_step", "seed", "with equal inputs: every call tunes again"),
        ("key_with_a_pointer", "seed", "with equal inputs: every call tunes again"),
        ("key_with_a_tensor", "x_ptr", "a tensor, which equals itself alone"),
        ("key_with_a_drawn_scale", "scale", "in another with other values"),
    ],
)
def test_a_key_that_changes_with_every_call(name, held, words):
    finding = only(tw.debug(getattr(tuned, name), [dict(N=40)]))
    assert (finding.kind, finding.severity, finding.tensor) == ("autotune-key", "error", held)
    assert words in finding.message
    assert finding.remedy == '@triton.autotune(..., key=["n"])'
    assert finding.line == line_of("def noisy_kernel")


@pytest.mark.parametrize(("name", "held"), [("key_with_a_seed", "seed"), ("key_with_a_fixed_scale", "scale")])
def test_a_key_that_holds_what_no_choice_depends_on(name, held):
    finding = only(tw.debug(getattr(tuned, name), [dict(N=40)]))
    assert (finding.kind, finding.severity, finding.tensor) == ("autotune-key", "warning", held)
    assert "nothing of what it reads and writes" in finding.message


@pytest.mark.parametrize(
    ("name", "missing", "words"),
    [
        ("key_of_nothing", "n", "its programs read and write 32 elements at N=16 and 256 at N=128"),
        ("key_by_rows_alone", "n_columns", "one program reads and writes 17 elements at N=16 and 129 at N=128"),
    ],
)
def test_a_key_without_the_size_that_moves_the_work(name, missing, words):
    finding = only(tw.debug(getattr(tuned, name), [{}]))
    assert (finding.kind, finding.severity, finding.tensor) == ("autotune-key", "warning", missing)
    assert words in finding.message
    assert f'"{missing}"' in finding.remedy


@pytest.mark.parametrize(
    ("name", "missing", "words"),
    [
        ("pruned_by_what_the_key_misses", "n_columns", "launched there, it ends in mismatch"),
        ("refused_where_the_key_misses_it", "D", "a static assertion refuses it"),
    ],
)
def test_a_choice_of_one_size_that_is_wrong_at_another_of_the_same_key(name, missing, words):
    finding = only(tw.debug(getattr(tuned, name)))
    assert (finding.kind, finding.severity, finding.tensor) == ("autotune-key", "error", missing)
    assert words in finding.message
    assert finding.remedy == f'@triton.autotune(..., key=["{missing}"])'


@pytest.mark.parametrize(
    "name",
    [
        "key_by_size",
        "key_by_a_bucket",
        "key_by_columns_alone",
        "key_by_both",
        "pruned_by_the_key",
        "refused_by_the_key",
    ],
)
def test_usual_keys_are_silent(name):
    report = tw.debug(getattr(tuned, name))
    assert faults(report) == []
    assert report.complete
