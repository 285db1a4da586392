"""Findings of a tuner, where it is written: at the line of ``@triton.autotune``, else at that of the kernel."""

from __future__ import annotations

import ast
import linecache
from typing import Any

from tilewright.launch.launch import python_function
from tilewright.records import Finding, Severity


def finding(
    kind: str,
    tuner: Any,
    message: str,
    tensor: str | None = None,
    remedy: str | None = None,
    severity: Severity = "error",
) -> Finding:
    """A finding of a tuner; ``tensor`` is the kernel's parameter that it is about."""
    code = python_function(tuner).__code__
    file, line = code.co_filename, _decorator(code.co_filename, code.co_name, code.co_firstlineno)
    source = linecache.getline(file, line).strip()
    return Finding(kind, message, severity, tensor, file=file, line=line, source=source, remedy=remedy)


def _decorator(file: str, name: str, first: int) -> int:
    """The line of a function's autotune decorator; where it has none, the line of its ``def``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return first
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and first <= node.lineno:
            lines = [d.lineno for d in node.decorator_list]
            if first in (node.lineno, *lines):
                tuners = [d.lineno for d in node.decorator_list if _called(d).endswith("autotune")]
                return tuners[0] if tuners else node.lineno
    return first


def _called(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
