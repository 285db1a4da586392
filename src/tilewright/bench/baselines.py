"""What an operator is compared with: its own baselines, its reference as it stands, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tilewright.spec.golden import accepted_keywords
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

EAGER = "eager"
COMPILED = "torch.compile"


def callables(operator: Operator, *, compile: bool = True) -> dict[str, Callable[..., Any]]:
    """All baselines by name: those declared, the reference in eager mode, and under ``torch.compile``."""
    found: dict[str, Callable[..., Any]] = dict(operator.baselines)
    if operator.reference is not None:
        found[EAGER] = operator.reference
        if compile:
            torch._dynamo.reset()
            found[COMPILED] = torch.compile(operator.reference, dynamic=False)
    return found


def bound(baseline: Callable[..., Any], inputs: Inputs, options: Mapping[str, Any]) -> Callable[[], Any]:
    """A call of a baseline on fixed inputs, with the options it takes."""
    keywords = accepted_keywords(baseline, options)
    return lambda: baseline(*inputs.args, **keywords)
