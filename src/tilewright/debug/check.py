"""One case, checked: inputs drawn, the launcher run on poisoned memory, its results held against the golden."""

from __future__ import annotations

import linecache
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tilewright.debug import explain
from tilewright.debug.guard import Memory, WildAccess
from tilewright.debug.interpreter import Debugger, Interpreter, Stop, find_cause, kernel_line, root_cause
from tilewright.errors import LauncherFailed, TilewrightError
from tilewright.hardware.target import Target
from tilewright.launch.capture import capture
from tilewright.records import Case, CaseResult, Config, Disagreement, Finding
from tilewright.spec import golden
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator, source_file
from tilewright.spec.poison import Poisoned, untouched
from tilewright.wording import count


@dataclass(frozen=True)
class Ran:
    """What a call left behind: named results (outputs, mutated arguments, gradients), inputs as they are now,
    who wrote what."""

    results: dict[str, Tensor]
    inputs: Inputs
    poisoned: Poisoned
    failure: Finding | None
    memory: Memory | None = None


def check_case(
    operator: Operator, case: Case, target: Target, *, config: Config | None = None, debugger: Debugger | None = None
) -> CaseResult:
    """Runs one case under the stock interpreter and says all that is wrong with it.

    With a ``debugger``, pdb opens at the line of a wild access; where instead a value is wrong, the case
    runs again and stops in the program that wrote the worst element.

    Raises:
        ReferenceFailed: nothing can be compared.
    """
    started = time.perf_counter()
    inputs = operator.make_inputs(case)
    expected = expectations(operator, inputs, case)
    interpreter = Interpreter(debugger=debugger)
    ran = _run(operator, inputs.copy(), target, config, interpreter)
    findings, disagreements, worst = judge(operator, inputs, expected, ran)
    stop = _stop_at(ran, disagreements) if debugger is not None else None
    if stop is not None:
        _run(operator, inputs.copy(), target, config, Interpreter(debugger=debugger, stop=stop))
    return CaseResult(
        case=case,
        findings=reported(operator, case, findings),
        disagreements=tuple(disagreements),
        error_over_tolerance=worst,
        launches=len(interpreter.launches),
        programs=interpreter.programs,
        seconds=time.perf_counter() - started,
    )


def reported(operator: Operator, case: Case, findings: list[Finding]) -> tuple[Finding, ...]:
    """Findings with their case, without those that the declaration suppresses."""
    kept = (f for f in findings if not any(suppression.covers(f) for suppression in operator.suppress))
    return tuple(replace(finding, case=case) for finding in kept)


def expectations(operator: Operator, inputs: Inputs, case: Case) -> tuple[Expected, ...] | None:
    """Golden results of a case (outputs, mutated arguments, gradients), or None where there is no reference."""
    if operator.reference is None:
        return None
    plain = inputs.map(lambda t: t.detach())
    with torch.no_grad():
        expected = golden.expect(
            operator.reference, plain, mutates=operator.mutates, declared=operator.result_dtypes(case), label=case.label
        )
        if operator.grad:
            names = tuple(f"gradient of {name}" for name in operator.grad)
            gradients = gradient_reference(operator.reference, operator.grad, inputs.names)
            expected += golden.expect(gradients, plain, names=names, label=case.label)
    return expected


def _run(operator: Operator, inputs: Inputs, target: Target, config: Config | None, interpreter: Interpreter) -> Ran:
    poisoned = Poisoned()
    results: dict[str, Tensor] = {}
    failure = None
    try:
        with capture(interpreter, target), poisoned:
            returned = operator.launch(inputs, config)
            outputs = golden.as_tensors(returned)
            if outputs is None:
                words = f"the launcher returned {type(returned).__name__}, not a tensor or a tuple of tensors"
                raise LauncherFailed(words)
            results = named_results(operator, inputs, outputs)
    except TilewrightError as error:
        failure = Finding(
            "launch-error", error.what, remedy=error.remedy or None, **_place(error, interpreter, operator)
        )
    except Exception as error:
        failure = _failure(error, interpreter, operator, inputs)
    return Ran(results, inputs, poisoned, failure, interpreter.memory)


def named_results(operator: Operator, inputs: Inputs, outputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """Outputs, arguments changed by contract, and gradients, in the order their golden values come."""
    results = dict(zip(golden.output_names(len(outputs)), outputs, strict=True))
    results |= {name: inputs.tensors[name] for name in operator.mutates}
    if operator.grad:
        leaves = [inputs.tensors[name] for name in operator.grad]
        for name, gradient in zip(operator.grad, _gradients(outputs, leaves), strict=True):
            results[f"gradient of {name}"] = gradient
    return results


def gradient_reference(
    reference: Callable[..., Any], grad: tuple[str, ...], names: tuple[str, ...]
) -> Callable[..., Any]:
    """A function that returns the gradients of a reference in the inputs named in ``grad``."""

    def gradients(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            leaves = {n: a.detach().clone().requires_grad_() for n, a in zip(names, args, strict=True) if n in grad}
            arguments = [leaves.get(name, argument) for name, argument in zip(names, args, strict=True)]
            outputs = golden.as_tensors(reference(*arguments, **golden.accepted_keywords(reference, kwargs)))
        return _gradients(outputs or (), [leaves[name] for name in grad])

    return gradients


def _gradients(outputs: tuple[Tensor, ...], leaves: list[Tensor]) -> tuple[Tensor, ...]:
    differentiable = [output for output in outputs if output.requires_grad]
    if not differentiable:
        raise LauncherFailed(
            "grad= is declared, but no output requires grad", "wrap the kernels in a torch.autograd.Function"
        )
    upstream = [_upstream(output) for output in differentiable]
    found = torch.autograd.grad(differentiable, leaves, upstream, allow_unused=True)
    return tuple(g if g is not None else torch.zeros_like(leaf) for g, leaf in zip(found, leaves, strict=True))


def _upstream(output: Tensor) -> Tensor:
    """The gradient sent back through an output: random, the same for launcher and reference."""
    source = torch.Generator().manual_seed(output.numel())
    return torch.randn(output.shape, generator=source).to(output)


# ---------------------------------------------------------------------------------------------- judging


def judge(
    operator: Operator, before: Inputs, expected: tuple[Expected, ...] | None, ran: Ran
) -> tuple[list[Finding], list[Disagreement], float | None]:
    """Findings of a finished call, how outputs differ, and the worst error over the tolerance."""
    if ran.failure is not None:
        return [ran.failure], [], None
    findings = _changed_inputs(operator, before, ran)
    unwritten = _unwritten(ran)
    findings += unwritten
    if expected is None:
        return findings + _non_finite(before, ran), [], None
    if len(expected) != len(ran.results):
        words = f"the launcher returned {count(len(ran.results), 'tensor')}, the reference {len(expected)}"
        return [*findings, Finding("mismatch", words, cause="unknown")], [], None
    disagreements, worst = [], 0.0
    for actual, gold in zip(ran.results.values(), expected, strict=True):
        match = golden.compare(actual, gold)
        worst = max(worst, match.error_over_tolerance)
        if match.disagreement is not None:
            disagreements.append(match.disagreement)
            if not any(f.argument == gold.name for f in unwritten):
                findings.append(_mismatch(match.disagreement, actual, gold, ran))
    return findings, disagreements, worst


def _mismatch(found: Disagreement, actual: Tensor, gold: Expected, ran: Ran) -> Finding:
    if found.kind != "value":
        return explain.other_kind(found, gold)
    writer = ran.memory.writer(actual, found.worst_index) if ran.memory else None
    non_finite = math.isfinite(found.worst_expected) and not math.isfinite(found.worst_value)
    finding = explain.mismatch(found, non_finite=non_finite)
    if writer is None:
        return finding
    program, site = writer
    return replace(
        finding,
        tensor=site.tensor,
        file=site.file,
        line=site.line,
        source=source_line(site.file, site.line),
        program=program,
    )


def _unwritten(ran: Ran) -> list[Finding]:
    """Results in memory that was handed out uninitialised, with elements nobody wrote since."""
    findings = []
    for name, result in ran.results.items():
        if result.numel() == 0 or not ran.poisoned.allocated(result):
            continue
        missing = untouched(result)
        if ran.memory is not None:
            missing &= ran.memory.unwritten(result)
        if missing.any():
            first = tuple(int(i) for i in missing.nonzero()[0])
            findings.append(explain.unwritten(name, int(missing.sum()), tuple(result.shape), first))
    return findings


def _non_finite(before: Inputs, ran: Ran) -> list[Finding]:
    inputs = [t for t in before.tensors.values() if t.is_floating_point()]
    if not all(bool(torch.isfinite(t.float()).all()) for t in inputs):
        return []
    found = []
    for name, result in ran.results.items():
        if result.is_floating_point() and result.numel() and not bool(torch.isfinite(result.float()).all()):
            found.append(Finding("non-finite", f"{name} holds NaN or infinity", "warning", argument=name))
    return found


def _changed_inputs(operator: Operator, before: Inputs, ran: Ran) -> list[Finding]:
    """Inputs that are not what they were, though the declaration does not say so."""
    if operator.is_bare_kernel:
        return []  # a kernel's outputs are among its arguments
    findings = []
    for name, tensor in before.tensors.items():
        now = ran.inputs.tensors[name]
        if name not in operator.mutates and not torch.equal(_bits(tensor), _bits(now)):
            words = f"{name} was changed by the call, and mutates= does not name it"
            findings.append(
                Finding(
                    "mismatch", words, argument=name, cause="unknown", remedy=f'mutates=("{name}",) if that is meant'
                )
            )
    return findings


def _bits(tensor: Tensor) -> Tensor:
    dense = tensor.detach().contiguous()
    return dense.reshape(-1).view(torch.uint8) if dense.numel() else dense


# --------------------------------------------------------------------------------------------- failures


def _failure(error: Exception, interpreter: Interpreter, operator: Operator, inputs: Inputs) -> Finding:
    wild = find_cause(error, WildAccess)
    if wild is not None:
        site = wild.site
        return Finding(
            kind=wild.kind,
            message=wild.message,
            tensor=wild.tensor,
            argument=_argument(wild.tensor, interpreter, inputs),
            file=site.file,
            line=site.line,
            source=source_line(site.file, site.line),
            program=interpreter.memory.program,
            programs=1,
            lanes=wild.lanes,
            element=wild.element,
            cause="unknown",
        )
    cause = root_cause(error)
    words = f"{type(cause).__name__}: {str(cause).splitlines()[0] if str(cause) else 'no message'}"
    place = _place(cause, interpreter, operator)
    who = "the kernel" if kernel_line(error) else "the launcher"
    return Finding("launch-error", f"{who} raised {words}", **place)


def _place(error: BaseException, interpreter: Interpreter, operator: Operator) -> dict[str, Any]:
    """File, line and program of an exception: the kernel's line, else the launcher's."""
    position = kernel_line(error)
    if position is not None:
        return {
            "file": position[0],
            "line": position[1],
            "source": source_line(*position),
            "program": interpreter.memory.program,
        }
    own = source_file(operator)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if own is not None and Path(f.filename) == own]
    if not frames:
        return {}
    return {"file": frames[-1].filename, "line": frames[-1].lineno, "source": frames[-1].line}


def _argument(tensor: str | None, interpreter: Interpreter, inputs: Inputs) -> str | None:
    """The operator's name for a kernel's parameter: the input that shares its memory."""
    if tensor is None or not interpreter.launches:
        return None
    parameter = interpreter.launches[-1].tensors.get(tensor)
    for name, value in inputs.tensors.items():
        if parameter is not None and value.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr():
            return name
    return None


def _stop_at(ran: Ran, disagreements: list[Disagreement]) -> Stop | None:
    """The program that stored the worst element of the first disagreement."""
    for found in disagreements:
        result = ran.results[found.output]
        writer = ran.memory.writer(result, found.worst_index) if ran.memory and found.kind == "value" else None
        if writer is not None:
            return Stop(writer[1].launch, writer[0])
    return None


def source_line(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()
