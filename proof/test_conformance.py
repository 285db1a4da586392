"""Every operation of the checked executor on every dtype, against NumPy, torch, fractions and Triton's interpreter.

The cases and their references are those of tests/cpu/executor/conformance, of which the tests run a sample.
"""

import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from results import keep

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "cpu" / "executor"))

from conformance import atomics, casting, control, lanewise, library, mixtures, products, random_numbers, tiles, values
from conformance.comparing import apart, first_wrong
from conformance.launching import lanewise as launched
from conformance.launching import run
from conformance.samples import DTYPES, operands
from hypothesis import given, settings
from test_generated import check as check_operation
from test_generated import operations

LANES = 4096
SEEDS = range(3)


def keep_checks(study: str, checks: list) -> list[str]:
    """Runs named checks, each of which gives what is wrong or nothing; keeps how many there were of each name."""
    begin = time.perf_counter()
    counts: dict[str, int] = defaultdict(int)
    wrong = []
    for name, check in checks:
        counts[name] += 1
        if words := check():
            wrong.append(f"{name}: {words}")
    seconds = round(time.perf_counter() - begin, 1)
    keep(f"conformance_{study}", {"checks": dict(counts), "wrong": wrong, "seconds": seconds})
    return wrong


@pytest.mark.parametrize("family", ["integer", "floating", "library"])
def test_single_operations(family):
    cases = {"integer": lanewise.integer_cases, "floating": lanewise.floating_cases, "library": library.cases}[family]()
    worst: dict[str, dict] = {}
    wrong = []
    for case in cases:
        entry = worst.setdefault(case.name, {"dtypes": [], "lanes": 0, "ulps": 0, "allowed": case.ulps})
        entry["dtypes"].append("-".join(case.inputs))
        for seed in SEEDS:
            inputs = case.draw(LANES, seed)
            got, expected = launched(case.op, inputs, DTYPES[case.output]), case.expected(*inputs)
            entry["lanes"] += LANES
            entry["ulps"] = max(entry["ulps"], int(apart(got, expected).max()))
            if words := first_wrong(got, expected, case.ulps, inputs):
                wrong.append(f"{case}: {words}")
    keep(f"conformance_{family}", {"operations": worst, "wrong": wrong})
    assert not wrong


def conversions() -> list:
    found = []
    for seed in SEEDS:
        for source, to in casting.pairs():
            found.append(("cast", source, to, dict(ROUNDING=None, BITCAST=False), casting.cast, seed))
        for source, to in casting.bitcasts():
            found.append(("bitcast", source, to, dict(ROUNDING=None, BITCAST=True), as_bits, seed))
        for source, to in casting.CUT_SHORT:
            found.append(("rtz", source, to, dict(ROUNDING="rtz", BITCAST=False), cut_short, seed))
    return found


def as_bits(x: torch.Tensor, source: str, to: str) -> torch.Tensor:
    return casting.bits_as(x, to)


def cut_short(x: torch.Tensor, source: str, to: str) -> torch.Tensor:
    return casting.towards_zero(x, to)


def converted(source: str, to: str, options: dict, expected, seed: int) -> str:
    (x,) = operands((source,), LANES, seed)
    out = torch.zeros(LANES, dtype=DTYPES[to])
    run(casting.cast_kernel, (LANES // 64,), x, out, TO=casting.TRITON[to], BLOCK=64, **options)
    words = first_wrong(out, expected(x, source, to), 0, [x])
    return f"{source} to {to}: {words}" if words else ""


def test_conversions():
    checks = [
        (name, lambda a=a, b=b, o=options, e=expected, s=seed: converted(a, b, o, e, s))
        for name, a, b, options, expected, seed in conversions()
    ]
    assert not keep_checks("conversions", checks)


@pytest.mark.filterwarnings("ignore:view is deprecated")
def test_tiles():
    families = (tiles.integer_reductions, tiles.scans, tiles.floating_reductions, tiles.spread_reductions, tiles.shapes)
    every = [case for family in families for case in family()]
    assert not keep_checks("tiles", [(c.name, lambda c=c, s=seed: c.check(s)) for seed in SEEDS for c in every])


def test_what_is_kept_once():
    every = lanewise.uneven_cases()
    checks = [(c.name, lambda c=c, s=seed: lanewise.check_outer(c, s)) for seed in SEEDS for c in every]
    checks += [(c.name, lambda c=c, s=seed: lanewise.check_scalar(c, s)) for seed in SEEDS for c in every]
    assert not keep_checks("kept_once", checks)


def test_products():
    checks = [(f"dot {c}", lambda c=c, s=seed: c.check(s)) for seed in SEEDS for c in products.dots()]
    checks += [(f"dot_scaled {c}", lambda c=c, s=seed: c.check(s)) for seed in SEEDS for c in products.scaled()]
    checks += [("a shared side", lambda s=seed: products.check_shared_side(s)) for seed in SEEDS]
    assert not keep_checks("products", checks)


def test_atomics():
    checks = [(str(c), lambda c=c, s=seed: c.check(s)) for seed in SEEDS for c in atomics.cases()]
    for dtype in ("int32", "int64", "uint32", "uint64", "fp16", "bf16", "fp32", "fp64"):
        checks += [(f"cas-{dtype}", lambda d=dtype, s=seed: atomics.check_swap(d, s)) for seed in SEEDS]
    checks += [(f"scalar-{d}", lambda d=d: atomics.check_scalar(d)) for d in ("int32", "int64", "fp32", "fp64")]
    assert not keep_checks("atomics", checks)


def test_control_flow_and_values():
    checks = []
    for kernel, expected in control.CASES:
        for dtype in (torch.int64, torch.int32):
            checks.append((kernel.__name__, lambda k=kernel, e=expected, d=dtype: control.check(k, e, d)))
    checks += [
        ("shared_bounds", lambda b=b: control.check_shared_bounds(*b)) for b in ((0, 9, 2), (5, 5, 1), (-3, 4, 3))
    ]
    checks += [("constants", values.check_constants), ("promotions", values.check_promotions)]
    checks.append(("divisions", values.check_divisions))
    checks += [("choices", lambda s=s: values.check_choices(s)) for s in SEEDS]
    checks += [("map_elementwise", lambda s=s: values.check_elementwise(s)) for s in SEEDS]
    mixed = (mixtures.check_welford, mixtures.check_segments, mixtures.check_truths)
    checks += [(check.__name__, lambda c=check, s=seed: c(s)) for check in mixed for seed in SEEDS]
    checks.append(("statements", mixtures.check_statements))
    assert not keep_checks("control_and_values", checks)


def test_random_numbers(tmp_path):
    def differs(seed: int) -> str:
        ours, stock = random_numbers.drawn(seed), random_numbers.by_interpreter(seed, tmp_path)
        exact = all(torch.equal(a, b) for a, b in zip(ours[:3], stock[:3], strict=True))
        near = torch.allclose(ours[3], stock[3], atol=1e-6)
        return "" if exact and near else f"seed {seed} differs from Triton's interpreter"

    seeds = (0, 1, 12345, 2**31, 2**40 + 7, 2**63 - 1, -3)
    checks = [("philox", lambda s=s: random_numbers.check(s)) for s in seeds]
    checks += [("interpreter", lambda s=s: differs(s)) for s in seeds]
    assert not keep_checks("random", checks)


@settings(max_examples=3000, deadline=None, derandomize=True)
@given(operations())
def test_operands_of_any_bits(operation):
    check_operation(operation)
