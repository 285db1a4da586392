"""@tw.autotune on a real GPU: tuned at a call, found again, captured in a graph, compiled, and cheap to launch."""

import statistics
import time

import kept
import pytest
import torch
import triton

import tilewright as tw
from tilewright.runtime.table import active_table


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(tmp_path / "choices.json"))
    active_table.cache_clear()
    yield
    active_table.cache_clear()


X = torch.arange(1024, dtype=torch.float32, device="cuda")


def launch(kernel, out, n=1024):
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](X, out, n, True)


def test_what_is_tuned_at_a_call_is_found_by_the_next_process():
    out = torch.zeros_like(X)
    first = tw.autotune(kept.configs(), key=["n"])(kept.copy_kernel)
    launch(first, out)
    assert torch.equal(out, X)
    active_table.cache_clear()
    second = tw.autotune(kept.configs(), key=["n"], on_miss="error")(kept.copy_kernel)
    launch(second, torch.zeros_like(X))
    assert second.best_config == first.best_config


def test_a_key_met_first_in_a_capture_runs_and_is_tuned_later():
    tuner, out = tw.autotune(kept.configs(), key=["n"])(kept.copy_kernel), torch.zeros_like(X)
    launch(tuner, out, 512)  # compiles all configurations
    graph = torch.cuda.CUDAGraph()
    with pytest.warns(RuntimeWarning, match="captured"), torch.cuda.graph(graph):
        launch(tuner, out)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, X)
    assert len(tuner.cache) == 1
    launch(tuner, out)
    assert len(tuner.cache) == 2


def test_inductor_compiles_it():
    tuner = tw.autotune(kept.configs(), key=["n"])(kept.copy_kernel)

    def twice(x):
        out = torch.empty_like(x)
        tuner[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), True)
        return out * 2

    assert torch.equal(torch.compile(twice, fullgraph=True)(X), X * 2)


def test_a_launch_costs_at_most_three_microseconds_more_than_the_raw_kernel():
    out = torch.zeros_like(X)
    tuner = tw.autotune(kept.configs(), key=["n"])(kept.copy_kernel)
    launch(tuner, out)
    fixed = tuner.best_config.all_kwargs()
    sides = [lambda: kept.copy_kernel[(8,)](X, out, 1024, True, **fixed), lambda: tuner[(8,)](X, out, 1024, True)]
    taken = ([], [])
    for _ in range(200):
        for side, times in zip(sides, taken):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                side()
            times.append((time.perf_counter() - start) / 100)
    raw, tuned = (statistics.median(times) for times in taken)
    assert tuned - raw <= 3e-6
