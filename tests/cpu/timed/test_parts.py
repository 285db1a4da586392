"""The parts of GPU timing that need no GPU."""

import time

import numpy as np
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tilewright.bench import hold, sides, stamps
from tilewright.bench.ceiling import Ceiling
from tilewright.bench.deadline import deadline
from tilewright.bench.described import bytes_read
from tilewright.bench.launched import products
from tilewright.bench.machine import Machine
from tilewright.bench.timer import HostTimer
from tilewright.hardware import clocks
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs


def test_the_clock_is_the_median_over_sms_that_reached_both_stamps():
    taken = np.zeros((2, 4, 2), dtype=np.int64)
    taken[0, :, 0], taken[0, :, 1] = 1000, [5000, 5000, 5000, 100]  # the last SM's first stamp is an earlier sample's
    taken[1, :, 0], taken[1, :, 1] = [3000, 3000, 9000, 3000], [6000, 6000, 6000, 6000]
    assert stamps.megahertz(taken, since=200) == pytest.approx(2000)
    assert stamps.megahertz(taken, since=7000) is None


def test_stamps_compile_to_the_counters():
    compiled = triton.compile(
        ASTSource(stamps._stamp, {"out": "*i64"}, constexprs={}),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": 1},
    )
    assert all(counter in compiled.asm["ptx"] for counter in ("%clock64", "%globaltimer", "%smid"))


class Event:
    is_free = False

    def record(self):
        pass

    def query(self):
        return Event.is_free


def test_a_hold_grows_with_what_it_has_to_cover_and_gives_up_on_calls_that_wait(monkeypatch):
    held = []
    monkeypatch.setattr(hold, "_Event", Event)
    monkeypatch.setattr(hold, "_sleep", held.append)
    monkeypatch.setattr(Event, "is_free", False)
    own = hold.Hold()
    own.begin(1e9)
    time.sleep(0.002)
    assert not own.end()
    own.begin(1e9)
    assert held[1] > held[0]
    assert held[1] >= 1.5e9 * 0.002
    own.end()
    Event.is_free = True
    for _ in range(20):
        own.begin(1e9)
        assert own.end()
    assert held[-1] < held[1]


def test_ceilings_count_only_what_cannot_have_stayed_in_the_cache():
    ceiling = Ceiling(1e12, 1e14)
    assert ceiling.bound(None, read=1e9, written=1e6, l2_bytes=1 << 20, is_cold=True) == pytest.approx(1e-3)
    assert ceiling.bound(None, read=1e6, written=0, l2_bytes=1 << 20, is_cold=False) is None
    assert ceiling.bound(1e12, read=1e9, written=0, l2_bytes=1 << 20, is_cold=True) == pytest.approx(1e-2)
    assert Ceiling(None, None).bound(1e12, 1e9, 0, 1, is_cold=True) is None


def test_bytes_are_counted_once_where_rows_are_expanded():
    row = torch.zeros(1, 64)
    assert bytes_read(Inputs((row.expand(1000, 64), torch.zeros(8)), {}, ("x", "y"))) == 4 * (64 + 8)


def test_products_say_their_precision_as_it_is_inside_the_call():
    x = torch.zeros(4, 4)

    def in_tf32():
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        x @ x
        torch.set_float32_matmul_precision(before)

    assert products(lambda: x + x) == ()
    assert "float32 products in ieee" in products(lambda: x @ x)[0]
    assert "float32 products in tf32" in products(in_tf32)[0]


def test_a_deadline_ends_what_takes_too_long():
    with pytest.raises(TimeoutError, match="waiting took longer"), deadline(0.05, "waiting"):
        time.sleep(5)
    with deadline(5, "waiting"):
        pass


def test_a_throttled_or_shared_gpu_is_said_once_and_so_is_a_silent_driver(monkeypatch):
    reading = clocks.Reading(1200, 1980, 80, 690.0, 700.0, ("SwPowerCap",), 2)
    monkeypatch.setattr(clocks, "read", lambda: reading)
    machine = Machine()
    machine.look()
    assert machine.conditions() == ("clock held down: SwPowerCap", "other processes on the GPU")
    assert machine.watts[0] == 690.0
    monkeypatch.setattr(clocks, "read", lambda: None)
    assert "nvidia-ml-py" in Machine().conditions()[0]


@pytest.mark.parametrize("swapped", [False, True])
def test_all_sides_read_the_same_memory_and_are_first_run_in_the_plans_order(swapped):
    order = []

    def side(name):
        def run(inputs):
            order.append(name)
            return inputs.args[0].add_(1)

        return run

    inputs = Inputs((torch.zeros(4),), {}, ("x",))
    expected = golden.expect(lambda x: x + 1, inputs, label="a")
    found = sides.prepare(
        side("ours"), {"other": side("other")}, inputs, expected, HostTimer(), mutates=("x",), swapped=swapped, slowdown=0.02
    )  # fmt: skip
    assert order[1:4] == (["other", "ours", "ours"] if swapped else ["ours", "ours", "other"])
    assert len({id(held.memory) for held in found.held.values()}) == 1
    assert found.held["other"].memory.tensors["x"].tolist() == [1.0] * 4  # filled anew before each call that adds 1
    assert inputs.args[0].tolist() == [0.0] * 4
    assert found.slowdown == 0.02
