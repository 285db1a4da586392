"""Timing on a real GPU: regimes, overhead, clocks, ceilings, and launchers that work on streams of their own."""

import pytest
import streams
import torch

from tilewright.bench import ceiling, summary, worker
from tilewright.bench.device import REGIMES, DeviceTimer
from tilewright.bench.held import Held
from tilewright.bench.launched import kernels
from tilewright.errors import LauncherFailed
from tilewright.records import Case
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import address


def measured(operator, regime="cold", seconds=0.4):
    case = Case(operator.name, {}, seed=0)
    job = worker.Job(
        address(operator), case, case, "a", "cuda", seconds, 0, False, 0.02, compile=False, regime=regime,
        baselines=("eager",),
    )  # fmt: skip
    return worker.measure_shape(lambda event: None, job=job)


@pytest.mark.parametrize("name", ["runs_at_once", "is_not_waited_for"])
def test_work_that_the_callers_stream_does_not_wait_for_is_caught(name):
    with pytest.raises(LauncherFailed, match="not right while timed|wrong at"):
        measured(getattr(streams, name))


def test_a_stream_that_is_joined_is_left_alone():
    taken = measured(streams.is_joined)
    assert taken.sides[0] == "ours"
    assert taken.launch_overhead < 20e-6
    assert 500 < min(taken.clock_mhz) <= max(taken.clock_mhz) < 4000
    assert taken.bound_seconds < min(taken.seconds)
    assert taken.kernels["eager"]
    assert "float32 products in ieee" in taken.precisions["eager"][0]


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_times_a_copy(regime):
    timer = DeviceTimer(regime)
    x = torch.randn(1 << 26, device="cuda")
    call = timer.ready(Held(lambda inputs: inputs.args[0] * 2, Inputs((x,), {}, ("x",))))
    seconds = sorted(timer.time(call).seconds for _ in range(9))[4]
    assert 2 * x.numel() * 4 / 10e12 < seconds < 5e-3


def test_a_cold_cache_is_colder_than_a_warm_one():
    x = torch.randn(1 << 21, device="cuda")
    call = Held(lambda inputs: inputs.args[0].sum(), Inputs((x,), {}, ("x",)))
    typical = {}
    for regime in ("cold", "warm"):
        timer = DeviceTimer(regime)
        typical[regime] = sorted(timer.time(timer.ready(call)).seconds for _ in range(21))[10]
    assert typical["cold"] > 1.05 * typical["warm"]


def test_a_slowed_call_is_slower_by_its_share():
    timer = DeviceTimer("cold")
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    call = timer.ready(Held(lambda inputs: inputs.args[0] @ inputs.args[0], Inputs((x,), {}, ("x",))))
    typical = sorted(timer.time(call).seconds for _ in range(21))[10]
    slowed = timer.slowed(call, 0.05, typical)
    longer = sorted(timer.time(slowed.call).seconds for _ in range(21))[10]
    assert slowed.share / 2 < longer / typical - 1 < 1.6 * slowed.share


def test_a_call_too_short_for_a_control_has_none():
    assert DeviceTimer("cold").slowed(lambda: None, 0.01, 2e-6) is None


def test_the_same_call_on_the_same_memory_takes_the_same():
    taken = [measured(streams.is_joined, seconds=0.5) for _ in range(2)]
    for one in taken:
        again = summary.ratio([one], "ours again", 0.0).estimate.centre
        assert abs(again) < 0.01


def test_ceilings_are_what_a_card_can_do():
    found = ceiling.measure(torch.bfloat16)
    assert 1e11 < found.bytes_per_second < 2e13
    assert 1e13 < found.flops_per_second < 5e15


def test_kernels_are_named():
    x = torch.randn(256, 256, device="cuda")
    assert kernels(lambda: torch.softmax(x, -1))
