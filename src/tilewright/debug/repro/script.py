"""The text of a script that shows a fault again: the user's code, the inputs, the call, and what is right."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.repro.literals import elements, literal
from tilewright.debug.repro.slicing import Slicer
from tilewright.records import Finding
from tilewright.spec.golden import Expected

_WIDTH = 112
_COPIED = "# --- copied from here\n"
_MAY_CRASH = (
    "out-of-bounds-read",
    "out-of-bounds-write",
    "offset-overflow",
    "misaligned",
    "deadlock",
    "integer-hazard",
)
_SECONDS = 120
"""After which a script whose kernel may hang ends."""
NAMES = ("torch", "triton", "os", "sys", "base64", "zlib", "subprocess", "traceback")
"""Modules that a script imports for itself."""


@dataclass(frozen=True)
class Call:
    """A launcher's call as a script makes it.

    ``results`` are expressions over ``args``, ``kwargs``, ``outputs`` and ``gradients``, by the results' names;
    ``pinned`` are statements that say how autotuned kernels come to their configuration.
    """

    callee: str
    positional: Sequence[tuple[str, Any]]
    keywords: Mapping[str, Any]
    config: Mapping[str, Any]
    pinned: Sequence[str]
    results: Mapping[str, str]
    outputs: int
    unchanged: Sequence[str] = ()
    leaves: Sequence[str] = ()
    upstream: Sequence[Tensor] = ()


@dataclass(frozen=True)
class Judged:
    """How a script tells whether the fault shows: by golden values, or by what needs none."""

    expected: Sequence[Expected]
    tolerances: Sequence[Tensor]
    checks: Sequence[tuple[str, str]] = ()  # functions of the harness, and the results they look at
    raises: bool = False  # an exception is the fault


def text(finding: Finding, about: Sequence[str], slicer: Slicer, call: Call, judged: Judged, path: Path) -> str:
    """The whole script; ``about`` are the lines at its top."""
    harness = Path(__file__).with_name("harness.py").read_text()
    imports, _, copied = harness.partition(_COPIED)
    imports = imports[imports.index("import base64") :].replace(
        "  # noqa: F401  # the user's code may be all that needs it", ""
    )
    may_crash = finding.kind in _MAY_CRASH
    own = ["os", *(["subprocess"] if may_crash else []), "sys", "traceback"]
    imports = imports.replace("import os\n", "".join(f"import {name}\n" for name in own))
    arguments = _arguments(call, slicer)
    sliced = slicer.sliced()
    top = [f"# {line}".rstrip() for paragraph in about for line in textwrap.wrap(paragraph, _WIDTH) or [""]]
    parts = [
        "\n".join([*top, "# ruff: noqa"]),
        imports.strip() + "\n\n" + "\n".join(sliced.imports),
        sliced.code,
        arguments,
        _golden(judged),
        _repro(call, judged),
        copied.strip(),
        _main(may_crash),
        _test(finding, may_crash) if path.name.startswith("test_") else "",
        _END,
    ]
    return "\n\n\n".join(part for part in parts if part) + "\n"


# ------------------------------------------------------------------------------------------------- arguments


class _Memory:
    """Tensors as code: each memory is made once, and tensors are made of it or are views of it."""

    def __init__(self, slicer: Slicer) -> None:
        self.lines: list[str] = []
        self.names: dict[tuple[int, int], str] = {}
        self.slicer = slicer

    def value(self, value: Any, name: str) -> str:
        """An expression for an argument, with the lines it needs written."""
        if isinstance(value, Tensor):
            return self.tensor(value, name)
        if isinstance(value, (tuple, list)) and any(isinstance(item, Tensor) for item in value):
            items = [self.value(item, f"{name}_{i}") for i, item in enumerate(value)]
            return f"[{', '.join(items)}]" if isinstance(value, list) else f"({', '.join(items)},)"
        if callable(value) and not isinstance(value, type):
            return self.slicer.expression(value)
        return literal(value)

    def tensor(self, tensor: Tensor, name: str) -> str:
        tensor, leaf = tensor.detach(), ".requires_grad_()" if tensor.requires_grad else ""
        storage = tensor.untyped_storage()
        is_whole = tensor.is_contiguous() and tensor.numel() * tensor.element_size() == storage.nbytes()
        key = (storage.data_ptr(), storage.nbytes())
        if is_whole and (key not in self.names or not tensor.numel()):
            self.lines.append(f"{name} = repro_memory({elements(tensor)}){leaf}")
            self.names[key] = name
            return name
        if key not in self.names:
            count = storage.nbytes() // tensor.element_size()
            flat = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,))
            self.names[key] = f"{name}_memory"
            self.lines.append(f"{name}_memory = repro_memory({elements(flat)})")
        place = f"{literal(tuple(tensor.shape))}, {literal(tensor.stride())}, {tensor.storage_offset()}"
        self.lines.append(f"{name} = repro_view({self.names[key]}, {tensor.dtype}, {place}){leaf}")
        return name


def _arguments(call: Call, slicer: Slicer) -> str:
    memory = _Memory(slicer)
    positional = [memory.value(value, _variable(name)) for name, value in call.positional]
    keywords = {name: memory.value(value, _variable(name)) for name, value in call.keywords.items()}
    keywords |= {name: memory.value(value, name) for name, value in call.config.items()}
    upstream = [memory.value(tensor, f"upstream_{i}") for i, tensor in enumerate(call.upstream)]
    args = f"({', '.join(positional)}{',' * (len(positional) == 1)})"
    kwargs = "{" + ", ".join(f'"{name}": {value}' for name, value in keywords.items()) + "}"
    returned = f"return {args}, {kwargs}" + (f", [{', '.join(upstream)}]" if call.leaves else "")
    body = textwrap.indent("\n".join([*memory.lines, returned]), "    ")
    gradients = ", gradients sent back through its results" if call.leaves else ""
    return f'def repro_arguments():\n    """Arguments of the launcher, by position and by name{gradients}."""\n{body}'


def _variable(name: str) -> str:
    return f"{name}_" if name in NAMES or not name.isidentifier() else name


# ---------------------------------------------------------------------------------------------------- golden


def _golden(judged: Judged) -> str:
    if not judged.expected:
        return ""
    lines = []
    for gold, tolerance in zip(judged.expected, judged.tolerances, strict=True):
        lines += [
            f'"{gold.name}": (',
            f"    {elements(_rounded(gold.values, gold.dtype))},",
            f"    {_tolerance(tolerance)},",
            "),",
        ]
    body = textwrap.indent("\n".join(lines), "        ")
    return (
        'def repro_golden():\n    """By result, the reference\'s values in float64 and how far from each is still right."""\n'
        f"    return {{\n{body}\n    }}"
    )


def _rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Golden values with the digits that can matter beside the roundoff of a dtype."""
    values = values.detach().cpu().contiguous()
    if not values.is_floating_point() or dtype == torch.float64:
        return values
    return _with_digits(values, 10)


def _tolerance(tolerance: Tensor) -> str:
    upwards = _with_digits(tolerance.detach().cpu().double() * 1.005, 3)
    if upwards.numel() and bool((upwards == upwards.reshape(-1)[0]).all()):
        return literal(float(upwards.reshape(-1)[0]))
    return elements(upwards.contiguous())


def _with_digits(values: Tensor, digits: int) -> Tensor:
    rounded = [float(f"{value:.{digits}g}") for value in values.double().reshape(-1).tolist()]
    return torch.tensor(rounded, dtype=torch.float64).reshape(values.shape)


# ------------------------------------------------------------------------------------------------------ code


def _repro(call: Call, judged: Judged) -> str:
    given = "args, kwargs, upstream" if call.leaves else "args, kwargs"
    lines = [*call.pinned, f"{given} = repro_arguments()"]
    lines += [f"{_before(name)} = {expression}.detach().clone()" for name, expression in _kept(call)]
    called = ["with ReproFences() as fences:", *(f"    {line}" for line in _called(call))]
    if judged.raises:
        called = [
            "try:",
            *(f"    {line}" for line in called),
            "except Exception as error:",
            '    print(f"the launcher raised {type(error).__name__}: {error}")',
            "    return True",
        ]
    lines += [*called, "shown = [fences.broken]", *_judging(call, judged), "return any(shown)"]
    body = textwrap.indent("\n".join(lines), "    ")
    return f'def repro():\n    """Calls the launcher once; whether the fault shows."""\n{body}'


def _called(call: Call) -> Iterator[str]:
    """The call, with its backward pass."""
    yield f"returned = {call.callee}(*args, **kwargs)"
    yield "outputs = [o for o in (returned if isinstance(returned, (tuple, list)) else [returned]) if o is not None]"
    if call.leaves:
        yield f"leaves = [{', '.join(call.leaves)}]"
        yield "sent = [output for output in outputs if output.requires_grad]"
        yield "gradients = torch.autograd.grad(sent, leaves, upstream, allow_unused=True)"
        yield "gradients = [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(gradients, leaves)]"
    yield 'if REPRO_DEVICE == "cuda":'
    yield "    torch.cuda.synchronize()"


def _kept(call: Call) -> Iterator[tuple[str, str]]:
    names = [name for name, _ in call.positional]
    for name in call.unchanged:
        yield name, argument(name, names)


def argument(name: str, positional: Sequence[str]) -> str:
    """The expression for an argument of the launcher's call."""
    return f"args[{positional.index(name)}]" if name in positional else f'kwargs["{name}"]'


def _before(name: str) -> str:
    return f"{name}_before"


def _judging(call: Call, judged: Judged) -> Iterator[str]:
    if judged.expected:
        yield "golden = repro_golden()"
    if any(expression.startswith("outputs[") for expression in call.results.values()):
        yield f"if len(outputs) < {call.outputs}:"
        yield f'    print(f"the launcher returns {{len(outputs)}} tensors, and {call.outputs} are golden")'
        yield "    return True"
    for gold in judged.expected:
        if gold.name in call.results:
            yield f'shown.append(repro_differs("{gold.name}", {call.results[gold.name]}, *golden["{gold.name}"]))'
    for function, name in judged.checks:
        yield f'shown.append({function}("{name}", {call.results[name]}))'
    for name, expression in _kept(call):
        yield f'shown.append(repro_changed("{name}", {_before(name)}, {expression}))'


def _main(may_crash: bool) -> str:
    """What running the script does."""
    if not may_crash:
        return "def main():\n    return 1 if repro() else 0"
    return f'''def main():
    """Runs the kernel in a process of its own: a wild access may end it."""
    if "--here" in sys.argv:
        try:
            return 1 if repro() else 0
        except RuntimeError as error:
            if "CUDA error" not in str(error):
                raise
            print(error)
            return 1
    try:
        ended = subprocess.run([sys.executable, __file__, "--here"], timeout={_SECONDS}).returncode
    except subprocess.TimeoutExpired:
        print("still running after {_SECONDS} s")
        return 1
    if ended < 0:
        print(f"the process died of signal {{-ended}}")
    return ended if ended in (0, 2) else 1'''


def _test(finding: Finding, may_crash: bool) -> str:
    name = finding.kind.replace("-", "_")
    shows = "main() == 0" if may_crash else "not repro()"
    return f'def test_no_{name}():\n    assert {shows}, "{finding.kind}: see the top of this file"'


_END = """if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)"""
