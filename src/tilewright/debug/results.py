"""What a call gives back, by name: outputs, arguments changed by contract, gradients; and what was declared of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tilewright.errors import LauncherFailed
from tilewright.records import Case, Finding
from tilewright.spec import dtypes, golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator


@dataclass(frozen=True)
class Results:
    """``named`` come in the order of their golden values; ``returned`` is what the launcher returned."""

    named: dict[str, Tensor]
    returned: tuple[Tensor, ...]


def of_call(operator: Operator, case: Case, inputs: Inputs, returned: Any, expected: int | None) -> Results:
    """The results of a launcher's call, the backward pass included.

    ``expected`` is the number of golden values, None without a reference.

    Raises:
        LauncherFailed: it returned no tensors, or nothing that can be differentiated.
    """
    outputs = golden.as_tensors(returned)
    if outputs is None:
        raise LauncherFailed(f"the launcher returned {type(returned).__name__}, not a tensor or a tuple of tensors")
    mutated = {name: inputs.tensors[name] for name in operator.mutates if name in inputs.tensors}
    beside = None if expected is None else expected - len(mutated) - len(operator.grad)
    own = golden.own_outputs(outputs, tuple(mutated.values()), beside)
    named = {**dict(zip(golden.output_names(len(own)), own, strict=True)), **mutated}
    if operator.grad:
        leaves = [inputs.tensors[name] for name in operator.grad]
        for name, gradient in zip(operator.grad, _gradients(outputs, leaves, case.layout), strict=True):
            named[f"gradient of {name}"] = gradient
    return Results(named, outputs)


def as_declared(operator: Operator, case: Case, results: Results) -> list[Finding]:
    """Outputs of another shape or dtype than the launcher's annotation says."""
    specs = operator.signature.returns if operator.signature else None
    if specs is None or len(specs) != len(results.returned):
        return []  # it may return more in some cases: that is the reference's to judge
    sizes = operator.complete(case.arguments)
    found = []
    for name, output, spec in zip(golden.output_names(len(specs)), results.returned, specs, strict=True):
        if spec is None:
            continue
        if not spec.fits(tuple(output.shape), sizes):
            shown = "(" + ", ".join(map(str, output.shape)) + ")"
            words = f"{name} has shape {shown}, declared is {spec}"
        elif not spec.admits(output.dtype):
            words = f"{name} is {dtypes.short(output.dtype)}, declared is {spec}"
        else:
            continue
        remedy = "return what is declared, or declare what is returned"
        found.append(Finding("mismatch", words, argument=name, cause="unknown", remedy=remedy))
    return found


def gradient_reference(
    reference: Callable[..., Any], grad: tuple[str, ...], names: tuple[str, ...], layout: str = "contiguous"
) -> Callable[..., Any]:
    """A function that returns the gradients of a reference in the inputs named in ``grad``."""

    def gradients(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            leaves = {n: a.detach().clone().requires_grad_() for n, a in zip(names, args, strict=True) if n in grad}
            arguments = [leaves.get(name, argument) for name, argument in zip(names, args, strict=True)]
            outputs = golden.as_tensors(reference(*arguments, **golden.accepted_keywords(reference, kwargs)))
        return _gradients(outputs or (), [leaves[name] for name in grad], layout)

    return gradients


def _gradients(outputs: tuple[Tensor, ...], leaves: list[Tensor], layout: str) -> tuple[Tensor, ...]:
    differentiable = [output for output in outputs if output.requires_grad]
    if not differentiable:
        raise LauncherFailed(
            "grad= is declared, but no output requires grad", "wrap the kernels in a torch.autograd.Function"
        )
    sent = [upstream(output, layout) for output in differentiable]
    found = torch.autograd.grad(differentiable, leaves, sent, allow_unused=True)
    return tuple(g if g is not None else torch.zeros_like(leaf) for g, leaf in zip(found, leaves, strict=True))


def upstream(output: Tensor, layout: str) -> Tensor:
    """The gradient sent back through an output: random, the same for launcher and reference.

    In the layouts ``expanded-grad`` (all strides 0, as ``y.sum().backward()`` sends it) and
    ``transposed-grad`` it is not contiguous.
    """
    source = torch.Generator().manual_seed(output.numel())
    if layout == "expanded-grad":
        return (torch.rand((), generator=source) + 0.5).to(output).expand(output.shape)
    if layout != "transposed-grad" or output.dim() == 0:
        return torch.randn(output.shape, generator=source).to(output)
    if output.dim() == 1:
        return torch.randn(2 * output.numel(), generator=source).to(output)[::2]
    return torch.randn(output.mT.shape, generator=source).to(output).mT
