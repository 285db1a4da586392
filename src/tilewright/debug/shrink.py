"""From a case that fails to the smallest that fails alike: sizes first, then layout and dtype."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.records import Case, CaseResult, Finding
from tilewright.spec.operator import Operator


def shrink(
    operator: Operator, case: Case, finding: Finding, check: Callable[[Case], CaseResult], seconds: float
) -> Case:
    """The smallest case found within ``seconds`` that shows the same kind of fault on the same line."""
    deadline = time.perf_counter() + seconds

    def still_fails(candidate: Case) -> bool:
        try:
            result = check(candidate)
        except TilewrightError:
            return False  # sizes that the inputs cannot be made for, or the reference refuses
        return any(f.kind == finding.kind and f.line == finding.line for f in result.findings)

    progress = True
    while progress:
        progress = False
        for candidate in _simpler(operator, case):
            if time.perf_counter() > deadline:
                return case
            if still_fails(candidate):
                case, progress = candidate, True
                break
    return case


def _simpler(operator: Operator, case: Case) -> Iterator[Case]:
    """Candidates one step simpler, the boldest first."""
    if case.layout != "contiguous":
        yield replace(case, layout="contiguous")
    for name in sorted(operator.dims, key=lambda n: -_size(case.arguments.get(n))):
        size = case.arguments.get(name)
        if not isinstance(size, int) or isinstance(size, bool):
            continue
        for smaller in sorted({1, 2, size // 4, size // 2, size - size // 8, size - 1}):
            if 0 < smaller < size and operator.allows({**case.arguments, name: smaller}):
                yield replace(case, arguments={**case.arguments, name: smaller})
    for name, options in operator.choices.items():
        if case.arguments.get(name) != options[0]:
            yield replace(case, arguments={**case.arguments, name: options[0]})
    if case.dtype and case.dtype != operator.dtypes[0]:
        yield replace(case, dtype=operator.dtypes[0])


def _size(value: Any) -> int:
    return value if isinstance(value, int) else 0
