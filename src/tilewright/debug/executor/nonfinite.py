"""Where a NaN or an infinity first arose, once an output is known not to be finite.

The launches are run again with operations that mark what is born in them: an infinity out of finite operands,
a NaN out of operands that are none. The mark travels as poison does, and is lost where the value is discarded
or turns finite again, so padding with -inf and the like stay silent. Values that came in that way have no mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.faults import Origin
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.tile import Tile, any_set
from tilewright.launch.ttir import Op

_MOVES = frozenset(("arith.constant", "arith.select", "arith.bitcast", "tt.bitcast"))
_LANEWISE = ("arith.", "math.", "tt.precise", "tt.extern", "tt.fp_to_fp", "tt.clampf")
_WHOLE = frozenset(("tt.reduce", "tt.scan", "tt.dot", "tt.dot_scaled"))


def watched(handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """Handlers that mark what is born in them."""
    watcher = _Watcher()
    return {name: watcher.around(name, handler) for name, handler in handlers.items()}


class _Watcher:
    def __init__(self) -> None:
        self._inside = False  # a combine function's own operations are its reduction's

    def around(self, name: str, handler: Handler) -> Handler:
        def watching(machine: Machine, op: Op, operands: list[Tile]) -> Any:
            if self._inside:
                return handler(machine, op, operands)
            self._inside = True
            try:
                result = handler(machine, op, operands)
            finally:
                self._inside = False
            for tile in result if isinstance(result, list) else [result]:
                if isinstance(tile, Tile):
                    _mark(machine, op, name, operands, tile)
            return result

        return watching


def _mark(machine: Machine, op: Op, name: str, operands: list[Tile], tile: Tile) -> None:
    if tile.element not in elements.FLOATS or "load" in name or "atomic" in name:
        tile.poison = None
        return
    bad = ~tile.data.isfinite()
    if not any_set(bad):
        tile.poison = None
        return
    own = torch.zeros((), dtype=torch.uint8) if tile.poison is None else tile.poison
    born = _born(name, operands, tile.data, bad) & (own == 0)
    number = machine.faults.origins.number(Origin("non-finite", None, machine.place(op))) if any_set(born) else 0
    tile.poison = torch.where(born, torch.tensor(number, dtype=torch.uint8), own) * bad


def _born(name: str, operands: list[Tile], data: Tensor, bad: Tensor) -> Tensor:
    """Lanes that became what they are in this operation."""
    sources = [tile.data for tile in operands if tile.element in elements.FLOATS]
    if name in _MOVES or not (name in _WHOLE or name.startswith(_LANEWISE)):
        return torch.zeros_like(bad)
    born = bad.clone()
    for source in sources:
        worse, nans = ~source.isfinite(), source.isnan()
        if name in _WHOLE:
            worse, nans = worse.any(), nans.any()
        born = born & torch.where(data.isnan(), ~nans, ~worse)
    return born
