"""@tw.autotune in a distributed run: one answer on all ranks, and nobody waits for a rank that does not come."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import kept
import pytest
import ranked
import torch
import torch.distributed
from triton.runtime.jit import JITFunction

import tilewright as tw
from tilewright.runtime import ranks, tuned
from tilewright.runtime.table import active_table

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(tmp_path / "choices.json"))
    active_table.cache_clear()
    yield
    active_table.cache_clear()


class Ranks:
    """Ranks as threads of this process: each has a tuner of its own, and all have one store."""

    def __init__(self, monkeypatch):
        self.mine = threading.local()
        store = torch.distributed.HashStore()
        monkeypatch.setattr(ranks, "several", lambda: True)
        monkeypatch.setattr(ranks, "_store", lambda: store)
        monkeypatch.setattr(ranks, "_rank", lambda: self.mine.rank)
        monkeypatch.setattr(tuned, "_TUNING", threading.RLock())

        def run(kernel, *args, grid, warmup, **kwargs):
            self.mine.block = kwargs["BLOCK"]

        monkeypatch.setattr(JITFunction, "run", run)

    def tuner(self, best, bench=None, **options):
        def by_block(call, quantiles):
            call()
            return [abs(self.mine.block - best) + 1.0] * 3

        return tw.autotune(kept.configs(), key=["n"], do_bench=bench or by_block, **options)(kept.copy_kernel)

    def launch(self, rank, tuner, n=256):
        self.mine.rank = rank
        tuner[(1,)](torch.zeros(1), torch.zeros(1), n, True)
        return self.mine.block

    def at_once(self, *tuners):
        blocks = {}
        work = lambda rank, tuner: blocks.update({rank: self.launch(rank, tuner)})
        threads = [threading.Thread(target=work, args=pair) for pair in enumerate(tuners)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return blocks


@pytest.fixture
def world(monkeypatch):
    return Ranks(monkeypatch)


def test_ranks_that_would_tune_differently_run_the_same(world):
    blocks = world.at_once(*(world.tuner(best, keep=False) for best in (32, 64, 128)))
    assert len(blocks) == 3
    assert len(set(blocks.values())) == 1


def test_tables_that_differ_give_one_answer(world, tmp_path, monkeypatch):
    one, other = world.tuner(64, on_miss="default"), world.tuner(128, on_miss="default")
    monkeypatch.setattr(one, "_default", lambda call, left: left[1])
    monkeypatch.setattr(other, "_default", lambda call, left: left[2])
    assert (world.launch(0, one), world.launch(1, other)) == (64, 64)


def test_a_rank_that_never_calls_is_not_waited_for(world):
    assert world.launch(0, world.tuner(64)) == 64
    assert world.launch(0, world.tuner(128, keep=False), 100) == 128


def test_who_waits_too_long_for_the_one_that_tunes_takes_the_default_and_so_do_all(world, monkeypatch):
    monkeypatch.setattr(tuned, "PATIENCE_SECONDS", 0.2)
    begun, waited = threading.Event(), threading.Event()

    def slow(call, quantiles):
        call()
        begun.set()
        waited.wait(10)
        return [abs(world.mine.block - 128) + 1.0] * 3

    blocks = []
    thread = threading.Thread(target=lambda: blocks.append(world.launch(0, world.tuner(128, slow))))
    thread.start()
    begun.wait(10)
    try:
        with pytest.warns(RuntimeWarning, match="another rank has tuned"):
            assert world.launch(1, world.tuner(64)) == 32
    finally:
        waited.set()
        thread.join()
    assert blocks == [32]


def test_a_rank_whose_tuning_fails_leaves_nobody_waiting(world):
    def fails(call, quantiles):
        raise OSError("the board fell off the bus")

    with pytest.raises(OSError, match="fell off"):
        world.launch(0, world.tuner(64, fails))
    assert world.launch(1, world.tuner(64)) == 32


def test_two_processes_agree_through_the_store_of_torch_distributed(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(JITFunction, "run", JITFunction.run)  # put back afterwards
    command = [sys.executable, str(KERNELS / "ranked.py"), "128", "256,100", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as child:
        mine = ranked.launched_by(64, [100, 256], 0, port)
        theirs = child.communicate(timeout=60)[0]
    assert theirs.strip() == str(mine[::-1])
