"""Edits to a kernel, made while it is executed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from tilewright.debug.causes.site import Site, site_of
from tilewright.debug.executor.machine import Handler, Machine, RegionHandler
from tilewright.debug.executor.tile import Tile
from tilewright.launch.host import launching_line
from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Op

Inner = Callable[[Machine, Op, list[Tile]], Any]


class Change(ABC):
    """One edit. A subclass is a frozen dataclass: equal changes are one.

    Attributes:
        cause: why the kernel is wrong if this mends it (``docs/architecture.md`` lists the causes).
    """

    cause: str

    @property
    @abstractmethod
    def where(self) -> Site | None:
        """The site it edits; None for what concerns a whole launch."""

    @property
    def alternatives(self) -> Any:
        """Changes with the same key exclude each other: two values for one thing."""
        return self


class Names(Protocol):
    """What ``naming.py`` offers to changes."""

    def note(
        self, change: Change, machine: Machine, op: Op, axis: int, rank: int, kept: Tensor, launch: Launch
    ) -> None:
        """The lanes that a change keeps along an axis of a tile, bool (programs or 1, lanes)."""

    def following_calls(self, handlers: Mapping[str, RegionHandler]) -> dict[str, RegionHandler]:
        """Region handlers that remember who called a library function."""


class AtSite(Change):
    """A change to the operations at one site."""

    site: Site

    @property
    def where(self) -> Site | None:
        return self.site

    @abstractmethod
    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        """Executes the operation in the place of ``inner``, and calls ``edits.took_effect`` where that matters."""


@dataclass(eq=False)
class Edits:
    """Changes that are made together, for the executor.

    Attributes:
        changes: what is edited.
        effective: changes that altered something.
        launch: the launch at work.
        elements: the element types that changes deal with.
        ranks: of the tiles that they deal with.
        launched_at: file and line of the host's code that launched a kernel last, by the kernel's name.
        wrapped: where offsets first wrapped in 32 bits.
        names: looks for words for the lanes that changes keep; None while only their effect is of interest.
    """

    changes: frozenset[Change]
    effective: set[Change] = field(default_factory=set)
    launch: Launch | None = None
    in_sequence: bool = False
    zeroed: bool = False
    names: Names | None = None
    elements: dict[Site, str] = field(default_factory=dict)
    ranks: dict[Site, int] = field(default_factory=dict)
    wrapped: set[Site] = field(default_factory=set)
    launched_at: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sited: dict[Site, list[AtSite]] = {}
        for change in self.changes:
            if isinstance(change, AtSite):
                self.sited.setdefault(change.site, []).append(change)
            elif isinstance(change, WholeRun):
                change.switch(self)

    def took_effect(self, change: Change) -> None:
        self.effective.add(change)

    def note_kept(self, change: Change, machine: Machine, op: Op, axis: int, rank: int, kept: Tensor) -> None:
        """Notes which lanes a change keeps along an axis, where words for them are looked for."""
        if self.names is not None and self.launch is not None:
            self.names.note(change, machine, op, axis, rank, kept, self.launch)

    def launched(self, launch: Launch) -> Launch:
        """The launch with the changes that concern its arguments."""
        for change in self.changes:
            if isinstance(change, OfLaunch):
                launch = change.applied(self, launch)
        self.launch = launch
        if self.names is not None:
            self.launched_at[launch.name] = launching_line()
        return launch

    def prepare(self, machine: Machine, launch: Launch) -> None:
        """Puts changed handlers into a machine."""
        handlers = dict(machine.handlers)
        for layer in self._layers():
            handlers = layer(self, handlers)
        for name in {site.op for site in self.sited}:
            if name in handlers:
                handlers[name] = self._dispatching(handlers[name])
        machine.handlers = handlers
        regions = {name: self._dispatching_region(handler) for name, handler in machine.region_handlers.items()}
        machine.region_handlers = regions if self.names is None else self.names.following_calls(regions)

    def _layers(self) -> Sequence[Layer]:
        """What changes need of all operations: each layer once, in a fixed order."""
        found = {layer.__qualname__: layer for change in self.changes for layer in layers_of(change)}
        return [found[name] for name in sorted(found)]

    def _dispatching(self, inner: Handler) -> Handler:
        def changed(machine: Machine, op: Op, operands: list[Tile]) -> Any:
            run: Inner = inner
            for change in self.sited.get(site_of(machine, op), ()):
                run = _around(self, change, run)
            return run(machine, op, operands)

        return changed

    def _dispatching_region(self, inner: RegionHandler) -> RegionHandler:
        def changed(machine: Machine, op: Op, scope: Any) -> Any:
            run = inner
            for change in self.sited.get(site_of(machine, op), ()):
                if isinstance(change, OfRegion):
                    op, scope = change.entered(self, machine, op, scope)
            return run(machine, op, scope)

        return changed


Layer = Callable[[Edits, Mapping[str, Handler]], dict[str, Handler]]
"""Wraps all handlers at once."""


def layers_of(change: Change) -> Iterable[Layer]:
    return getattr(change, "layers", ())


class OfRegion(AtSite):
    """A change to a loop: made where it is entered."""

    @abstractmethod
    def entered(self, edits: Edits, machine: Machine, op: Op, scope: Any) -> tuple[Op, Any]:
        """The operation and the scope that take the place of these."""

    def run(self, edits: Edits, machine: Machine, op: Op, operands: list[Tile], inner: Inner) -> Any:
        return inner(machine, op, operands)


class OfLaunch(Change):
    """A change to the arguments of launches."""

    @property
    def where(self) -> Site | None:
        return None

    @abstractmethod
    def applied(self, edits: Edits, launch: Launch) -> Launch:
        """The launch that takes the place of one."""


class WholeRun(Change):
    """A change to how a call is executed as a whole."""

    @property
    def where(self) -> Site | None:
        return None

    @abstractmethod
    def switch(self, edits: Edits) -> None:
        """Sets what the executor looks at."""


def _around(edits: Edits, change: AtSite, inner: Inner) -> Inner:
    def run(machine: Machine, op: Op, operands: list[Tile]) -> Any:
        return change.run(edits, machine, op, operands, inner)

    return run
