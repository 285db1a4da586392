"""Which kernel parameters a launch may store and load through, read off its operations before it runs.

Reads need shadows only where the same memory is written too; most tensors are inputs or outputs, not both.
The answer errs on the side of more: whatever a loop carries is taken for any of what it carries.
"""

from __future__ import annotations

from tilewright.launch.ttir import Function, Module, Op, Region, callee

_STORES = (
    "tt.store",
    "tt.atomic_rmw",
    "tt.atomic_cas",
    "tt.atomic_store",
    "tt.descriptor_store",
    "tt.descriptor_reduce",
    "tt.descriptor_scatter",
)
_UPDATES = ("tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_reduce")
_LOADS = ("tt.load", "tt.atomic_load", "tt.descriptor_load", "tt.descriptor_gather", *_UPDATES)
_POINTERS = ("ptr<", "desc<", "block<")


_ANY = "*"


class Flow:
    """Where pointers of a module come from.

    Attributes:
        stored: parameters of the entry (by the user's names) that stores may go to; None for any memory.
        loaded: those that loads may come from, atomics among them; None for any memory.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._known: dict[tuple[str, str], set[str]] = {}
        entry = module.entry
        for name, kind, own in zip(entry.arguments, entry.argument_types, entry.argument_names, strict=True):
            if kind.element.startswith(_POINTERS):
                self._known[entry.name, name] = {own.partition(".")[0]}
        before = -1
        while before != self._size():
            before = self._size()
            for function in module.functions.values():
                self.region(function, function.region)
        self.stored = self._through(_STORES)
        self.loaded = self._through(_LOADS)

    def may_be_stored(self, function: Function, pointer: str) -> bool:
        """Whether a launch may store where a pointer points."""
        sources = self.of(function, pointer)
        return self.stored is None or not sources or _ANY in sources or not sources.isdisjoint(self.stored)

    def _through(self, accesses: tuple[str, ...]) -> frozenset[str] | None:
        names: set[str] = set()
        for function in self.module.functions.values():
            for op in function.region.ops():
                if op.name in accesses:
                    sources = self.of(function, op.operands[0])
                    if not sources or _ANY in sources:
                        return None
                    names |= sources
        return frozenset(names)

    def _size(self) -> int:
        return sum(map(len, self._known.values()))

    def of(self, function: Function, name: str) -> set[str]:
        return self._known.get((function.name, name), set())

    def _add(self, function: Function, name: str, sources: set[str]) -> None:
        if sources:
            self._known.setdefault((function.name, name), set()).update(sources)

    def region(self, function: Function, region: Region) -> None:
        for block in region.blocks:
            for op in block.ops:
                self._step(function, op)

    def _step(self, function: Function, op: Op) -> None:
        sources: set[str] = set().union(*(self.of(function, name) for name in op.operands))
        if op.name == "tt.call":
            target = self.module.functions[callee(op)]
            for name, argument in zip(op.operands, target.arguments, strict=True):
                self._add(target, argument, self.of(function, name))
            returned = [o for block in target.region.blocks for o in block.ops if o.name == "tt.return"]
            sources = set().union(*(self.of(target, name) for end in returned for name in end.operands))
        elif op.regions:
            for inner in op.regions:
                self.region(function, inner)
                for block in inner.blocks:
                    ends = block.ops[-1].operands if block.ops else ()
                    sources |= set().union(*(self.of(function, name) for name in ends))
            for inner in op.regions:
                for block in inner.blocks:
                    for argument in block.arguments:
                        self._add(function, argument, sources)
            for name in op.operands:  # a loop's own names stand among its operands
                if (function.name, name) not in self._known:
                    self._add(function, name, sources)
        elif op.name.startswith("cf."):
            for block in function.region.blocks:
                for argument in block.arguments:
                    self._add(function, argument, sources)
        elif op.name == "tt.int_to_ptr" or (op.name == "tt.load" and op.result_types[0].is_pointer):
            sources = {_ANY}
        elif not any(kind.element.startswith(_POINTERS) for kind in op.result_types):
            return
        for name in op.results:
            self._add(function, name, sources)
