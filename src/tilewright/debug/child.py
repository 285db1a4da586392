"""The child process that debugs, as its parent sees it; ``session.py`` is what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.debug.agreement import ONLY_INTERPRETER, together
from tilewright.debug.options import DebugOptions
from tilewright.debug.patience import STILL_RUNNING
from tilewright.debug.plan import Plan
from tilewright.debug.repro.reproduction import SCRIPT_SECONDS, Reproduction, smallest_case
from tilewright.errors import ChildFailed
from tilewright.process import Limits, Worker
from tilewright.records import Case, CaseResult, Config, DebugReport, Finding, worst
from tilewright.spec.address import Address, KernelCall, Named

if TYPE_CHECKING:
    from tilewright.spec.operator import Operator

INTERPRETER_ENVIRONMENT = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
COMPILING_ENVIRONMENT = {"TRITON_INTERPRET": None, "OMP_NUM_THREADS": "1"}
_LOAD = "tilewright.spec.load:named"
_SESSION = "tilewright.debug.session:"
_DEVICE = "tilewright.debug.device:"
LEAST_PATIENCE = 20.0
"""Seconds: on a busy machine the first launch of a process alone may take several."""


def _patience(options: DebugOptions) -> float:
    """Seconds after which a case is stopped at its line: before the process is, whose end would tell nothing."""
    return min(0.8 * options.case_seconds, max(options.budget_seconds or options.case_seconds, LEAST_PATIENCE))


class Session:
    """The debug child, replaced when a case kills it. It serves operators one after another.

    With ``executor="both"`` there are two, one for each executor.
    """

    def __init__(self, options: DebugOptions) -> None:
        self._executor, self._stdout_to_stderr = options.first_executor, options.stdout_to_stderr
        self._on_terminal = options.on_terminal
        self._worker: Worker | None = None
        both = options.executor == "both" and not options.pdb
        self._second = Session(replace(options, executor="interpreter")) if both else None

    def load(self, target: str, call: KernelCall | None, options: DebugOptions) -> tuple[Named, ...]:
        """The operators that a name stands for, imported by the child.

        Raises:
            TilewrightError: as ``tilewright.spec.load.load`` does.
            ChildFailed: importing them ends the child.
        """
        try:
            found: tuple[Named, ...] = self._answer(_LOAD, {"target": target, "call": call}, Limits(), options)
        except ChildFailed as failure:
            raise ChildFailed(f"{failure.what} while {target} was imported", reason=failure.reason) from None
        return found

    def plan(self, address: Address | Operator, options: DebugOptions) -> Plan:
        wanted = None if options.cases is None else [dict(case) for case in options.cases]
        # On a GPU a configuration need not fit: that is for the tuner to say.
        given = {
            "wanted": wanted,
            "seed": options.seed,
            "effort": options.effort,
            "with_configs": not options.device,
            "extremes": options.executor == "checked" and not options.pdb,
        }
        plan: Plan = self._ask(_SESSION + "plan_cases", address, options, **given)
        return plan

    def run(
        self,
        address: Address | Operator,
        case: Case,
        options: DebugOptions,
        *,
        made_up: bool = False,
        grids_only: bool = False,
    ) -> CaseResult:
        pdb = options.pdb and not self._checked  # which finds; the interpreter then steps to what it found
        given: dict[str, Any] = {"case": case, "pdb": pdb, "seconds": _patience(options)}
        try:
            if self._executor == "device":
                return self._asked(_DEVICE + "run_case", address, options, **given)
            given |= {"made_up": made_up, "grids_only": grids_only}
            result = self._asked(_SESSION + "run_case", address, options, checked=self._checked, **given)
        except ChildFailed as failure:
            words = f"{failure.what} while case {case.label} ran"
            if made_up and failure.reason == "memory":
                return CaseResult(case, refused=words)
            return CaseResult(case, (Finding("launch-error", words, case=case),))
        if self._second is None or grids_only or result.refused:
            return result
        return together(result, self._second.run(address, case, options, made_up=made_up))

    def step_to(self, address: Address | Operator, result: CaseResult, options: DebugOptions) -> list[str]:
        """Gives the terminal to pdb at the worst finding of a case, in the interpreter; what is to be said of that."""
        finding = worst(result.findings)
        if finding is None or not self._checked:
            return []  # the interpreter has stopped there already
        if result.addresses_only:
            return ["its tensors are too large for the interpreter, which is what pdb steps through"]
        with Session(replace(options, executor="interpreter")) as other:
            if finding.line is None or finding.kind == "launch-error":  # it stops where it raises
                other.run(address, result.case, options)
                return []
            given = {"case": result.case, "finding": replace(finding, case=None)}
            reached = other._ask(_SESSION + "step_to", address, options, **given)
        words = f"the interpreter does not reach line {finding.line} in program {finding.program or (0, 0, 0)}"
        return [] if reached else [words]

    def with_keys(
        self, address: Address | Operator, first: CaseResult, planned: Sequence[Case], options: DebugOptions
    ) -> CaseResult:
        """The first case's result with what is wrong with the keys of tuned kernels, which no one case shows."""
        if not self._checked or not first.launches or any(f.kind == "launch-error" for f in first.findings):
            return first
        given = {"planned": list(planned), "seconds": _patience(options)}
        try:
            found = self._ask(_SESSION + "check_keys", address, options, **given)
        except ChildFailed as failure:
            found = (
                Finding("unsupported", f"{failure.what} while the keys of autotuners were checked", case=first.case),
            )
        return replace(first, findings=(*first.findings, *found))

    @property
    def _checked(self) -> bool:
        return self._executor == "checked"

    def check_configs(
        self, address: Address | Operator, case: Case, configs: Sequence[Config], options: DebugOptions
    ) -> dict[str, tuple[Finding, ...]]:
        """Runs one case in each configuration; the findings of those that have any, by configuration."""
        wrong = {}
        for config in configs:
            given = {"case": case, "config": config, "checked": self._checked}
            result = self._asked(_SESSION + "check_config", address, options, **given)
            if result.findings:
                wrong[str(config)] = result.findings
        return wrong

    def shrink(self, address: Address | Operator, findings: Sequence[Finding], options: DebugOptions) -> list[Case]:
        """For each finding the smallest case found that fails like it; its own where no search is to be made.

        Raises:
            TilewrightError: the search ends the child, or the operator refuses what it tries.
        """
        smallest = {i: f.case for i, f in enumerate(findings) if f.case is not None}
        wanted = [i for i, finding in enumerate(findings) if self._can_shrink(finding)]
        only_there = [i for i in wanted if self._second is not None and findings[i].message.endswith(ONLY_INTERPRETER)]
        here = [i for i in wanted if i not in only_there]
        for session, numbers in ((self, here), (self._second, only_there)):
            if session is not None and numbers:
                smallest.update(
                    zip(numbers, session._shrunk(address, [findings[i] for i in numbers], options), strict=True)
                )
        return [smallest[i] for i in range(len(findings))]

    def _can_shrink(self, finding: Finding) -> bool:
        """Whether tries neither kill a process nor take long, nor are to be repeated here."""
        is_endless = finding.message.startswith(STILL_RUNNING)
        return (
            self._executor != "device"
            and not is_endless
            and finding.kind != "autotune-key"  # several calls show it, of small sizes
            and (finding.kind != "launch-error" or finding.line is not None)
        )

    def _shrunk(self, address: Address | Operator, findings: Sequence[Finding], options: DebugOptions) -> list[Case]:
        # All tries are one task of the child, which has the time of one case.
        each = min(options.shrink_seconds, 0.8 * options.case_seconds / len(findings))
        given = {"findings": list(findings), "seconds": each, "checked": self._checked}
        smallest: list[Case] = self._ask(_SESSION + "shrink_cases", address, options, **given)
        return smallest

    def explain(
        self, address: Address | Operator, findings: Sequence[Finding], cases: Sequence[Case], options: DebugOptions
    ) -> Sequence[Finding]:
        """Findings with their causes; only the checked executor can look for them.

        Raises:
            TilewrightError: the search ends the child, or the operator refuses what it tries.
        """
        if not self._checked:
            return findings
        arguments = {"findings": tuple(findings), "cases": tuple(cases), "seconds": options.cause_seconds}
        found: Sequence[Finding] = self._ask(_SESSION + "explain_findings", address, options, **arguments)
        return found

    def write_repro(
        self, address: Address | Operator, report: DebugReport, path: Path, options: DebugOptions
    ) -> Reproduction | None:
        """Writes the worst finding of a report as a script; None where there is none.

        Raises:
            UsageError: its launcher cannot be cut out of its module, or its arguments cannot be written.
        """
        finding = worst(report.findings)
        if finding is None:
            return None
        if not self._checked:  # which alone runs a kernel and stays on its feet
            with Session(replace(options, executor="checked", pdb=False)) as other:
                return other.write_repro(address, report, path, options)
        given = {"finding": finding, "case": smallest_case(report, finding), "path": path, "target": options.target}
        limits = Limits(options.case_seconds + SCRIPT_SECONDS, options.memory_bytes)
        found: Reproduction = self._answer(_SESSION + "write_repro", {"address": address, **given}, limits, options)
        return found

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        if self._second is not None:
            self._second.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _asked(self, task: str, address: Address | Operator, options: DebugOptions, **arguments: Any) -> CaseResult:
        result: CaseResult = self._ask(task, address, options, **arguments)
        return result

    def _ask(self, task: str, address: Address | Operator, options: DebugOptions, **arguments: Any) -> Any:
        limits = Limits(options.case_seconds, options.memory_bytes)
        return self._answer(task, {"address": address, "target": options.target, **arguments}, limits, options)

    def _answer(self, task: str, arguments: Mapping[str, Any], limits: Limits, options: DebugOptions) -> Any:
        self._on_terminal = options.on_terminal  # of who asks now, for a child that others have used
        if self._worker is None:
            env = INTERPRETER_ENVIRONMENT if self._executor == "interpreter" else COMPILING_ENVIRONMENT
            self._worker = Worker(
                env=env,
                interactive=True,
                stdout_to_stderr=self._stdout_to_stderr,
                on_pause=lambda: self._on_terminal(),
            )
        try:
            self._worker.submit(task, arguments, limits)
            return self._worker.result()
        except ChildFailed:
            self._worker.kill()
            self._worker = None
            raise
