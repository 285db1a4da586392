"""Whether a case was refused by those who own it: the compiler, the launcher, the reference, the inputs.

Sizes that a planner made up may be none of the operator's; what refuses them loudly is no fault. A case that a
user names is a user's question, and the refusal its answer.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.debug.patience import StillRunning
from tilewright.errors import KernelCompileError, LauncherFailed, ReferenceFailed, TilewrightError, UsageError
from tilewright.launch import host
from tilewright.records import Case, CaseResult
from tilewright.spec.operator import Operator

LONG_LOOP = "a loop of one program goes over so many elements that it takes too long here"


def words(operator: Operator, error: Exception | None, *, huge: bool = False) -> str | None:
    """Why an exception of a launcher's call is a refusal of the case; None where it is a fault.

    Triton refuses a size that it cannot compile, and a launcher says no by an assert or a raise of its own.
    Where ``inputs`` makes the arguments, anything that the launcher's Python raises is a no. A loop over what is
    ``huge`` is long, not endless.
    """
    if isinstance(error, StillRunning):
        return LONG_LOOP if huge else None
    if error is None:
        return None
    if isinstance(error, KernelCompileError):
        return error.what
    if isinstance(error, TilewrightError) and not isinstance(error, LauncherFailed):
        return None
    if host.raised_below_a_launch(error):
        return None
    if host.refuses(error) or operator.inputs is not None:
        return host.told(error, "the launcher")
    return None


def made_by_inputs(operator: Operator, error: BaseException) -> str | None:
    """Why the inputs of a case cannot be made, where the author's own function or a value class says so."""
    return error.what if isinstance(error, UsageError) else None


def checked(case: Case, check: Callable[[], CaseResult]) -> CaseResult:
    """The result of a planned case; refused where its inputs cannot be made or the reference will not take them."""
    try:
        return check()
    except (UsageError, ReferenceFailed) as error:
        return CaseResult(case, refused=error.what)
