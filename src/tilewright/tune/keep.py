"""Where a Choice goes: into the runtime table, under the key that a call looks it up by."""

from __future__ import annotations

from typing import Any

from tilewright.hardware.target import Target
from tilewright.launch.capture import only, record
from tilewright.launch.launch import Launch
from tilewright.records import Choice
from tilewright.runtime.table import KernelKey, Table
from tilewright.runtime.tuned import TunedKernel
from tilewright.spec.operator import Operator, device_name


def keep(operator: Operator, choice: Choice, target: Target, table: Table) -> int:
    """Writes a Choice into the table; how many entries it made.

    One for an operator with a space; one for each key that its kernels under ``@tw.autotune`` meet in the case. A bare
    kernel with a space, and ``@triton.autotune``, look nothing up: none.

    Raises:
        StoreUnusable: the table cannot be written.
    """
    inputs = operator.make_inputs(choice.case, drawn=False)
    device = choice.device or device_name(inputs.args)
    facts: dict[str, Any] = {"median_seconds": choice.median_seconds, "case": choice.case.label}
    if operator.space is not None:
        if operator.is_bare_kernel:
            return 0
        shape = operator.shape_key(inputs.args, inputs.kwargs)
        table.put(operator.name, shape, device, dict(choice.config.values), **facts)
        return 1
    keys = {}
    for launch in record(operator, inputs, target, choose=only(choice.config)):
        if launch.config == choice.config and launch.tuning and isinstance(launch.tuning.tuner, TunedKernel):
            key = _kernel_key(launch, device)
            keys[key.words] = key
    for key in keys.values():
        table.put_kernel(key, dict(choice.config.values), **facts)
    return len(keys)


def _kernel_key(launch: Launch, device: str) -> KernelKey:
    assert launch.tuning is not None
    tuner = launch.tuning.tuner
    return KernelKey(tuner.base_fn.__name__, tuner.source, launch.tuning.key, launch.tuning.dtypes, device)
