"""Failing cases made small: by what they show alone, without a kernel, so that each minimum can be said in advance."""

import pytest

import tilewright as tw
from tilewright.debug import simpler
from tilewright.debug.shrink import MOST_TRIES, Shrinker
from tilewright.errors import UsageError
from tilewright.records import Case, CaseResult, Finding

FAULT = Finding("mismatch", "wrong", tensor="y_ptr", file="k.py", line=7)
BESIDE = Finding("mismatch", "wrong", tensor="z_ptr", file="k.py", line=7)


def inputs(M=64, N=64, shift=0, lens=(8,), value=1.0, flag=False, only=None, seed=0):
    raise AssertionError("no case is run")


OPERATOR = tw.Operator(name="op", run=lambda x: x, inputs=inputs, dtypes=("bf16", "fp16", "fp32"))


class Checked:
    """Shows the fault where a predicate of the case holds, and counts how often it was asked."""

    def __init__(self, fails, programs=lambda **arguments: 1, *, beside=True):
        self.fails, self.programs, self.beside, self.asked = fails, programs, beside, []

    def __call__(self, case):
        self.asked.append(case)
        fails = self.fails(case, **{**OPERATOR.default_arguments, **case.arguments})
        shown = (FAULT,) if fails else (BESIDE,) if self.beside else ()
        return CaseResult(case, shown, programs=self.programs(**case.arguments))


def shrunk(fails, arguments, programs=lambda **arguments: 1, **parts):
    case = Case("op", arguments, **parts)
    checked = Checked(fails, programs)
    smallest = Shrinker(OPERATOR, checked).shrink(Finding(**{**vars(FAULT), "case": case}), 60.0)
    assert len(checked.asked) <= 2 * MOST_TRIES
    assert not any(checked(simple).findings[0] is FAULT for simple in simpler.cases(OPERATOR, smallest)), "a minimum"
    return smallest


@pytest.mark.parametrize(
    ("fails", "arguments", "wanted"),
    [
        (lambda c, **a: True, dict(M=129, N=127), dict(M=1, N=1)),
        (lambda c, M, N, **a: M >= 3 and N > 32, dict(M=129, N=127), dict(M=3, N=33)),
        (lambda c, N, **a: N > 16 and N % 16 == 1, dict(N=97), dict(N=17)),
        (lambda c, N, **a: N == 0, dict(N=0), dict(N=0)),
        (lambda c, N, **a: N < 100, dict(N=0), dict(N=1)),
        (lambda c, M, N, **a: M == N and N > 4, dict(M=65, N=65), dict(M=5, N=5)),
        (lambda c, shift, **a: shift > 0, dict(N=50, shift=7), dict(N=1, shift=1)),
        (lambda c, shift, **a: shift < -1, dict(N=50, shift=-9), dict(N=1, shift=-2)),
        (lambda c, lens, **a: 0 in lens, dict(lens=(8, 0, 16, 3), N=16), dict(lens=(0,), N=1)),
        (lambda c, lens, **a: len(lens) > 1 and lens[1] > 2, dict(lens=(8, 5, 16)), dict(lens=(0, 3))),
        (lambda c, value, **a: True, dict(value=40.0, flag=True, only=32), dict(value=1.0, flag=False, only=None)),
        (lambda c, value, only, **a: value > 2 and only == 32, dict(value=40.0, only=32), dict(value=40.0, only=32)),
        (lambda c, **a: True, dict(N=65, BLOCK=128), dict(N=1)),
        (lambda c, BLOCK=64, **a: BLOCK == 128, dict(N=65, BLOCK=128), dict(N=1, BLOCK=128)),
    ],
)
def test_arguments_become_small_and_plain(fails, arguments, wanted):
    assert shrunk(fails, arguments).arguments == wanted


def test_layout_values_and_dtype_become_the_simplest_that_fail():
    smallest = shrunk(lambda c, **a: True, {"N": 4}, dtype="fp16", layout="sliced", values="huge", seed=3)
    assert smallest == Case("op", {"N": 1}, "bf16")
    smallest = shrunk(lambda c, **a: c.dtype != "bf16", {"N": 4}, dtype="fp16", layout="sliced")
    assert (smallest.dtype, smallest.layout) == ("fp32", "contiguous")


def test_of_two_minima_the_one_with_fewer_programs_is_taken():
    def either(case, M, N, **others):
        return max(M, N) > 16

    def rows(M, N):
        return M

    assert shrunk(either, dict(M=65, N=64), rows).arguments == dict(M=1, N=17)


def test_another_tensor_on_the_line_is_another_fault_and_refused_inputs_are_none():
    assert shrunk(lambda c, N, **a: N == 4, {"N": 4}).arguments == {"N": 4}

    def refusing(case):
        raise UsageError("no such sizes")

    case = Case("op", {"N": 4})
    assert Shrinker(OPERATOR, refusing).shrink(Finding(**{**vars(FAULT), "case": case}), 60.0) == case


def test_what_a_case_showed_is_known_to_the_next_finding():
    checked = Checked(lambda c, N, **a: N > 2)
    shrinker = Shrinker(OPERATOR, checked)
    for _ in range(2):
        finding = Finding(**{**vars(FAULT), "case": Case("op", {"N": 33, "M": 5})})
        assert shrinker.shrink(finding, 60.0).arguments == {"N": 3, "M": 1}
    assert len(checked.asked) == len({case.id for case in checked.asked})


def test_tries_bound_the_search():
    checked = Checked(lambda c, N, **a: N > 30)
    finding = Finding(**{**vars(FAULT), "case": Case("op", {"N": 5000})})
    assert Shrinker(OPERATOR, checked).shrink(finding, 60.0, tries=3) == finding.case
    assert len(checked.asked) == 3


def test_a_configuration_stays_wrong_where_the_default_one_is_right():
    checked = Checked(lambda c, N, BLOCK=64, **a: (BLOCK == 128 and N > 3) or N > 40, beside=False)
    finding = Finding(**{**vars(FAULT), "kind": "config-dependent", "case": Case("op", {"N": 33, "BLOCK": 128})})
    assert Shrinker(OPERATOR, checked).shrink(finding, 60.0).arguments == {"N": 4, "BLOCK": 128}
