"""One case in both executors: what each finds, and whether their values agree."""

from __future__ import annotations

from dataclasses import replace

from tilewright.records import CaseResult, Finding, fault_key

ONLY_INTERPRETER = "; only the stock interpreter finds this"


def together(checked: CaseResult, stock: CaseResult) -> CaseResult:
    """The checked executor's result with what the interpreter alone finds.

    Where one calls the values right and the other wrong, that is a finding of its own: they run the same
    program, so one of the two is not what a GPU does.
    """
    known = {fault_key(finding)[0] for finding in checked.findings}
    extra = [replace(f, message=f.message + ONLY_INTERPRETER) for f in stock.findings if f.kind not in known]
    return replace(checked, findings=(*checked.findings, *extra, *_disagreement(checked, stock)))


def _disagreement(checked: CaseResult, stock: CaseResult) -> list[Finding]:
    errors = (checked.error_over_tolerance, stock.error_over_tolerance)
    if errors[0] is None or errors[1] is None or (errors[0] > 1) == (errors[1] > 1):
        return []
    words = (
        f"the executors disagree: worst error {errors[0]:.2g} of the tolerance in the checked one, {errors[1]:.2g} in the "
        "stock interpreter (which computes no tf32, takes undefined lanes for zero, and runs programs in order)"
    )
    return [Finding("mismatch", words, "warning", case=checked.case)]
