"""A kernel's TTIR, ready to execute: made once for launches that specialise alike."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from tilewright.debug.executor.provenance import stored_parameters
from tilewright.debug.executor.ttir import Module, Op, Region, parse
from tilewright.hardware.target import Target
from tilewright.launch.compile import lower
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


_programs: OrderedDict[str, Program] = OrderedDict()


def compiled(launch: Launch, target: Target) -> Program:
    """The program of a launch.

    Raises:
        KernelCompileError: Triton rejects the kernel.
    """
    lowered = lower(launch, target, debug=True, sanitize_overflow=False)
    text = lowered.ttir
    if text not in _programs:
        module = parse(text)
        ops = list(module.ops())
        widest = max((math.prod(kind.shape) for op in ops for kind in op.result_types), default=1)
        synchronises = any(op.name.startswith("tt.atomic") for op in ops)
        _programs[text] = Program(module, widest, stored_parameters(module), synchronises, any(map(_waits, ops)))
        while len(_programs) > _KEPT:
            _programs.popitem(last=False)
    _programs.move_to_end(text)
    return _programs[text]


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
