"""What a child of ``bench_gpu.py`` does: a shape by the engine, then by do_bench."""

import statistics
import time

import torch
import triton

from tilewright.bench import baselines, worker
from tilewright.launch.host import inputs_of
from tilewright.spec.load import resolve


def measure(emit, *, job, naive):
    """The engine's measurement, do_bench's medians of ours and of the baseline, one after the other, and what each took."""
    started = time.perf_counter()
    measurement = worker.measure_shape(emit, job=job)
    engine = time.perf_counter() - started
    if not naive:
        return measurement, None, engine, 0.0
    started = time.perf_counter()
    operator = resolve(job.address)
    inputs = inputs_of(operator, job.case, job.device).map(lambda tensor: tensor.detach())
    other = baselines.bound(operator.baselines[job.baselines[0]], inputs, inputs.kwargs)
    with torch.no_grad():
        medians = [_do_bench(lambda: worker.run_tuned(operator, inputs, None)), _do_bench(other)]
    return measurement, medians, engine, time.perf_counter() - started


def _do_bench(call):
    if torch.cuda.is_available():
        return triton.testing.do_bench(call, return_mode="median") / 1000
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
