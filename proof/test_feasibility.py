"""Shared memory known early is shared memory known exactly."""

import statistics

import pytest
from results import keep

from tilewright.errors import TilewrightError
from tilewright.hardware.targets import find
from tilewright.launch.capture import record
from tilewright.launch.compile import compile_many, lower
from tilewright.records import Case
from tilewright.spec.load import library_names, load

CHIPS = ("a100", "h100", "b200")
SHAPES = {
    "attention": dict(B=4, H=16, G=16, M=2048, N=2048, D=128),
    "matmul": dict(M=4096, N=4096, K=4096),
    "masked_softmax": dict(M=4096, N=4096),
}


@pytest.mark.parametrize("chip", CHIPS)
def test_the_early_stop_equals_the_full_compilation(chip):
    jobs = [job for name in library_names() for job in lowered(name, chip)]
    early = dict(compile_many(jobs, workers=2, shared_only=True))
    full = dict(compile_many(jobs, workers=2))
    assert len(early) == len(full) == len(jobs)
    both = [i for i in early if not isinstance(early[i], TilewrightError) and not isinstance(full[i], TilewrightError)]
    different = [i for i in both if early[i].resources.shared != full[i].resources.shared]
    limit = find(chip).shared_per_block
    figures = {
        "configurations": len(jobs),
        "distinct": len({job.key for job in jobs}),
        "compared": len(both),
        "different": len(different),
        "infeasible": sum(early[i].resources.shared > limit for i in both),
        "failed": len(jobs) - len(both),
        "early_seconds_median": round(statistics.median(early[i].resources.compile_seconds for i in both), 4),
        "full_seconds_median": round(statistics.median(full[i].resources.compile_seconds for i in both), 4),
    }
    keep(f"feasibility_{chip}", figures)
    assert not different
    assert figures["failed"] == 0
    assert figures["early_seconds_median"] < 0.25


def lowered(name, chip):
    (operator,) = load(name)
    inputs = operator.make_inputs(Case(name, SHAPES[name], "bf16"), drawn=False)
    target = find(chip)
    return [lower(launch, target) for config in operator.space for launch in record(operator, inputs, target, config)]
