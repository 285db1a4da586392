"""From a finding to a script that shows it again with torch, triton and the user's kernel alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import triton
from torch import Tensor

from tilewright.debug import check, configs, results
from tilewright.debug.check import Ran, check_case
from tilewright.debug.repro import script
from tilewright.debug.repro.literals import literal
from tilewright.debug.repro.reproduction import SCRIPT_SECONDS, Reproduction, smallest_case
from tilewright.debug.repro.script import Call, Judged
from tilewright.debug.repro.slicing import Slicer
from tilewright.debug.shrink import is_same_fault
from tilewright.errors import TilewrightError, UsageError
from tilewright.hardware.target import Target
from tilewright.hardware.targets import find
from tilewright.launch.capture import config_values
from tilewright.launch.host import inputs_of
from tilewright.process import run_script
from tilewright.records import Case, Config, DebugReport, Finding, worst
from tilewright.spec import golden
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator
from tilewright.spec.virtual import is_huge

_ONLY_ON_A_GPU = {
    "write-write-race": "programs run one after the other there, so that a race does not show in values",
    "read-write-race": "programs run one after the other there, so that a race does not show in values",
    "order-dependent": "programs run in one order there, so that another one's values do not show",
    "redundant-write": "the programs store equal values, so that no value shows it",
    "write-conflict": "of lanes that store to one address always the same one wins there",
    "misaligned": "it knows no alignment",
    "false-hint": "it takes no hints",
    "grid-limit": "its grids have no limits",
    "autotune-key": "it takes several calls of several sizes",
    "compiled-differs": "it does not compile",
    "deadlock": "it runs one program after the other, so that none waits for one that runs beside it",
}
_SECONDS = 20.0


def write_repro(
    operator: Operator, report: DebugReport, path: str | Path, *, target: str = "h100"
) -> Reproduction | None:
    """Writes the worst finding of a report as a self-contained script, in its smallest case.

    The script needs torch, triton and nothing else; on a machine without a GPU it runs the kernel in Triton's
    interpreter. It ends with status 1 if the fault shows and 0 if it does not. A ``path`` such as ``test_x.py``
    holds a pytest too. The script is run once, and says at its top what came of that.

    Returns:
        What was written; None where the report has no error and no warning.

    Raises:
        UsageError: the launcher cannot be cut out of its module, or its arguments cannot be written.
    """
    finding = worst(report.findings)
    return (
        None if finding is None else write(operator, finding, smallest_case(report, finding), Path(path), find(target))
    )


def write(operator: Operator, finding: Finding, case: Case, path: Path, target: Target) -> Reproduction:
    """Writes a finding as a script, in a case that shows it; raises as ``write_repro`` does."""
    finding, case = _shown(operator, finding, case, target)
    writer = _Writer(operator, finding, case, target, path)
    writer.write(())
    status = run_script(path, SCRIPT_SECONDS)
    writer.write(_what_showed(finding, status))
    return Reproduction(path, finding, case, status)


class _Writer:
    """All that a script holds, worked out once."""

    def __init__(self, operator: Operator, finding: Finding, case: Case, target: Target, path: Path) -> None:
        self.operator, self.finding, self.path = operator, finding, path
        self.case = case
        self.plain, self.config = configs.split(operator, self.case)
        self.inputs = inputs_of(operator, self.plain)
        self.slicer = Slicer()
        self.callee = self.slicer.expression(operator.run)
        self.expected: tuple[Expected, ...] = ()
        self.ran: Ran | None = None
        if is_huge(self.inputs):
            self.expected = _exact(operator, self.inputs)
        else:
            self.expected = check.expectations(operator, self.inputs, self.plain) or ()
            self.ran = check.executed(operator, self.plain, self.inputs.copy(), target, self.config)

    def write(self, showed: tuple[str, ...]) -> None:
        call = self._call()
        about = (*_about(self.finding, self.case, self.path), *self._limits(), *showed)
        text = script.text(self.finding, about, self.slicer, call, self._judged(call), self.path)
        try:
            self.path.write_text(text)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from None

    def _call(self) -> Call:
        returned = self.ran.returned if self.ran else ()
        names = list(self.inputs.names)
        results_ = dict(self._results(returned, names))
        grad = self.operator.grad
        sent = [output for output in returned if output.requires_grad] if grad else []
        config = configs.for_launcher(self.operator, self.config)
        callee = self.callee
        if self.operator.is_bare_kernel:
            callee += f"[{self._grid()}]"
        return Call(
            callee,
            list(zip(names, self.inputs.args, strict=True)),
            self.inputs.kwargs,
            config.values if config else {},
            list(self._pinned()),
            results_,
            1 + max((int(e[8:-1]) for e in results_.values() if e.startswith("outputs[")), default=-1),
            self._unchanged(),
            [script.argument(name, names) for name in grad],
            [results.upstream(output, self.plain.layout) for output in sent],
        )

    def _results(self, returned: tuple[Tensor, ...], names: list[str]) -> Iterator[tuple[str, str]]:
        """By a result's name, the script's expression for it."""
        found = self.ran.results if self.ran else {}
        wanted = [gold.name for gold in self.expected] or list(found)
        count = 0
        for name in wanted:
            if name in self.operator.mutates:
                yield name, script.argument(name, names)
            elif name.startswith("gradient of "):
                yield name, f"gradients[{self.operator.grad.index(name.removeprefix('gradient of '))}]"
            else:
                place = next((i for i, tensor in enumerate(returned) if tensor is found.get(name)), count)
                yield name, f"outputs[{place}]"
                count = place + 1

    def _judged(self, call: Call) -> Judged:
        tolerances = [golden.with_room(gold).tolerance for gold in self.expected]
        own = {"unwritten-output": "repro_unwritten", "non-finite": "repro_not_finite"}.get(self.finding.kind)
        checks = [(own, name) for name in call.results] if own and not self.expected else []
        return Judged(self.expected, tolerances, checks, raises=self.finding.kind == "launch-error")

    def _unchanged(self) -> list[str]:
        """The argument that the finding says was changed without a word."""
        name = self.finding.argument
        is_changed = (
            self.finding.kind == "mismatch" and name in self.inputs.tensors and name not in self.operator.mutates
        )
        return [name] if is_changed and name else []

    def _grid(self) -> str:
        if self.ran and self.ran.launches:
            return literal(self.ran.launches[0].grid)
        named = {**dict(zip(self.inputs.names, self.inputs.args, strict=True)), **self.inputs.kwargs}
        grid = self.operator.grid
        return literal(tuple(grid(named) if callable(grid) else grid))

    def _pinned(self) -> Iterator[str]:
        """Statements that leave each autotuned kernel the configuration it was launched in, or have it tune as well
        as it can without a GPU where tuning is the fault."""
        done: set[str] = set()
        for launch in self.ran.launches if self.ran else ():
            if launch.tuning is None or launch.config is None:
                continue
            tuner = launch.tuning.tuner
            path = self.slicer.path_of(tuner)
            if path is None or path in done:
                continue
            done.add(path)
            if self.finding.kind == "autotune-mutation":
                yield f'if REPRO_DEVICE == "cpu":\n    {path}.do_bench = repro_benchmark'
                continue
            place = next(i for i, c in enumerate(tuner.configs) if Config(config_values(c)) == launch.config)
            yield f"{path}.configs = [{path}.configs[{place}]]  # {launch.config}"

    def _limits(self) -> Iterator[str]:
        if any(t.dtype == torch.bfloat16 for t in self.inputs.tensors.values()):
            yield (
                "Triton's interpreter computes bfloat16 as the whole numbers of its bits: values mean something on a "
                "GPU only."
            )
        if self.ran is None and not self.expected:
            yield "The tensors are too large to be compared: what shows is a kernel that dies, or writes outside them."


def _exact(operator: Operator, inputs: Inputs) -> tuple[Expected, ...]:
    """Golden values of tensors too large for a second precision, where whole numbers need none."""
    if operator.reference is None or operator.mutates or any(t.is_floating_point() for t in inputs.tensors.values()):
        return ()
    found = golden.call_reference(operator.reference, inputs, (), operator.name)
    zeros = [torch.zeros(value.shape, dtype=torch.float64) for value in found]
    named = zip(golden.output_names(len(found)), found, zeros, strict=True)
    return tuple(Expected(name, value, zero, value.dtype, zero, 1.0) for name, value, zero in named)


def _about(finding: Finding, case: Case, path: Path) -> Iterator[str]:
    """What the fault is, in the lines at a script's top."""
    yield f"{finding.kind}{f' on {finding.tensor}' if finding.tensor else ''}, found by tilewright in {case.operator}"
    if finding.file and finding.line:
        yield f"{Path(finding.file).name}:{finding.line}    {finding.source or ''}"
    yield finding.message
    if finding.origin_line and finding.origin_line != finding.line:
        yield f"comes from line {finding.origin_line}"
    yield f"case {case.label}"
    yield ""
    yield f"python {path.name} ends with status 1 if the fault shows, 0 if it does not, 2 if it cannot run here."
    yield "It runs on a GPU where there is one, and otherwise in Triton's interpreter."


def _what_showed(finding: Finding, status: int | None) -> tuple[str, ...]:
    where = f"on {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "in the interpreter"
    run = f"When it was written it ran {where} (triton {triton.__version__}, torch {torch.__version__})"
    if status == 1:
        return (f"{run}: the fault showed.",)
    if status is None:
        return (f"{run}, and did not end.",)
    if status == 2:
        return (f"{run}, and could not run.",)
    reason = _ONLY_ON_A_GPU.get(finding.kind)
    if reason and not torch.cuda.is_available():
        return (f"{run}: the fault did not show. That says nothing: {reason}. On a GPU it may.",)
    return (f"{run}: the fault did not show in its values.",)


def _shown(operator: Operator, finding: Finding, case: Case, target: Target) -> tuple[Finding, Case]:
    """The finding as its smallest case shows it, in a dtype that Triton's interpreter computes if it shows in one."""
    plain = [dtype for dtype in ("fp32", "fp16") if dtype in operator.dtypes] if case.dtype == "bf16" else []
    for candidate in [*(replace(case, dtype=dtype) for dtype in plain), case]:
        try:
            found = check_case(operator, candidate, target, checked=True, seconds=_SECONDS).findings
        except TilewrightError:
            continue  # a dtype that the reference does not take
        same = next((other for other in found if is_same_fault(other, finding)), None)
        if same is not None:
            return same, candidate
    return finding, case  # another executor's
