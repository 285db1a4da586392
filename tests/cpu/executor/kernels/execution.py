"""Runs a launcher under the checked executor, as debug does: memory poisoned, launches caught."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from tilewright.debug.executor.executor import Executor
from tilewright.hardware.targets import find
from tilewright.launch.capture import capture
from tilewright.records import Finding
from tilewright.spec.poison import Poisoned

TARGET = find("h100")


def execute(launcher: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, Executor]:
    """What a launcher returns, and the executor that ran its launches."""
    poisoned = Poisoned()
    executor = Executor(TARGET, poisoned, **options)
    with capture(executor, TARGET), poisoned:
        result = launcher(*args)
    return result, executor


def findings(launcher: Callable[..., Any], *args: Any) -> list[Finding]:
    return execute(launcher, *args)[1].findings()


def faults(launcher: Callable[..., Any], *args: Any) -> list[Finding]:
    """Findings that are more than notes."""
    return [finding for finding in findings(launcher, *args) if finding.severity != "note"]


def tagged(finding: Finding) -> str | None:
    """The tag of a finding's line: what stands behind ``# `` on it."""
    text = linecache.getline(finding.file or "", finding.line or 0)
    return text.partition("# ")[2].strip() or None
