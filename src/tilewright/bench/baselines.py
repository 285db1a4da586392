"""What an operator is compared with: its own baselines, its reference as it stands, through both BLAS libraries, and
compiled."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from tilewright.bench import launched
from tilewright.errors import UsageError
from tilewright.spec.golden import accepted_keywords
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

EAGER = "eager"
COMPILED = "torch.compile"
TUNED = "torch.compile max-autotune"
BLAS = {"cublas": "eager, cuBLAS", "cublaslt": "eager, cuBLASLt"}
"""The reference with its products in one library; which of them plain eager mode takes is PyTorch's choice."""

Baseline = Callable[..., Any]


def callables(
    operator: Operator, inputs: Inputs, *, compile: bool = True, wanted: Collection[str] | None = None
) -> dict[str, Baseline]:
    """All baselines by name: those declared, and the reference in its forms; ``wanted`` keeps some of them.

    Raises:
        UsageError: a name that is wanted is none of them.
    """
    found: dict[str, Baseline] = {name: _declared(baseline) for name, baseline in operator.baselines.items()}
    reference = operator.reference
    if reference is not None:
        found[EAGER] = reference
        on_gpu = any(tensor.is_cuda for tensor in inputs.tensors.values())
        if on_gpu and (wanted is None or set(BLAS.values()) & set(wanted)) and _multiplies(reference, inputs):
            found |= {name: _through(reference, library) for library, name in BLAS.items()}
        if compile:
            torch._dynamo.reset()
            found[COMPILED] = torch.compile(reference, dynamic=False)
            if on_gpu:
                # CUDA graphs would copy the inputs, which no other side does.
                found[TUNED] = torch.compile(reference, dynamic=False, mode="max-autotune-no-cudagraphs")
    if wanted is None:
        return found
    # What belongs to another place, a GPU or a compiler, is not missing: it is not to be had here.
    known = {*found, EAGER, COMPILED, TUNED, *BLAS.values()}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UsageError(f"{operator.name} has no baseline {unknown[0]!r}", f"it has {', '.join(found)}")
    return {name: baseline for name, baseline in found.items() if name in wanted}


def bound(baseline: Baseline, inputs: Inputs, options: Mapping[str, Any]) -> Callable[[], Any]:
    """A call of a baseline on fixed inputs, with the options it takes."""
    keywords = accepted_keywords(baseline, options)
    return lambda: baseline(*inputs.args, **keywords)


def _multiplies(reference: Baseline, inputs: Inputs) -> bool:
    try:
        return bool(launched.products(bound(reference, inputs.copy(), inputs.kwargs)))
    except Exception:  # a reference that raises says so where it is checked
        return False


def _through(reference: Baseline, library: str) -> Baseline:
    def baseline(*args: Any, **options: Any) -> Any:
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library(library)
        try:
            return reference(*args, **options)
        finally:
            torch.backends.cuda.preferred_blas_library(before)

    return functools.wraps(reference)(baseline)  # with its signature: which options it takes is read there


def _declared(baseline: Baseline | str) -> Baseline:
    """A baseline named by ``package.module:function`` is imported when it is first called: it may not be installed."""
    if not isinstance(baseline, str):
        return baseline

    def imported(*args: Any, **options: Any) -> Any:
        function = _import(baseline)
        return function(*args, **(accepted_keywords(function, options) if options else {}))

    return imported


@functools.cache
def _import(path: str) -> Baseline:
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function: Baseline = found
    return function
