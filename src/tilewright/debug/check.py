"""One case, checked: inputs drawn, the launcher run on poisoned memory, its results held against the golden."""

from __future__ import annotations

import bdb
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from traceback import StackSummary
from typing import Any

import torch
from torch import Tensor

from tilewright import records
from tilewright.debug import configs, explain, failures, promises, refusal, results
from tilewright.debug.debugger import Counting, Debugger, Stop
from tilewright.debug.executor import second
from tilewright.debug.executor.executor import Changes, Executor
from tilewright.debug.executor.memory import Memory as CheckedMemory
from tilewright.debug.failures import source_line
from tilewright.debug.guard import Memory
from tilewright.debug.interpreter import Interpreter, find_cause
from tilewright.debug.patience import StillRunning, at_most
from tilewright.debug.results import Results
from tilewright.debug.tuner import mutation
from tilewright.errors import Stopped
from tilewright.hardware.target import Target
from tilewright.launch.capture import capture, only
from tilewright.launch.host import inputs_of
from tilewright.launch.launch import Launch, python_function
from tilewright.records import Case, CaseResult, Config, Disagreement, Finding
from tilewright.spec import dtypes, golden
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator
from tilewright.spec.poison import Poisoned, Zeroed, untouched
from tilewright.spec.virtual import is_huge

_HUGE_SECONDS = 10.0
"""Of the few programs at the edges of a grid: what takes longer goes round a loop over a size that is huge."""


@dataclass(frozen=True)
class Ran:
    """What a call left behind: its results (outputs, mutated arguments, gradients), inputs as they are now,
    who wrote what."""

    results: dict[str, Tensor]
    inputs: Inputs
    poisoned: Poisoned
    failure: Finding | None
    error: Exception | None = None  # that left the launcher
    memory: Memory | CheckedMemory | None = None
    launches: tuple[Launch, ...] = ()
    found: tuple[Finding, ...] = ()  # by the checked executor
    complete: bool = True  # nothing was met that the executor does not support
    undeclared: list[Finding] = field(default_factory=list)  # results of another shape or dtype than declared
    returned: tuple[Tensor, ...] = ()  # by the launcher


@dataclass(frozen=True)
class _Call:
    """A call of a launcher, to be made once or twice."""

    operator: Operator
    case: Case
    config: Config | None
    target: Target
    expected: tuple[Expected, ...] | None
    seconds: float | None
    forces: bool = False  # the configuration is launched though its tuner leaves it out


def check_case(
    operator: Operator,
    case: Case,
    target: Target,
    *,
    config: Config | None = None,
    checked: bool = False,
    debugger: Debugger | None = None,
    seconds: float | None = None,
) -> CaseResult:
    """Runs one case and says all that is wrong with it.

    ``checked`` takes the checked executor; else the stock interpreter runs it, with pdb where there is a
    ``debugger``: it opens at the line of a wild access, and where a value is wrong the case runs again and
    stops before the line that stored the worst element. A launcher that runs longer than ``seconds`` is
    stopped, and that is a finding.

    Raises:
        ReferenceFailed: nothing can be compared.
        Stopped: the user left the debugger.
    """
    started = time.perf_counter()
    plain, named = configs.split(operator, case)
    inputs = inputs_of(operator, plain)
    huge = checked and is_huge(inputs)
    if plain.layout == "aliased" and operator.mutates and not promises.tells_of_aliases(operator, inputs):
        return CaseResult(case, refused="the reference does not work in place: what aliases give is nowhere said")
    expected = None if huge else expectations(operator, inputs, plain)
    unfit = None if plain.values == "normal" else promises.unfit(plain, expected or ())
    if unfit is not None:
        return CaseResult(case, refused=unfit)
    if huge and seconds is not None:
        seconds = min(seconds, _HUGE_SECONDS)
    call = _Call(operator, plain, config or named, target, expected, seconds)
    poisoned = Poisoned()
    handler = Executor(target, poisoned, edges_only=huge) if checked else Interpreter(debugger=debugger)
    ran = _run(call, inputs if huge else inputs.copy(), handler, poisoned)
    findings, disagreements, worst = _addresses(ran) if huge else judge(operator, inputs, expected, ran)
    if huge and isinstance(ran.error, StillRunning):
        findings = [
            replace(f, kind="unsupported", message=refusal.LONG_LOOP) if f is ran.failure else f for f in findings
        ]
    findings = promises.tempered(plain, findings, disagreements, expected, ran.results)
    disagreements = [found for found in disagreements if not promises.is_lost_digits(plain, found)]
    worst = None if worst is None else worst / promises.limit(plain)
    if isinstance(handler, Executor) and not huge and ran.failure is None and ran.complete:
        findings = _looked_at_again(call, inputs, handler, ran, findings)
    if configs.left_out(operator, named, ran.launches):
        findings, disagreements = [], []  # of another configuration, whose own case says them
    wrong = records.worst(findings)
    if debugger is not None and wrong is not None and ran.failure is None:  # which has opened pdb already
        _step(call, inputs, wrong, debugger)
    return CaseResult(
        case=case,
        findings=reported(operator, case, findings, named),
        disagreements=tuple(disagreements),
        error_over_tolerance=worst,
        launches=len(handler.launches),
        programs=handler.programs,
        seconds=time.perf_counter() - started,
        addresses_only=huge,
        refused=refusal.words(operator, ran.error, huge=huge),
    )


class Repeated:
    """A case whose inputs and golden results are made once, run again and again with changes to its kernels.

    ``fresh`` holds the stacks on which the last run, if ``zeroed``, got uninitialised memory.
    """

    def __init__(self, operator: Operator, case: Case, target: Target, seconds: float | None = None) -> None:
        self.case = case
        plain, config = configs.split(operator, case)
        self._inputs = inputs_of(operator, plain)
        self.is_huge = is_huge(self._inputs)
        expected = None if self.is_huge else expectations(operator, self._inputs, plain)
        self._call = _Call(operator, plain, config, target, expected, seconds)
        self.fresh: list[StackSummary] = []

    def run(self, changes: Changes | None = None, *, zeroed: bool = False) -> tuple[list[Finding], int]:
        """What is wrong with the case after some changes, and how many elements of its results differ.

        ``zeroed``: memory that is handed out uninitialised holds zeros, and counts as written. Products of fp32
        keep all their bits: what tf32 alone makes of them is known already.
        """
        poisoned = Zeroed() if zeroed else Poisoned()
        handler = Executor(self._call.target, poisoned, changes=changes, exact_products=True, edges_only=self.is_huge)
        ran = _run(self._call, self._inputs if self.is_huge else self._inputs.copy(), handler, poisoned)
        self.fresh = poisoned.stacks if isinstance(poisoned, Zeroed) else []
        if self.is_huge:
            findings, disagreements, _ = _addresses(ran)
        else:
            expected = self._call.expected
            findings, disagreements, _ = judge(self._call.operator, self._inputs, expected, ran)
            findings = promises.tempered(self._call.case, findings, disagreements, expected, ran.results)
        findings = list(reported(self._call.operator, self.case, findings))
        return findings, sum(found.wrong for found in disagreements)


def excused(
    findings: list[Finding], expected: tuple[Expected, ...] | None, ran: Ran, uses_tf32: Callable[[], bool]
) -> list[Finding]:
    """A float32 mismatch that may come from products in tf32 alone is a warning with that cause.

    For runs on a GPU; the executor repeats the call with exact products, which tells (``second.py``).
    """

    def explained(finding: Finding) -> bool:
        gold = next((e for e in expected or () if e.name == finding.argument), None)
        if finding.kind != "mismatch" or gold is None or gold.dtype != torch.float32:
            return False
        coarse = golden.with_roundoff(gold, dtypes.TF32_ROUNDOFF)
        return golden.compare(ran.results[gold.name], coarse).error_over_tolerance <= 1 and uses_tf32()

    return [second.excused(f) if explained(f) else f for f in findings]


def _looked_at_again(
    call: _Call, inputs: Inputs, handler: Executor, ran: Ran, findings: list[Finding]
) -> list[Finding]:
    """What only a second run shows: what depends on the order of programs, what a tuner's benchmark does to it, and
    where a NaN was born."""

    def again(other: Executor) -> dict[str, Tensor]:
        return _run(call, inputs.copy(), other, other.poisoned or Poisoned()).results

    def tuning(other: Executor) -> mutation.Left:
        tuned = _run(call, inputs.copy(), other, other.poisoned or Poisoned(), tunes=True)
        return mutation.Left(tuned.results, tuned.inputs, tuned.failure)

    findings = second.reduced_precision(handler, findings, call.expected, again, promises.limit(call.case))
    findings = findings + second.order_dependent(handler, ran.results, again)
    findings += mutation.findings(handler, mutation.Left(ran.results, ran.inputs, None), tuning)
    if not any(f.kind == "non-finite" and f.tensor for f in findings):
        return findings
    births = {birth.line: birth for birth in second.born(handler, again)}
    return [_at_birth(f, births.get(f.line)) if f.kind == "non-finite" else f for f in findings]


def _at_birth(finding: Finding, birth: Finding | None) -> Finding:
    """A value that is not finite, at the line where it arose."""
    if birth is None or birth.origin_line in (None, finding.line) or birth.file is None:
        return finding
    source = source_line(birth.file, birth.origin_line or 0)
    stored = f"{finding.message}; stored at line {finding.line}"
    return replace(finding, line=birth.origin_line, source=source, message=stored)


def executed(operator: Operator, case: Case, inputs: Inputs, target: Target, config: Config | None) -> Ran:
    """What the checked executor leaves of a call, without a judgement; ``inputs`` are written to."""
    poisoned = Poisoned()
    call = _Call(operator, case, config, target, None, None)
    return _run(call, inputs, Executor(target, poisoned), poisoned)


def forced(operator: Operator, case: Case, target: Target, config: Config) -> tuple[tuple[Launch, ...], list[Finding]]:
    """Launches and findings of a case in an autotuner's configuration, whatever its pruning says to that."""
    plain, _ = configs.split(operator, case)
    inputs = inputs_of(operator, plain)
    expected = expectations(operator, inputs, plain)
    poisoned = Poisoned()
    call = _Call(operator, plain, config, target, expected, None, forces=True)
    ran = _run(call, inputs.copy(), Executor(target, poisoned), poisoned)
    return ran.launches, judge(operator, inputs, expected, ran)[0]


def step_to(operator: Operator, case: Case, finding: Finding, target: Target, debugger: Debugger) -> bool:
    """Runs a case in the stock interpreter, with pdb at a finding of it; whether its line was reached."""
    plain, config = configs.split(operator, case)
    return _step(_Call(operator, plain, config, target, None, None), inputs_of(operator, plain), finding, debugger)


def _step(call: _Call, inputs: Inputs, finding: Finding, debugger: Debugger) -> bool:
    """One call shows in which iteration the fault is, another one stops there."""
    stop = Stop.of(finding)
    if stop is None:
        return False
    counting = Counting(stop)
    _run(call, inputs.copy(), Interpreter(seeker=counting), Poisoned())
    arriving = debugger.arriving(stop, counting.wanted())
    with contextlib.suppress(Stopped):  # what the user has seen is found already
        _run(call, inputs.copy(), Interpreter(seeker=arriving), Poisoned())
    return arriving.arrived


def reported(
    operator: Operator, case: Case, findings: list[Finding], config: Config | None = None
) -> tuple[Finding, ...]:
    """Findings with their case and configuration, without those that the declaration suppresses."""
    kept = (f for f in findings if not any(suppression.covers(f) for suppression in operator.suppress))
    where = f"; in configuration {config}" if config else ""
    return tuple(replace(finding, case=case, message=finding.message + where) for finding in kept)


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
            gradients = results.gradient_reference(operator.reference, operator.grad, inputs.names, case.layout)
            expected += golden.expect(gradients, plain, names=names, label=case.label)
    return expected


def _run(
    call: _Call, inputs: Inputs, handler: Interpreter | Executor, poisoned: Poisoned, *, tunes: bool = False
) -> Ran:
    found = Results({}, ())
    failure, raised = None, None
    choose = only(call.config) if call.forces and call.config else configs.for_tuner(call.config)
    try:
        launching = capture(handler, call.target, choose=choose, tunes=tunes)
        with launching, poisoned, at_most(call.seconds):
            returned = call.operator.launch(inputs, configs.for_launcher(call.operator, call.config))
            count = None if call.expected is None else len(call.expected)
            found = results.of_call(call.operator, call.case, inputs, returned, count)
    except Exception as error:
        if find_cause(error, bdb.BdbQuit) is not None:
            raise Stopped.by_the_user() from None
        failure, raised = failures.finding(error, handler, call.operator, inputs), error
    undeclared = results.as_declared(call.operator, call.case, found)
    launches = tuple(handler.launches)
    checks = tuple(failures.with_arguments(handler.findings(), launches, inputs))
    memory, complete = handler.memory, handler.complete
    return Ran(
        found.named, inputs, poisoned, failure, raised, memory, launches, checks, complete, undeclared, found.returned
    )


# ---------------------------------------------------------------------------------------------- judging


def judge(
    operator: Operator, before: Inputs, expected: tuple[Expected, ...] | None, ran: Ran
) -> tuple[list[Finding], list[Disagreement], float | None]:
    """Findings of a finished call, how outputs differ, and the worst error over the tolerance."""
    if ran.failure is not None:
        return [*ran.found, ran.failure], [], None
    if not ran.complete:  # a launch was cut short: what it left says nothing
        return list(ran.found), [], None
    findings = [*ran.found, *_changed_inputs(operator, before, ran)]
    unwritten = _unwritten(ran)
    findings += unwritten + ran.undeclared
    if expected is None:
        return findings + _non_finite(before, ran), [], None
    if len(expected) != len(ran.results):
        ours, golden_names = ", ".join(ran.results), ", ".join(gold.name for gold in expected)
        words = f"the launcher gives {ours or 'nothing'}, the reference {golden_names or 'nothing'}"
        remedy = (
            "what mutates= names is compared after the call, and need not be returned" if operator.mutates else None
        )
        return [*findings, Finding("mismatch", words, cause="unknown", remedy=remedy)], [], None
    disagreements, worst = [], 0.0
    for actual, gold in zip(ran.results.values(), expected, strict=True):
        match = golden.compare(actual, gold)
        worst = max(worst, match.error_over_tolerance)
        if match.disagreement is not None:
            disagreements.append(match.disagreement)
            if not any(f.argument == gold.name for f in unwritten):
                left_out = _left_out(match.disagreement, actual, ran)
                findings.append(left_out or _mismatch(match.disagreement, actual, gold, ran))
    return findings, disagreements, worst


def _addresses(ran: Ran) -> tuple[list[Finding], list[Disagreement], float | None]:
    """What can be said of a call whose tensors are too large to be compared."""
    return [*ran.found, *([ran.failure] if ran.failure else [])], [], None


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


def _left_out(found: Disagreement, actual: Tensor, ran: Ran) -> Finding | None:
    """The finding of an output whose worst element is still what the host put there, while kernels wrote others."""
    if found.kind != "value" or ran.memory is None or ran.memory.last_site(actual) is None:
        return None
    missing = ran.memory.unwritten(actual)
    if not missing[found.worst_index]:
        return None
    finding = explain.unwritten(found.output, int(missing.sum()), tuple(actual.shape), found.worst_index)
    return replace(finding, **_writing_line(actual, ran))


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
            finding = explain.unwritten(name, int(missing.sum()), tuple(result.shape), first)
            findings.append(replace(finding, **_writing_line(result, ran)))
    return findings


def _writing_line(result: Tensor, ran: Ran) -> dict[str, Any]:
    """The line that stores to a result, though not to all of it; else the kernel that could have."""
    site = ran.memory.last_site(result) if ran.memory else None
    if site is not None:
        source = source_line(site.file, site.line)
        return {"tensor": site.tensor, "file": site.file, "line": site.line, "source": source}
    address = result.untyped_storage().data_ptr()
    for launch in ran.launches:
        for name, tensor in launch.tensors.items():
            if tensor.untyped_storage().data_ptr() == address:
                code = python_function(launch.kernel).__code__
                return {"tensor": name, "file": code.co_filename, "line": code.co_firstlineno}
    return {}


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
    dense = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    return dense.view(torch.uint8) if dense.numel() else dense
