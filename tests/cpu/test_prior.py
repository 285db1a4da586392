"""The arithmetic counted in kernels, and the order that the model makes of configurations."""

import json
from collections import defaultdict
from pathlib import Path

import counted
import launchers
import pytest
import torch

import tilewright as tw
from tilewright.hardware.targets import find
from tilewright.launch.capture import capture, record
from tilewright.launch.compile import lower
from tilewright.records import Case, Note, Resources, from_dict
from tilewright.spec.load import load
from tilewright.tune import arithmetic, candidates, feasible, prior
from tilewright.tune.dots import dots, largest_tile

H100, A100, MI300 = find("h100"), find("a100"), find("mi300x")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
ONE = 2.0 * 16**3  # operations of one product of 16x16 tiles


def caught(kernel, grid, *arguments, **options):
    launches = []
    with capture(launches.append, H100, executes=False):
        kernel[grid](*arguments, **options)
    (launch,) = launches
    return launch, lower(launch, H100)


def counted_in(kernel, grid, *arguments, dtype=torch.float16, **options):
    x = torch.empty(4 * 64 * 64, dtype=dtype)
    launch, lowered = caught(kernel, grid, x, x.float(), *arguments, B=16, **options)
    found = arithmetic.count(lowered.ttir, launch.arguments, launch.grid)
    return None if found is None else sum(found.values())


# ---------------------------------------------------------------------------------------------------- counting


def test_a_loop_whose_bound_is_an_argument_is_counted_with_its_padding():
    assert counted_in(counted.plain, (6, 2), 100) == 12 * 7 * ONE
    assert counted_in(counted.plain, (6, 2), 1) == 12 * ONE  # specialised to a constant
    assert counted_in(counted.plain, (6, 2), 0) == 0


def test_bounds_that_depend_on_the_program_are_averaged_over_the_grid():
    assert counted_in(counted.triangle, (8,)) == 36 * ONE
    assert counted_in(counted.triangle, (1000,)) == pytest.approx(500_500 * ONE, rel=0.01)


def test_a_persistent_kernel_is_counted_over_all_its_tiles():
    assert counted_in(counted.persistent, (12,), 60, 64) == 60 * 4 * ONE


def test_bounds_that_depend_on_an_outer_loop_are_averaged_over_it():
    assert counted_in(counted.nested, (1,), 6) == 21 * ONE
    assert counted_in(counted.nested, (1,), 100) == pytest.approx(5050 * ONE, rel=0.02)


def test_programs_that_leave_early_and_branches_count_what_runs():
    assert counted_in(counted.leaves_early, (16,), 4) == 4 * ONE
    assert counted_in(counted.every_other, (10,)) == 5 * ONE


def test_what_depends_on_data_has_no_count():
    lengths = torch.ones(4, dtype=torch.int32)
    assert counted_in(counted.as_data_says, (4,), lengths) is None
    assert counted_in(counted.until_data_says, (4,), lengths) is None


def test_batches_and_kernels_without_dots():
    assert counted_in(counted.batched, (3,)) == 3 * 4 * ONE
    assert counted_in(counted.no_dot, (3,), 100) == 0


@pytest.mark.parametrize(
    ("dtype", "precision", "peak", "products"),
    [
        (torch.float16, "tf32", "fp16", 1),
        (torch.bfloat16, "tf32", "bf16", 1),
        (torch.float32, "tf32", "tf32", 1),
        (torch.float32, "tf32x3", "tf32", 3),
        (torch.float32, "ieee", "fp32", 1),
        (torch.float8_e5m2, "tf32", "fp8", 1),
    ],
)
def test_a_dots_dtype_is_that_of_its_operands(dtype, precision, peak, products):
    x = torch.empty(32 * 32, dtype=dtype)
    _, lowered = caught(counted.plain, (1,), x, x.float(), 64, B=32, PRECISION=precision)
    (dot,) = dots(lowered.ttir)
    assert (dot.peak, dot.products, dot.element_bytes) == (peak, products, dtype.itemsize)
    assert (dot.rows, dot.columns, dot.depth) == (32, 32, 32)
    assert largest_tile(lowered.ttir) == 32 * 32


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matmul", dict(M=512, N=256, K=1024)),
        ("attention", dict(B=1, H=2, G=1, M=256, N=256, D=64)),
        ("attention", dict(B=1, H=2, G=1, M=512, N=512, D=64, causal=True)),
    ],
)
def test_the_librarys_kernels_count_what_they_declare(name, sizes):
    (operator,) = load(name)
    case = Case(name, sizes, "bf16")
    launches = record(operator, operator.make_inputs(case, drawn=False), H100, next(iter(operator.space)))
    work = prior.work_of(launches, [lower(launch, H100) for launch in launches], None)
    assert work.known
    # A causal kernel does whole blocks along the diagonal.
    assert sum(work.dots.values()) == pytest.approx(operator.flops_of(case), rel=0.1)


# ---------------------------------------------------------------------------------------------------- the order


def times(operator, case, target=H100, **fields):
    report = tw.tune(operator, targets=[target], cases=[case], workers=2, **fields)
    (trials,) = report.trials.values()
    return trials


def test_without_a_declaration_the_dots_give_dtype_and_amount():
    halves = tw.Operator(name="halves", run=run_plain, inputs=half_inputs)
    floats = tw.Operator(name="floats", run=run_plain, inputs=float_inputs)
    (half,), (single,) = times(halves, {}), times(floats, {})
    busy = [t.predicted_seconds - prior.LAUNCH_SECONDS for t in (half, single)]
    assert busy[1] > 1.5 * busy[0] > 100e-6
    flops = 2.0 * 64**3 * 64 * 20_000
    assert half.predicted_seconds > flops / H100.peak["fp16"]


def run_plain(x, y):
    counted.plain[(20_000,)](x, y, 64 * 64, B=64)
    return y


def half_inputs():
    return torch.empty(64 * 64, dtype=torch.float16), torch.empty(64 * 64)


def float_inputs():
    return torch.empty(64 * 64), torch.empty(64 * 64)


def test_a_chip_without_a_unit_computes_in_another():
    for peak in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"):
        assert all(prior._peak(chip, peak) > 0 for chip in (A100, H100, MI300))
    assert prior._peak(A100, "fp8") == A100.peak["fp16"]


def run_as_data_says(x, y, lengths):
    counted.as_data_says[(4,)](x, y, lengths, B=16)
    return y


def test_where_nothing_is_known_but_bytes_it_is_said():
    def inputs():
        return torch.empty(256, dtype=torch.float16), torch.empty(256), torch.ones(4, dtype=torch.int32)

    operator = tw.Operator(name="varied", run=run_as_data_says, inputs=inputs)
    case = Case("varied", {})
    made = operator.make_inputs(case)
    events = list(feasible.survey(operator, case, made, candidates.configurations(operator, made, H100), H100, None))
    (note,) = [event.text for event in events if isinstance(event, Note)]
    assert "bytes only" in note


def test_traffic_counts_what_goes_in_and_what_kernels_get_once():
    x, y = torch.empty(100), torch.empty(50)
    launch, _ = caught(launchers.double_kernel, (2,), x, y, 100, BLOCK=64)
    operator = tw.Operator(name="double", run=launchers.double, inputs=lambda: (x,))
    assert candidates.moved_bytes(operator.make_inputs(Case("double", {})), [launch, launch]) == 4 * 150


def seconds_of(programs, block, warps, *, elements=2**24):
    x = torch.empty(2**24, device="meta")
    launch, lowered = caught(counted.no_dot, (programs,), x, x, elements, B=block, num_warps=warps)
    needs = Resources(0, 32, 0, 0, 0, warps, 0.0)
    return prior.predict(H100, [launch], [lowered], [needs], prior.Work(), bytes=8 * elements)


def test_tiny_tiles_are_not_ranked_first():
    for elements in (1000, 100_000, 2**24):
        ranked = {
            (block, warps): seconds_of(-(-elements // block), block, warps, elements=elements)
            for block in (16, 64, 256, 1024, 4096)
            for warps in (1, 4, 8)
        }
        best = min(ranked.values())
        assert ranked[1024, 4] <= 1.2 * best, (elements, ranked)
        if elements > 1000:
            assert ranked[16, 8] > 1.2 * best


@pytest.mark.parametrize(
    ("file", "shape", "worst"),
    [
        ("h200_matmul.json", dict(M=16, N=4096, K=4096), 1.1),
        ("h200_matmul.json", dict(M=1000, N=1000, K=1000), 1.1),
        ("h200_masked_softmax.json", dict(M=16384, N=1000), 1.1),
        ("h200_masked_softmax.json", dict(M=262144, N=64), 1.1),
    ],
)
def test_the_first_in_the_order_is_nearly_the_fastest_of_the_recorded_trials(file, shape, worst):
    """Against what an H200 measured, with the resources that its compiler gave."""
    groups = defaultdict(list)
    for data in json.loads((RESULTS / file).read_text())["records"]:
        if data["type"] == "Trial" and data["status"] == "timed":
            trial = from_dict(data)
            groups[trial.case.id].append(trial)
    (trials,) = [group for group in groups.values() if dict(group[0].case.arguments) == shape]
    target = find("h200")
    (operator,) = load(trials[0].operator)
    case = trials[0].case
    inputs = operator.make_inputs(case, drawn=False)

    def predicted(trial):
        launches = record(operator, inputs, target, trial.config)
        lowered = [lower(launch, target) for launch in launches]
        work = prior.work_of(launches, lowered, operator.flops_of(case))
        moved = candidates.moved_bytes(inputs, launches)
        return prior.predict(target, launches, lowered, trial.resources, work, bytes=moved)

    first = min(trials, key=predicted)
    assert first.median_seconds <= worst * min(trial.median_seconds for trial in trials)
