"""Sizes at which 32-bit offsets wrap, and grids that no GPU launches: what only very large cases show.

Tensors of such cases are reserved, not committed (``spec/virtual.py``), and no value is looked at. Where the
author's own ``inputs`` or launcher would write all of one, there is no such case.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.debug.planning.modest import AtMost
from tilewright.debug.planning.parameters import is_tuple
from tilewright.debug.planning.probing import Probe, Trait
from tilewright.launch.host import inputs_of
from tilewright.records import Case

WRAPS = 1 << 31
GRID_LIMIT = 65_535
_SIDE = 46_349  # a prime whose square passes 2**31
_TRIAL = 1 << 9  # a side of the same tensor when it is tried whether anyone writes all of it
_SMALL = 1 << 24  # bytes that other tensors of such a case may take
_TRIPS = 4_096
_LOOPED = 8_192  # the longest that a dim which a loop goes along is made


def beyond_grids(probe: Probe, traits: Mapping[str, Trait]) -> Iterator[Case]:
    """Cases whose grids pass 65,535 on y or z, all other sizes small."""
    for dim, trait in traits.items():
        if not any(axis > 0 for axis in trait.axes):
            continue
        block = trait.blocks[-1] if trait.blocks else 1
        size = (GRID_LIMIT + 1) * block
        small = {d: min(t.size, t.blocks[0] if t.blocks else 1) for d, t in traits.items() if not t.tiled}
        for others in (small, {}):
            case = replace(probe.first, arguments={**probe.first.arguments, **others, dim: size})
            if not probe.operator.allows(case.arguments) or not _is_small(probe, dim, size, others):
                continue
            if _passes(probe, case):
                yield case
                break


def _is_small(probe: Probe, dim: str, size: int, others: Mapping[str, int]) -> bool:
    """Whether the inputs that an author's own function would make take little, as far as they grow with the size."""
    if probe.operator.signature:
        return True
    grown = _grown(probe, dim)
    elements = sum(t.numel() for n, t in probe.first_inputs.tensors.items() if n in grown)
    shrunk = math.prod(probe.first.arguments[d] / max(n, 1) for d, n in others.items() if d != dim)
    return bool(elements * size / max(probe.first.arguments[dim], 1) / max(shrunk, 1) <= _SMALL / 8)


def _passes(probe: Probe, case: Case) -> bool:
    try:
        shapes = _shapes(probe, case)
        if sum(math.prod(shape) for shape in shapes) > _SMALL:
            return False
        return any(max(launch.grid[1:]) > GRID_LIMIT for launch in probe.record(case))
    except Exception:
        return False


def _shapes(probe: Probe, case: Case) -> list[tuple[int, ...]]:
    signature = probe.operator.signature
    if signature is None:
        return []
    sizes = probe.operator.complete(case.arguments)
    return [p.tensor.shape(sizes) for p in signature.tensors if p.tensor]


def wrapping(probe: Probe, traits: Mapping[str, Trait]) -> Iterator[Case]:
    """Cases with more than 2**31 elements in a tensor: one for each dim that can make one so large, in two layouts."""
    operator, first = probe.operator, probe.first
    if operator.grad:
        return  # the gradient that is sent back would have to be written
    found = _declared_pairs(probe, traits) if operator.signature else _scaling_pairs(probe, traits)
    for sizes, trial in found:
        for layout in ("contiguous", "transposed") if operator.signature else ("contiguous",):
            arguments = _at_the_ends({**first.arguments, **sizes}, first.arguments)
            case = replace(first, arguments=arguments, layout=layout)
            small = replace(first, arguments={**first.arguments, **trial}, layout=layout)
            if operator.allows(case.arguments) and operator.allows(small.arguments) and not _commits(probe, small):
                yield case


def _declared_pairs(probe: Probe, traits: Mapping[str, Trait]) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Sizes of an annotated operator's dims: each in turn so large that a tensor passes 2**31 elements."""
    signature = probe.operator.signature
    assert signature is not None
    done = set()
    for parameter in signature.tensors:
        names = [name for name in (parameter.tensor.symbols if parameter.tensor else ()) if name in traits]
        for row in reversed(names):
            if row in done or traits[row].tiled or traits[row].step is not None:
                continue
            sizes = {n: _wide(traits[n]) for n in traits if n != row}
            assert parameter.tensor is not None
            own = math.prod(parameter.tensor.shape(probe.operator.complete({**probe.first.arguments, **sizes, row: 1})))
            large = _large_sizes(row, names, traits, sizes, own) if own else None
            if large is None or max(large.values()) >= WRAPS:  # a size that 32 bits cannot hold is no kernel's
                continue
            done.add(row)
            yield {**sizes, **large}, {**sizes, row: max(_TRIAL * _TRIAL // own, 1)}


def _large_sizes(
    row: str, names: Sequence[str], traits: Mapping[str, Trait], sizes: Mapping[str, int], own: int
) -> dict[str, int] | None:
    """The sizes of one dim, or of two where a grid's y or z holds the first down; None where these cannot."""
    axes = traits[row].axes
    # Twice as much as wraps: the last row has to pass it, not only the end of the last row. What no grid grows with
    # is reached by indices alone, drawn from all there are: most of them have to pass it.
    size = (2 if axes else 16) * WRAPS // own + 65
    most = GRID_LIMIT * (traits[row].blocks[-1] if traits[row].blocks else 1) - 6 if axes and 0 not in axes else size
    if size <= most:
        return {row: size}
    for other in names:
        need = 2 * WRAPS // (most * own // sizes[other]) + 65 if other != row else 0
        looped = traits[other].step
        if (
            other != row
            and not traits[other].tiled
            and (0 in traits[other].axes if looped is None else need <= _LOOPED)
        ):
            return {row: most, other: need}
    return None


def _wide(trait: Trait) -> int:
    if trait.tiled:
        return max(trait.size, 1)
    if trait.step is not None:
        return min(trait.step * 8, 512)
    return 512 if trait.blocks and trait.grows else 1


def _scaling_pairs(probe: Probe, traits: Mapping[str, Trait]) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Pairs of parameters of ``inputs`` in both of which one tensor grows."""
    grown = {dim: _grown(probe, dim) for dim in traits}
    for a, b in itertools.combinations(traits, 2):
        loops = max((_SIDE // t.step for t in (traits[a], traits[b]) if t.step), default=0)
        if grown[a] & grown[b] and loops <= _TRIPS and not (traits[a].tiled and traits[b].tiled):
            yield {a: _SIDE, b: _SIDE}, {a: _TRIAL, b: _TRIAL}


def _grown(probe: Probe, dim: str) -> set[str]:
    """Tensors of the inputs that grow with a dim."""
    if dim not in probe.varied:
        return set()
    try:
        before = probe.first_inputs.tensors
        other = replace(probe.first, arguments={**probe.first.arguments, dim: probe.varied[dim][0]})
        after = inputs_of(probe.operator, other).tensors
    except Exception:
        return set()
    return {n for n, t in before.items() if n in after and after[n].numel() > t.numel()}


def _at_the_ends(arguments: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Indices among the parameters, which are below some size by default, with the first and the last one there are."""
    for name, value in defaults.items():
        if not is_tuple(value):
            continue
        limits = [arguments[n] for n, size in defaults.items() if isinstance(size, int) and max(value) < size]
        if limits:
            arguments[name] = type(value)((0, min(limits) - 1))
    return arguments


def _commits(probe: Probe, case: Case) -> bool:
    """Whether the inputs or the launcher write all of a large tensor, or cannot be made at all."""
    touches = AtMost(_TRIAL * _TRIAL // 2)
    try:
        if probe.operator.signature:  # its inputs are virtual at such sizes
            inputs = inputs_of(probe.operator, case, drawn=False)
            with touches:
                probe.launched(inputs)
        else:
            with touches:
                probe.record(case)
    except Exception:
        return True
    return False
