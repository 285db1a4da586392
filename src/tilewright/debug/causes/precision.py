"""Lines of a kernel computed in a wider float type than they say.

Types are followed at run time: what a widened line makes stays wide where it is only moved or carried round a
loop, and is rounded to what an operation declares where that is not widened itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.debug.causes.change import Change, Edits
from tilewright.debug.causes.site import Site, site_of
from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.tile import Tile
from tilewright.launch.ttir import Op, Type

Line = tuple[str, int]
WIDER = {"f32": ("f16", "bf16"), "f64": ("f16", "bf16", "f32")}
"""What is widened to a type."""
_COMPUTES = ("arith.", "math.", "tt.precise", "tt.clampf", "tt.fp_to_fp")
_OTHERS = frozenset(("tt.reduce", "tt.scan", "tt.dot"))
_KEPT = frozenset(("arith.bitcast", "tt.bitcast"))
_BY_DTYPE = {dtype: name for name, dtype in elements.FLOATS.items()}


def computes(name: str) -> bool:
    """Whether an operation computes floats, so that it can do so in a wider type."""
    return (name.startswith(_COMPUTES) or name in _OTHERS) and name not in _KEPT


def widening(edits: Edits, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """Handlers that compute the lines of :class:`Widened` changes in their types."""
    lines = {(c.site.file, c.site.line): c for c in edits.changes if isinstance(c, Widened)}
    everywhere = next((c for c in edits.changes if isinstance(c, AllWidened)), None)
    variants: dict[tuple[int, str], Op] = {}

    def around(name: str, handler: Handler) -> Handler:
        def widened(machine: Machine, op: Op, operands: list[Tile]) -> Any:
            change: Change | None = everywhere
            if lines and computes(name):
                site = site_of(machine, op)
                change = lines.get((site.file, site.line), everywhere)
            if change is None or not computes(name) or not _has_floats(op):
                return _labelled(handler(machine, op, _as_declared(op, operands)))
            target = change.element  # type: ignore[attr-defined]
            wide = [_in(tile, target) for tile in operands]
            if any(kind.element in WIDER[target] for kind in op.result_types):
                edits.took_effect(change)
            key = (id(op), target)
            if key not in variants:
                variants[key] = _variant(op, target)
            return _labelled(handler(machine, variants[key], wide))

        return widened

    return {name: around(name, handler) for name, handler in handlers.items()}


@dataclass(frozen=True)
class Widened(Change):
    """A line of the source, computed in a wider type."""

    site: Site
    element: str
    cause = "low-precision-accumulation"
    layers = (widening,)

    @property
    def where(self) -> Site | None:
        return self.site


@dataclass(frozen=True)
class AllWidened(Change):
    """Everything a kernel computes, in a wider type."""

    element: str
    cause = "low-precision-accumulation"
    layers = (widening,)

    @property
    def where(self) -> Site | None:
        return None


def _has_floats(op: Op) -> bool:
    return any(kind.element in elements.FLOATS for kind in (*op.types, *op.result_types))


def _in(tile: Tile, target: str) -> Tile:
    if tile.element not in WIDER[target]:
        return tile
    return _converted(tile, target)


def _converted(tile: Tile, element: str) -> Tile:
    return Tile(tile.data.to(elements.FLOATS[element]), tile.shape, element, None, tile.poison)


def _variant(op: Op, target: str) -> Op:
    def wider(kind: Type) -> Type:
        return Type(kind.shape, target) if kind.element in WIDER[target] else kind

    attributes = dict(op.attributes)
    if op.name == "tt.dot" and op.types[0].element != "f32":
        attributes["inputPrecision"] = "ieee"  # of 16-bit operands, which tf32 holds whole, there is none
    return replace(
        op,
        types=tuple(map(wider, op.types)),
        result_types=tuple(map(wider, op.result_types)),
        attributes=attributes,
        cache=None,
    )


def _as_declared(op: Op, operands: list[Tile]) -> list[Tile]:
    """Operands rounded to the types that an operation was written with."""
    return [_rounded(tile, _declared(op, operands, position)) for position, tile in enumerate(operands)]


def _declared(op: Op, operands: list[Tile], position: int) -> str | None:
    if op.name in ("tt.store", "tt.atomic_rmw", "tt.atomic_cas") and position > 0:
        return operands[0].element[4:-1]
    if op.name == "tt.dot" and position == 2:
        return op.result_types[0].element
    if not computes(op.name) and not op.name.startswith(("tt.descriptor", "tt.extern", "arith.bitcast", "tt.bitcast")):
        return None  # it only moves what it is given
    kinds = op.types or op.result_types
    return kinds[min(position, len(kinds) - 1)].element if kinds else None


def _rounded(tile: Tile, element: str | None) -> Tile:
    if element not in elements.FLOATS or tile.element not in elements.FLOATS or tile.element == element:
        return tile
    return _converted(tile, element)  # type: ignore[arg-type]


def _labelled(result: Any) -> Any:
    """Results by the types that they are held in: what is only moved stays wide."""
    for tile in result if isinstance(result, list) else [result]:
        if isinstance(tile, Tile) and tile.element in elements.FLOATS:
            tile.element = _BY_DTYPE[tile.data.dtype]
    return result
