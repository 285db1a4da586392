"""A kernel's TTIR, ready to execute: made once for launches that specialise alike."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from tilewright.debug.executor.provenance import stored_parameters
from tilewright.debug.executor.ttir import Module, Op, Region, parse
from tilewright.hardware.target import Target
from tilewright.launch.compile import specialise
from tilewright.launch.launch import Launch

_KEPT = 256


@dataclass(frozen=True)
class Program:
    """What is known of a kernel before it runs.

    Attributes:
        widest: lanes of its largest tile.
        stored: parameters it may store through; None for any memory.
        synchronises: holds atomics, which order what programs do.
        waits: holds a loop that may wait for another program.
    """

    module: Module
    widest: int
    stored: frozenset[str] | None
    synchronises: bool
    waits: bool


_programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()


def compiled(launch: Launch, target: Target) -> Program:
    """The program of a launch; launches that specialise alike share it.

    Raises:
        KernelCompileError: Triton rejects the kernel.
    """
    special = specialise(launch, target, debug=True, sanitize_overflow=False)
    key = special.key
    if key not in _programs:
        _programs[key] = _program(parse(special.lower().ttir))
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    _programs.move_to_end(key)
    return _programs[key]


def _program(module: Module) -> Program:
    ops = list(module.ops())
    widest = max((math.prod(kind.shape) for op in ops for kind in op.result_types), default=1)
    synchronises = any(op.name.startswith("tt.atomic") for op in ops)
    return Program(module, widest, stored_parameters(module), synchronises, any(map(_waits, ops)))


def _waits(op: Op) -> bool:
    return op.name == "scf.while" and any(_looks_at_others(region) for region in op.regions)


def _looks_at_others(region: Region) -> bool:
    return any(
        op.name.startswith("tt.atomic")
        or op.name == "tt.load"
        or any(map(_looks_at_others, op.regions))
        or op.name == "tt.call"
        for block in region.blocks
        for op in block.ops
    )
