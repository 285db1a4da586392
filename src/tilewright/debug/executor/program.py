"""A kernel's TTIR, ready to execute: made once for launches that specialise alike."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tilewright.debug.executor.ops.load import is_volatile
from tilewright.debug.executor.provenance import Flow
from tilewright.debug.executor.waiting import first_wait
from tilewright.hardware.target import Target
from tilewright.launch.compile import Specialised, specialise
from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Function, Module, parse

_KEPT = 256


@dataclass(frozen=True)
class Program:
    """What is known of a kernel before it runs.

    Attributes:
        widest: lanes of its largest tile.
        stored: parameters it may store through; None for any memory.
        loaded: parameters it may load through, atomics among them; None for any memory.
        synchronises: holds atomics, which order what programs do.
        first_wait: position in the entry's first block of what may wait for another program; None if nothing does.
        observed: operations (by index) whose results are looked at.
        uses_tf32: multiplies fp32 in tf32.
        knows_order: looks at what atomics or volatile loads found, which tells programs who came before.
    """

    module: Module
    widest: int
    stored: frozenset[str] | None
    loaded: frozenset[str] | None
    synchronises: bool
    first_wait: int | None
    observed: frozenset[int]
    knows_order: bool
    uses_tf32: bool

    @property
    def waits(self) -> bool:
        return self.first_wait is not None


_programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()


def compiled(launch: Launch, target: Target) -> Program:
    """The program of a launch; launches that specialise alike share it.

    Raises:
        KernelCompileError: Triton rejects the kernel.
    """
    special = specialise(launch, target, debug=True, sanitize_overflow=False)
    key = special.key
    if key not in _programs:
        _programs[key] = _program(special)
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    _programs.move_to_end(key)
    return _programs[key]


def _program(special: Specialised) -> Program:
    module = parse(special.lower().ttir)
    module.entry.argument_names = _parameters(special, module.entry)
    ops = list(module.ops())
    flow = Flow(module)
    widest = max((math.prod(kind.shape) for op in ops for kind in op.result_types), default=1)
    synchronises = any(op.name.startswith("tt.atomic") for op in ops)
    observed = _observed(module)
    knows = any((op.name.startswith("tt.atomic") or is_volatile(op)) and op.index in observed for op in ops)
    tf32 = any(op.name == "tt.dot" and op.attributes.get("inputPrecision") == "tf32" for op in ops)
    return Program(
        module, widest, flow.stored, flow.loaded, synchronises, first_wait(module, flow), observed, knows, tf32
    )


def _parameters(special: Specialised, entry: Function) -> tuple[str, ...]:
    """Names of the entry's parameters, which its text may have lost: ``limit = n`` renames n there.

    A descriptor's sizes and strides stand behind it; entries of tuples are ``name.0``, ``name.1``.
    """
    kinds = iter(entry.argument_types)
    names: list[str] = []
    for name in _leaves(special.signature):
        kind = next(kinds, None)
        if kind is None:
            return entry.argument_names
        names.append(name)
        if kind.element.startswith("desc<"):
            names += [f"{name}.{part}" for part in islice(kinds, 2 * len(kind.shape))]
    return tuple(names) if len(names) == len(entry.arguments) else entry.argument_names


def _leaves(signature: Mapping[str, Any]) -> Iterator[str]:
    for name, kind in signature.items():
        if isinstance(kind, tuple):
            yield from _leaves({f"{name}.{position}": part for position, part in enumerate(kind)})
        elif kind != "constexpr":
            yield name


def _observed(module: Module) -> frozenset[int]:
    """Operations whose result some other operation takes."""
    found: set[int] = set()
    for function in module.functions.values():
        ops = list(function.region.ops())
        taken = {name for op in ops for name in op.operands}
        found.update(op.index for op in ops if not taken.isdisjoint(op.results))
    return frozenset(found)
