"""Other tuners' searches on recorded trials, run by their own code: Kernel Tuner's strategies in its simulation mode."""

import importlib
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.tune.replay import Truth

STRATEGIES = ("genetic_algorithm", "diff_evo", "pso", "simulated_annealing", "greedy_ils", "basinhopping")


def kernel_tuner_curves(truth: Truth, strategy: str, seeds: Sequence[int], budget: int) -> list[list[float]]:
    """For each seed the exhaustive best over the best found, after each evaluation.

    It is told which configurations do not fit, so that they cost it nothing either.
    """
    kernel_tuner = importlib.import_module("kernel_tuner")
    names = list(truth.points[0].config.values)
    times = {
        ",".join(str(point.config.values[name]) for name in names): trial.median_seconds
        for point, trial in zip(truth.points, truth.trials, strict=True)
    }
    # In the order of their values, as a user would write them.
    parameters = {name: sorted({point.config.values[name] for point in truth.points}) for name in names}

    def exists(values: dict) -> bool:
        return ",".join(str(values[name]) for name in names) in times

    curves = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            cache = Path(folder) / f"{seed}.json"
            cache.write_text(json.dumps(_cache(truth, names, parameters, times)))
            found, _ = kernel_tuner.tune_kernel(
                "recorded",
                'extern "C" __global__ void recorded(float *x) {}',
                1,
                [],
                parameters,
                restrictions=exists,
                strategy=strategy,
                strategy_options={"max_fevals": budget},
                simulation_mode=True,
                cache=str(cache),
                lang="CUDA",
                quiet=True,
                seed=seed,
                block_size_names=["none"],
            )
            curves.append(_curve(found, names, times, truth.best, budget))
    return curves


def _cache(truth: Truth, names: list[str], parameters: dict, times: dict) -> dict:
    entries = {}
    for point in truth.points:
        key = ",".join(str(point.config.values[name]) for name in names)
        milliseconds = None if times[key] is None else 1e3 * times[key]
        entries[key] = {
            **point.config.values,
            "time": milliseconds if milliseconds is not None else "RuntimeFailedConfig",
            "times": [milliseconds or 0.0],
            "compile_time": 0.0, "verification_time": 0.0, "benchmark_time": 0.0, "strategy_time": 0.0,
            "framework_time": 0.0, "timestamp": "2026-01-01T00:00:00+00:00",
        }  # fmt: skip
        if milliseconds is None:
            entries[key]["__error__"] = "RuntimeFailedConfig"
    return {
        "device_name": "recorded", "kernel_name": "recorded", "problem_size": 1, "objective": "time",
        "tune_params_keys": names, "tune_params": parameters, "cache": entries,
    }  # fmt: skip


def _curve(found: list[dict], names: list[str], times: dict, best: float, budget: int) -> list[float]:
    curve: list[float] = []
    seen: set[str] = set()
    fastest = math.inf
    for result in found:
        key = ",".join(str(result[name]) for name in names)
        if key in seen or key not in times or len(seen) == budget:
            continue
        seen.add(key)
        fastest = min(fastest, times[key] or math.inf)
        curve.append(best / fastest)
    return curve + curve[-1:] * (budget - len(curve))
