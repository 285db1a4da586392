"""What else is known of a measurement on a GPU: overhead, ceilings, what each side launched, temperature and power."""

from __future__ import annotations

from dataclasses import replace

import torch

from tilewright.bench import baselines, ceiling, flags, launched
from tilewright.bench.device import DeviceTimer
from tilewright.bench.plan import AGAIN, CONTROL
from tilewright.bench.sides import Sides, first_line
from tilewright.records import Measurement
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

_OF_COMPILED = (baselines.COMPILED, baselines.TUNED)


def described(
    measurement: Measurement,
    sides: Sides,
    timer: DeviceTimer,
    operator: Operator,
    inputs: Inputs,
    expected: tuple[Expected, ...] | None,
) -> Measurement:
    """The measurement with all this. What each side launches is looked at in the first process: profiling leaves traces
    in a process, so it comes after timing."""
    try:
        limit = ceiling.measure(_arithmetic(inputs))
        bound = limit.bound(
            operator.flops_of(measurement.case), bytes_read(inputs), bytes_written(expected), timer.l2.size,
            is_cold=timer.is_cold,
        )  # fmt: skip
    except torch.OutOfMemoryError:
        bound = None
    found = replace(
        measurement,
        launch_overhead=timer.launch_overhead,
        bound_seconds=bound,
        temperatures=tuple(timer.machine.temperatures),
        watts=tuple(timer.machine.watts),
    )
    return found if measurement.process else _with_launched(found, sides, timer)


def _with_launched(measurement: Measurement, sides: Sides, timer: DeviceTimer) -> Measurement:
    names = [name for name in measurement.sides if name not in (AGAIN, CONTROL)]
    kernels, precisions = {}, {}
    conditions = list(measurement.conditions)
    for name in names:
        if name in _OF_COMPILED:  # a compiled function is not to be looked into: it would be compiled again
            precisions[name] = [flags.precision(flags.read())]
        else:
            precisions[name] = list(launched.products(sides.held[name]))
    for name in names if not timer.is_host else ():
        try:
            kernels[name] = list(launched.kernels(sides.calls[name]))
        except RuntimeError as error:
            conditions.append(f"the kernels launched are not known: {first_line(error)}")
            break
    return replace(measurement, kernels=kernels, precisions=precisions, conditions=tuple(conditions))


def _arithmetic(inputs: Inputs) -> torch.dtype:
    """The dtype that products of these inputs are made in: the narrowest among floating tensors."""
    known = [tensor.dtype for tensor in inputs.tensors.values() if tensor.is_floating_point()]
    return min(known, key=lambda dtype: dtype.itemsize) if known else torch.float32


def bytes_read(inputs: Inputs) -> float:
    """Of all inputs, each byte of memory once: a row that is expanded lies there a single time."""
    read = {}
    for tensor in inputs.tensors.values():
        storage = tensor.untyped_storage()
        read[storage.data_ptr(), tensor.storage_offset()] = min(
            tensor.numel() * tensor.element_size(), storage.nbytes()
        )
    return float(sum(read.values()))


def bytes_written(expected: tuple[Expected, ...] | None) -> float:
    return float(sum(one.values.numel() * one.dtype.itemsize for one in expected or ()))
