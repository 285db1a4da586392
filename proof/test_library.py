"""The library's operators against float64: every configuration, and cases drawn at random."""

import random

import pytest
from results import keep

from tilewright.debug.child import Session
from tilewright.debug.options import DebugOptions
from tilewright.debug.stage import run
from tilewright.records import Case, drain
from tilewright.spec.inputs import LAYOUTS
from tilewright.spec.load import address, library_names, load

RAGGED = {
    "attention": dict(B=1, H=2, G=1, M=129, N=127, D=80),
    "matmul": dict(M=129, N=127, K=65),
    "masked_softmax": dict(M=37, N=1025),
}
LARGEST = {"attention": 150, "matmul": 200, "masked_softmax": 300}
DRAWN = 300


@pytest.mark.parametrize("name", library_names())
def test_random_cases(name):
    (operator,) = load(name)
    cases = drawn(operator, DRAWN)
    options = DebugOptions(exact=cases, budget_seconds=None, shrink_seconds=30)
    with Session(options) as session:
        report = drain(run(name, address(operator), options, session), lambda event: None)
    worst = max(r.error_over_tolerance or 0.0 for r in report.results)
    keep(
        f"library_{name}", {"cases": len(cases), "findings": len(report.findings), "worst_error_over_tolerance": worst}
    )
    assert report.findings == ()


def drawn(operator, count):
    source = random.Random(operator.name)
    found = []
    while len(found) < count:
        sizes = {dim: source.choice([1, 2, 3, source.randint(1, LARGEST[operator.name])]) for dim in operator.dims}
        sizes |= {name: source.choice(options) for name, options in operator.choices.items()}
        sizes |= {name: min(sizes[name], 4) for name in ("B", "H", "G") if name in sizes}
        if operator.allows(sizes):
            found.append(
                Case(
                    operator.name, sizes, source.choice(operator.dtypes), source.choice(list(LAYOUTS)), seed=len(found)
                )
            )
    return found


@pytest.mark.parametrize("name", library_names())
def test_every_configuration_on_a_ragged_case(name):
    (operator,) = load(name)
    case = Case(name, RAGGED[name], "bf16")
    options = DebugOptions()
    with Session(options) as session:
        wrong = session.check_configs(address(operator), case, list(operator.space), options)
    assert wrong == {}
