"""Which edits could matter to a case: found by running it once and looking at what each operation meets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tilewright.debug.causes import padding
from tilewright.debug.causes.arithmetic import PythonDivision, WideOffsets, rounds_differently
from tilewright.debug.causes.change import Change, Edits, OfLaunch
from tilewright.debug.causes.extent import Axes, dims_along, within
from tilewright.debug.causes.guards import GuardedDivisor, GuardedMaximum, is_empty_maximum, is_zero_somewhere
from tilewright.debug.causes.launches import LargerGrid, of_arguments, of_grid, of_tensors
from tilewright.debug.causes.masks import (
    FILLERS,
    MASK_AT,
    Bounded,
    Masked,
    NotBelow,
    Other,
    Shifted,
    WhereOther,
    can_fill,
    filler,
    indices_in_scope,
    masks_in_scope,
    region_of,
    same_value,
)
from tilewright.debug.causes.padding import REDUCTIONS, Excluded, Filled, mixes, neutral, reduced_axis
from tilewright.debug.causes.precision import AllWidened, Widened, computes
from tilewright.debug.causes.site import Site, site_of
from tilewright.debug.causes.whole import InSequence, OneMoreTurn, ZeroedMemory
from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.tile import Tile, all_set, any_set
from tilewright.debug.guard import is_users_code
from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Module, Op

_NARROW = frozenset(("f16", "bf16"))
_MAXIMA = frozenset(("tt.reduce", "arith.maxnumf", "arith.maximumf"))


@dataclass
class Access:
    """What is known of the accesses at a site: along which dims their tiles run."""

    tensor: str
    axes: dict[int, frozenset[int]] = field(default_factory=dict)
    beyond: bool = False  # some lane that took part was outside along a dim
    short: bool = False  # some lane that did not was inside
    others: set[str] = field(default_factory=set)
    below: dict[tuple[str, int | None], None] = field(default_factory=dict)  # indices that are negative in some lane
    masks: dict[tuple[str, int | None], None] = field(
        default_factory=dict
    )  # of the kernel's that would leave lanes out

    def agreed(self) -> Axes:
        """Axes whose dim is known for certain."""
        return tuple((axis, min(dims)) for axis, dims in sorted(self.axes.items()) if len(dims) == 1)


@dataclass(frozen=True)
class _Born:
    """Where a tile was made, and whether it was assigned to a variable. Holding it keeps its id its own."""

    site: Site
    assigned: bool
    tile: Tile


@dataclass(eq=False)
class Survey(Edits):
    """Runs a case as it is, or with ``changes``, and notes what could be changed.

    One survey may look at several cases: what a tile's axes run along is plain in some and not in others.
    """

    changes: frozenset[Change] = frozenset()
    accesses: dict[Site, Access] = field(default_factory=dict)
    reductions: dict[Site, tuple[str, ...]] = field(default_factory=dict)  # with what leaves a lane out of them
    reduced: dict[tuple[Site, int], tuple[str, ...]] = field(default_factory=dict)  # values, and the axis reduced
    wheres: dict[Site, set[str]] = field(default_factory=dict)  # with the constants that they give otherwise
    compared: dict[Site, None] = field(default_factory=dict)
    divisions: set[Site] = field(default_factory=set)
    loops: set[Site] = field(default_factory=set)
    narrow: set[tuple[str, int]] = field(default_factory=set)
    floats: set[tuple[str, int]] = field(default_factory=set)
    arguments: dict[OfLaunch, None] = field(default_factory=dict)
    grids: dict[LargerGrid, None] = field(default_factory=dict)
    maxima: set[Site] = field(default_factory=set)
    divisors: set[Site] = field(default_factory=set)
    wraps: bool = False
    _born: dict[int, _Born] = field(default_factory=dict)
    _assigned: frozenset[int] = frozenset()

    def launched(self, launch: Launch) -> Launch:
        launch = super().launched(launch)
        self.arguments.update(dict.fromkeys([*of_tensors(launch), *of_arguments(launch)]))
        self.grids.update(dict.fromkeys(of_grid(launch)))
        return launch

    def prepare(self, machine: Machine, launch: Launch) -> None:
        machine.handlers = padding.marking(self, machine.handlers)
        super().prepare(machine, launch)
        machine.handlers = {name: self._looking(name, handler) for name, handler in machine.handlers.items()}
        self._born.clear()
        self._assigned = _assigning(machine.module)
        region_handlers = dict(machine.region_handlers)
        loop = region_handlers["scf.for"]

        def entered(machine: Machine, op: Op, scope: Any) -> Any:
            self.loops.add(site_of(machine, op))
            return loop(machine, op, scope)

        region_handlers["scf.for"] = entered
        machine.region_handlers = region_handlers

    def _looking(self, name: str, handler: Handler) -> Handler:
        look = _LOOKS.get(name)

        def looked(machine: Machine, op: Op, operands: list[Tile]) -> Any:
            site = site_of(machine, op)
            if look is not None:
                look(self, machine, op, operands, site)
            result = handler(machine, op, operands)
            if isinstance(result, Tile):
                self._note_types(op, site, result)
                self._born[id(result)] = _Born(site, op.index in self._assigned, result)
                self.wraps |= result.wide is not None
            return result

        return looked

    def _note_types(self, op: Op, site: Site, result: Tile) -> None:
        if not computes(op.name):
            return
        kinds = {kind.element for kind in op.result_types}
        if (kinds | {kind.element for kind in op.types}) & _NARROW:  # what reads a narrow value rounds it too
            self.narrow.add((site.file, site.line))
        if kinds & elements.FLOATS.keys():
            if op.name in _MAXIMA and is_empty_maximum(result):
                self.maxima.add(site)
            self.floats.add((site.file, site.line))

    # ------------------------------------------------------------------------------------------ candidates

    def masks(self) -> list[Change]:
        """What single accesses could do otherwise."""
        found: list[Change] = []
        for site, access in self.accesses.items():
            found += [Other(site, value) for value in FILLERS if access.others and value not in access.others]
            axes = access.agreed()
            if access.beyond or (axes and access.short):
                found += [Bounded(site, access.tensor, own) for own in dict.fromkeys((axes, ()))]
            if axes and access.short:
                found.append(Bounded(site, access.tensor, axes, exactly=True))
            found += [Masked(site, variable, axis) for variable, axis in access.masks]
            found += [NotBelow(site, variable, axis) for variable, axis in access.below]
        for site, others in self.wheres.items():
            found += [WhereOther(site, value) for value in FILLERS if value not in others]
        return found + [Shifted(site, by) for site in self.compared for by in (1, -1)]

    def fills(self) -> list[Change]:
        """Reductions that padded lanes reach, and the values that bring them there."""
        found: list[Change] = []
        for (site, axis), values in self.reduced.items():
            found += [Filled(site, value, axis) for value in values]
        for site, values in self.reductions.items():
            found += [Excluded(site, value) for value in values]
        return found

    def rest(self) -> list[Change]:
        """Arithmetic, loops, strides, memory, order."""
        found: list[Change] = [PythonDivision(site) for site in self.divisions]
        found += self.arguments
        found += [OneMoreTurn(site) for site in self.loops]
        if self.wraps:
            found.append(WideOffsets())
        return [*found, *self.grids, InSequence(), ZeroedMemory()]

    def guards(self) -> list[Change]:
        """What keeps rows of which nothing is left from turning into NaN."""
        return [*map(GuardedMaximum, self.maxima), *map(GuardedDivisor, self.divisors)]

    def widened(self) -> list[tuple[Change, list[Change]]]:
        """All that could be computed in a wider type, each with the same line by line."""
        found: list[tuple[Change, list[Change]]] = []
        for element, lines in (("f32", self.narrow), ("f64", self.floats)):
            if lines:
                each = [Widened(Site(file, line, 0, ""), element) for file, line in sorted(lines)]
                found.append((AllWidened(element), list(each)))
        return found


def _assigning(module: Module) -> frozenset[int]:
    """Operations whose result is the value of an assignment: the last of those that carry its name."""
    last = {}
    for op in module.ops():
        if op.location.name is not None:
            last[op.location.name, op.location.file, op.location.line] = op.index
    return frozenset(last.values())


def _access(survey: Survey, machine: Machine, op: Op, operands: list[Tile], site: Site) -> None:
    pointer = operands[0]
    region = region_of(machine, pointer)
    if region is None:
        return
    access = survey.accesses.setdefault(site, Access(region.name))
    dims = dims_along(pointer, region)
    for axis, own in dims.items():
        access.axes[axis] = access.axes.get(axis, own) & own or own
    at = MASK_AT[op.name]
    mask = operands[at].data if len(operands) > at else None
    live = torch.ones((1,) * (len(pointer.shape) + 1), dtype=torch.bool) if mask is None else mask
    inside = region.inside(pointer.data, elements.size(pointer.element[4:-1]))
    axes = tuple((axis, min(own)) for axis, own in dims.items())
    bounded = inside & within(pointer, region, axes)
    access.beyond |= any_set(live & ~bounded)
    access.short |= mask is not None and any_set(~mask & bounded)
    for key, added in masks_in_scope(machine, pointer).items():
        if any_set(live & ~added):
            access.masks[key] = None
    for key, index in indices_in_scope(machine, pointer).items():
        if any_set(live & (index < 0)):
            access.below[key] = None
    if op.name == "tt.load" and mask is not None and not all_set(mask) and can_fill(pointer.element[4:-1]):
        access.others.add(_current_other(operands))


def _current_other(operands: list[Tile]) -> str:
    if len(operands) < 3:
        return "none"
    return _as_filler(operands[2])


def _as_filler(tile: Tile) -> str:
    return next((word for word in FILLERS if same_value(tile, filler(word, tile.element))), "its own")


def _reduction(survey: Survey, machine: Machine, op: Op, operands: list[Tile], site: Site) -> None:
    sides = operands[:2] if op.name == "tt.dot" else operands
    for position, tile in enumerate(sides):
        if not mixes(op, tile, position):
            continue
        values = neutral(machine, op)
        survey.reductions.setdefault(site, values)
        born = survey._born.get(id(tile))
        if born is not None and born.assigned and born.site.op not in ("tt.load", "tt.reduce", "tt.scan"):
            survey.reduced.setdefault((born.site, reduced_axis(op, tile, position)), values)


def _division(survey: Survey, machine: Machine, op: Op, operands: list[Tile], site: Site) -> None:
    if any_set(rounds_differently(operands[0].data, operands[1].data)):
        survey.divisions.add(site)


def _comparison(survey: Survey, machine: Machine, op: Op, operands: list[Tile], site: Site) -> None:
    if operands[0].shape and is_users_code(site.file):
        survey.compared[site] = None


def _where(survey: Survey, machine: Machine, op: Op, operands: list[Tile], site: Site) -> None:
    condition, _, no = operands
    if no.data.numel() == 1 and can_fill(no.element) and not all_set(condition.data):
        survey.wheres.setdefault(site, set()).add(_as_filler(no))


def _quotient(survey: Survey, machine: Machine, op: Op, operands: list[Tile], site: Site) -> None:
    if is_zero_somewhere(operands[1]):
        survey.divisors.add(site)


_Look = Callable[[Survey, Machine, Op, list[Tile], Site], None]
_LOOKS: Mapping[str, _Look] = {
    **dict.fromkeys(MASK_AT, _access),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("arith.divf", "tt.precise_divf", "tt.approx_divf"), _quotient),
    "arith.select": _where,
    "arith.cmpi": _comparison,
    "arith.divsi": _division,
    "arith.remsi": _division,
}
