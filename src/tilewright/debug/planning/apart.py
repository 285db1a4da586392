"""Dims laid out so far apart that offsets along them wrap in 32 bits, as in a slice of something huge.

Few elements and few programs reach what takes billions of them when a tensor has no gaps: an offset along any dim,
whatever loop or axis of a grid goes along it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.debug.planning import naming
from tilewright.debug.planning.huge import WRAPS
from tilewright.debug.planning.modest import AtMost
from tilewright.debug.planning.probing import Probe, Trait, path_of
from tilewright.errors import CaseUnsatisfiable
from tilewright.records import Case
from tilewright.spec.inputs import APART
from tilewright.spec.operator import Operator
from tilewright.spec.shapes import TensorSpec

_BLOCKS = 4
"""Of a dim laid out apart: offsets wrap from tile to tile, and within none."""
_ROWS = 5
"""Of one that has no block."""
_OTHERS = 2
_WRITTEN = 1 << 20  # elements that a launcher may write, or compute


def apart(probe: Probe, traits: Mapping[str, Trait], paths: Sequence[tuple[str, Case]]) -> Iterator[Case]:
    """Cases with one dim each laid out far apart: several blocks of it, so many that a launcher takes another way
    (``paths``: the dim, and its case), and one block where the launcher tells such strides apart.

    Within a tile no offset wraps but at strides that few tensors have: who has no flag for them does not mean them.
    """
    spanning = [dim for dim in traits if may_span_as_much(probe, traits, dim)]
    found = [_around(probe, traits, dim, _several(traits[dim])) for dim in spanning if not _is_one_tile(traits[dim])]
    found += [replace(case, layout=dim + APART) for dim, case in paths if dim in spanning]
    for dim in spanning:
        trait = traits[dim]
        size = trait.size if trait.tiled else max(trait.blocks, default=1)
        tile = _around(probe, traits, dim, size) if size > 1 else None
        if tile is not None and _is_told_apart(probe, tile):
            found.append(tile)
    yield from (case for case in dict.fromkeys(filter(None, found)) if _is_taken(probe, case))


def _is_one_tile(trait: Trait) -> bool:
    return trait.tiled or trait.rounded or bool(trait.blocks and not trait.grows)


def _several(trait: Trait) -> int:
    return _BLOCKS * trait.blocks[-1] + 1 if trait.blocks else _ROWS


def _around(probe: Probe, traits: Mapping[str, Trait], dim: str, size: int) -> Case | None:
    wanted = {**{d: _usual(t) for d, t in traits.items()}, dim: size}
    try:
        return naming.made(probe.operator, wanted, layout=dim + APART, seed=probe.first.seed, fixed=frozenset((dim,)))
    except CaseUnsatisfiable:
        return None


def _is_taken(probe: Probe, case: Case) -> bool:
    """Whether a launcher takes such strides, and hands them on to a kernel."""
    try:
        inputs = probe.inputs(case)
        with AtMost(_WRITTEN):
            launches = probe.recorded(inputs)
    except Exception:
        return False  # what it refuses of other layouts is said of those that are checked for values
    handed = (tensor for launch in launches for tensor in launch.tensors.values())
    return any(s * (n - 1) >= WRAPS for t in handed for n, s in zip(t.shape, t.stride(), strict=True))


def _usual(trait: Trait) -> int:
    """One tile of a dim, whole."""
    if trait.tiled or (trait.blocks and not trait.grows):
        return max(trait.size, 1)
    return trait.blocks[-1] if trait.blocks else _OTHERS


def _is_told_apart(probe: Probe, case: Case) -> bool:
    """Whether a launcher takes another way than in all layouts of moderate strides."""
    moderate = set()
    try:
        for layout in ("contiguous", "transposed", "sliced"):
            moderate.add(path_of(probe.record(replace(case, layout=layout))))
        return path_of(probe.record(case)) not in moderate
    except Exception:
        return False


def may_span_as_much(probe: Probe, traits: Mapping[str, Trait], dim: str) -> bool:
    """Whether the declaration lets each tensor of several dims, one of them ``dim``, have so many elements at all."""
    operator = probe.operator
    if operator.signature is None:
        return False
    specs = [p.tensor for p in operator.signature.tensors if p.tensor and p.tensor.axis(dim) is not None]
    try:
        usual = naming.made(operator, {d: _usual(t) for d, t in traits.items()}).arguments
    except CaseUnsatisfiable:
        return False
    return bool(specs) and all(_may_be_huge(operator, spec, usual) for spec in specs)


def _may_be_huge(operator: Operator, spec: TensorSpec, usual: Mapping[str, Any]) -> bool:
    for name in spec.symbols:
        own = math.prod(spec.shape(operator.complete({**usual, name: 1})))
        if own and operator.allows({**usual, name: 2 * WRAPS // own}):
            return True
    return False
