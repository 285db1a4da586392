"""Which loops of a kernel may wait for another program, told from those that merely search or count."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.debug.executor.ops.load import is_volatile
from tilewright.debug.executor.provenance import Flow
from tilewright.launch.ttir import Function, Module, Op, callee


def first_wait(module: Module, flow: Flow) -> int | None:
    """Position in the entry's first block of the operation that may wait first; its end, if it is in a later block.

    None where no loop of open length looks at memory that others may change meanwhile.
    """
    looking = _closed(module, lambda function, op, known: _looks(function, op, flow, known))

    def waits(function: Function, op: Op, known: set[str]) -> bool:
        if op.name == "tt.call":
            return callee(op) in known
        if op.name == "tt.atomic_poll":
            return True
        inside = [inner for region in op.regions for inner in region.ops()] if op.name == "scf.while" else []
        return any(_looks(function, inner, flow, looking) for inner in inside)

    waiting = _closed(module, waits)
    entry = module.entry
    if entry.name not in waiting:
        return None
    ops = entry.region.blocks[0].ops
    for position, op in enumerate(ops):
        every = [op, *(inner for region in op.regions for inner in region.ops())]
        if any(waits(entry, inner, waiting) for inner in every):
            return position
    return len(ops)


def _closed(module: Module, holds: Callable[[Function, Op, set[str]], bool]) -> set[str]:
    """Functions with an operation of a kind, in themselves or in those they call."""
    found: set[str] = set()
    before = -1
    while before != len(found):
        before = len(found)
        for name, function in module.functions.items():
            if any(holds(function, op, found) for op in function.region.ops()):
                found.add(name)
    return found


def _looks(function: Function, op: Op, flow: Flow, looking: set[str]) -> bool:
    if op.name == "tt.load":
        return is_volatile(op) or flow.may_be_stored(function, op.operands[0])
    if op.name == "tt.call":
        return callee(op) in looking
    return op.name.startswith("tt.atomic")
