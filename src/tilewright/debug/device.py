"""The same cases on a real GPU: guard bands around each tensor, poisoned outputs, several runs.

What a GPU can tell without instrumentation: writes next to a tensor (its bands are checked), values that
differ from the golden reference or from one run to the next, elements nobody wrote, and kernels that die.
A read next to a tensor shows only where it reaches the result: the bands hold NaN.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilewright.debug import check, comparison, configs, results
from tilewright.errors import TilewrightError
from tilewright.hardware.probe import gpu_target
from tilewright.hardware.targets import find
from tilewright.launch.capture import record
from tilewright.launch.compile import lower
from tilewright.launch.host import inputs_of
from tilewright.process import Emitter
from tilewright.records import Case, CaseResult, Config, Disagreement, Finding
from tilewright.spec.address import Address
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import resolve
from tilewright.spec.operator import Operator
from tilewright.spec.poison import ALLOCATIONS, Poisoned, poison

BAND_BYTES = 4096
RUNS = 3
_BAND = 0xFF  # NaN in every float format, the largest value of every unsigned integer


class Banded(Poisoned):
    """Poisons allocations as its base does, and puts guard bands around those on the GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.bands: list[tuple[str, Tensor]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func._schema.name.removeprefix("aten::") in ALLOCATIONS and isinstance(result, Tensor) and result.is_cuda:
            result = self.fence(f"allocation {len(self.bands)}", result, copy=False)
            poison(result)
            self.storages[result.untyped_storage().data_ptr()] = result.untyped_storage()
        return result

    def fence(self, name: str, tensor: Tensor, *, copy: bool = True) -> Tensor:
        """A tensor of the same shape, strides and values, with bands before and behind its storage."""
        size = tensor.untyped_storage().nbytes()
        with torch._C._DisableTorchDispatch():
            memory = torch.full((size + 2 * BAND_BYTES,), _BAND, dtype=torch.uint8, device=tensor.device)
            fenced = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            start = tensor.storage_offset() + BAND_BYTES // tensor.element_size()
            fenced.set_(memory.untyped_storage(), start, tensor.size(), tensor.stride())
            if copy:
                inner = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(
                    tensor.untyped_storage(), 0, (size,), (1,)
                )
                memory[BAND_BYTES : BAND_BYTES + size] = inner
        self.bands.append((name, memory))
        return fenced

    def broken(self) -> list[tuple[str, int]]:
        """Names of tensors whose bands were written, with the offset in bytes from their storage."""
        found = []
        for name, memory in self.bands:
            touched = memory != _BAND
            touched[BAND_BYTES:-BAND_BYTES] = False
            if touched.any():
                first = int(touched.nonzero()[0]) - BAND_BYTES
                found.append((name, first))
        return found


@dataclass(frozen=True)
class _DeviceRun:
    ran: check.Ran
    broken: list[tuple[str, int]]


def run_case(
    emit: Emitter, *, address: Address, case: Case, target: str, pdb: bool = False, seconds: float | None = None
) -> CaseResult:
    """Checks one case on the GPU of this machine, several times over."""
    started = time.perf_counter()
    operator = resolve(address)
    plain, config = configs.split(operator, case)
    inputs = inputs_of(operator, plain, "cuda")
    expected = check.expectations(operator, inputs, plain)
    modelled = check.executed(operator, plain, inputs_of(operator, plain), gpu_target() or find(target), config)
    findings: list[Finding] = []
    disagreements: list[Disagreement] = []
    worst: float | None = None
    previous: dict[str, Tensor] = {}
    for _ in range(RUNS):
        run = _once(operator, plain, inputs, config, expected)
        found, differing, over = check.judge(operator, inputs, expected, run.ran)
        found = check.excused(found, expected, run.ran, lambda: _multiplies_tf32(operator, plain, target))
        findings += comparison.against_executor(found, run.ran, modelled, expected)
        findings += [_written_outside(b) for b in run.broken]
        disagreements = disagreements or differing
        worst = over if worst is None else max(worst, over or 0.0)
        findings += _changed(previous, run.ran.results)
        previous = run.ran.results
        if findings:
            break
    return CaseResult(
        case,
        check.reported(operator, case, findings, config),
        tuple(disagreements),
        worst,
        launches=RUNS,
        seconds=time.perf_counter() - started,
    )


def _once(
    operator: Operator, case: Case, inputs: Inputs, config: Config | None, expected: tuple[Expected, ...] | None
) -> _DeviceRun:
    banded = Banded()
    fenced = _fenced(inputs, banded)
    found = results.Results({}, ())
    failure = None
    try:
        with banded:
            returned = operator.launch(fenced, configs.for_launcher(operator, config))
        torch.cuda.synchronize()
        found = results.of_call(operator, case, fenced, returned, None if expected is None else len(expected))
    except TilewrightError as error:
        failure = Finding("launch-error", error.what)
    except Exception as error:
        failure = Finding("launch-error", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    undeclared = results.as_declared(operator, case, found)
    ran = check.Ran(found.named, fenced, banded, failure, undeclared=undeclared)
    return _DeviceRun(ran, [] if failure else banded.broken())


def _fenced(inputs: Inputs, banded: Banded) -> Inputs:
    names = {id(tensor): name for name, tensor in inputs.tensors.items()}
    return inputs.map(lambda t: banded.fence(names[id(t)], t.detach()).requires_grad_(t.requires_grad))


def _written_outside(broken: tuple[str, int]) -> Finding:
    name, offset = broken
    where = f"{-offset} bytes before its start" if offset < 0 else "behind its end"
    return Finding(
        "out-of-bounds-write", f"wrote outside {name}, {where}: its guard band changed", argument=name, cause="unknown"
    )


def _changed(previous: dict[str, Tensor], now: dict[str, Tensor]) -> list[Finding]:
    """Results that differ from one run to the next on the same inputs."""
    found = []
    for name, before in previous.items():
        if not torch.equal(_comparable(before), _comparable(now[name])):
            words = f"{name} differs between runs on the same inputs, within the tolerance"
            found.append(Finding("nondeterministic", words, "note", argument=name))
    return found


def _comparable(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    return (tensor.float() if tensor.element_size() == 1 else tensor).nan_to_num()  # PyTorch compares no 8-bit floats


def _multiplies_tf32(operator: Operator, case: Case, target: str) -> bool:
    chip = find(target)
    launches = record(operator, inputs_of(operator, case), chip)
    return any("inputPrecision = tf32" in lower(launch, chip).ttir for launch in launches)
