"""A search space as its author declares it: parameters with their choices, and a constraint."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.errors import UnknownParameter, UsageError
from tilewright.records import Config

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Names that Triton takes beside a kernel's own meta-parameters."""


class Space:
    """All combinations of the given choices that fulfil ``where``.

    Args:
        where: a Python expression over the parameters (``"BLOCK_M >= BLOCK_N"``), or a callable that takes
            them by name and returns bool.
        **parameters: for each meta-parameter or launch option (``num_warps``, ``num_stages``…) its choices.

    Raises:
        UsageError: a parameter has no choices, or no combination fulfils ``where``.
        UnknownParameter: ``where`` names something that is no parameter.
    """

    def __init__(self, *, where: str | Callable[..., bool] | None = None, **parameters: Sequence[Any]) -> None:
        for name, choices in parameters.items():
            if not isinstance(choices, (list, tuple, range)) or not choices:
                raise UsageError(f"Space({name}={choices!r}): a parameter needs a list of choices")
        self.parameters: Mapping[str, tuple[Any, ...]] = {name: tuple(c) for name, c in parameters.items()}
        self.where = where
        combinations = itertools.product(*self.parameters.values())
        points = (dict(zip(self.parameters, values, strict=True)) for values in combinations)
        self._configs = tuple(Config(point) for point in points if self._allows(point))
        if parameters and not self._configs:
            raise UsageError(f"no configuration of the space fulfils where={where!r}")

    @classmethod
    def of_configs(cls, configs: Iterable[Mapping[str, Any]]) -> Space:
        """The space that holds exactly these points, as a list of ``triton.Config`` does."""
        space = cls.__new__(cls)
        space._configs = tuple(Config(dict(point)) for point in configs)
        names = dict.fromkeys(name for config in space._configs for name in config.values)
        space.parameters = {
            name: tuple(dict.fromkeys(c.values[name] for c in space._configs if name in c.values)) for name in names
        }
        space.where = None
        return space

    def _allows(self, point: dict[str, Any]) -> bool:
        if self.where is None:
            return True
        if callable(self.where):
            return bool(self.where(**point))
        try:
            return bool(eval(self.where, {"__builtins__": {}, "min": min, "max": max}, point))
        except NameError as error:
            raise UnknownParameter(f"Space(where={self.where!r}): {error}", f"it may use {', '.join(point)}") from None

    def __len__(self) -> int:
        return len(self._configs)

    def __iter__(self) -> Iterator[Config]:
        return iter(self._configs)

    def __contains__(self, name: str) -> bool:
        return name in self.parameters

    def __repr__(self) -> str:
        return f"Space({len(self)} configurations of {', '.join(self.parameters)})"
