"""The debug stage: is the kernel right? Cases, executors, findings."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.records import DebugReport, Event, drain

if TYPE_CHECKING:
    from tilewright.spec.operator import Operator


def debug(
    operator: Operator,
    cases: Sequence[Mapping[str, Any]] | None = None,
    *,
    on_event: Callable[[Event], None] = lambda event: None,
    **options: Any,
) -> DebugReport:
    """Runs an operator's cases and reports every fault they reach.

    Args:
        operator: what ``@tw.operator`` or ``tw.Operator`` made.
        cases: keyword arguments of wanted cases, such as ``[dict(M=129, N=127)]``, which may name values of a
            configuration beside them (``BLOCK=64``); None plans them from the kernel's own block sizes and
            its configurations.
        on_event: called with each event while it works.
        **options: fields of ``tilewright.debug.options.DebugOptions`` (``target``, ``seed``, ``executor``, …).

    The checked executor runs in this process; the stock interpreter and the GPU take a child process, for
    which the operator must be reachable from a module's top level.

    Raises:
        TilewrightError: the operator cannot be reached from a child process, or its reference raises.
    """
    # Imported at the call: importing the package must not import torch.
    stage = importlib.import_module("tilewright.debug.stage")
    here = importlib.import_module("tilewright.debug.here")
    load = importlib.import_module("tilewright.spec.load")
    if interprets():
        options = {"executor": "interpreter", **options}  # this process's kernels are the interpreter's objects
    wanted = stage.DebugOptions(cases=cases, **options)
    if wanted.executor == "checked" and not wanted.pdb and not interprets():
        events = stage.run(operator.name, operator, wanted, here.Here(wanted))
    else:
        events = stage.run(operator.name, load.address(operator), wanted)
    report: DebugReport = drain(events, on_event)
    return report


def interprets() -> bool:
    """Whether TRITON_INTERPRET is exported, which asks for Triton's own interpreter."""
    return os.environ.get("TRITON_INTERPRET", "").lower() not in ("", "0", "false", "off", "no")
