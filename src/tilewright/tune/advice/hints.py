"""A kernel's TTIR with other knowledge of its arguments: what if the compiler knew that a stride is a multiple of 8?"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import torch

from tilewright.launch.launch import Launch
from tilewright.launch.ttir import Location, parse

ALIGNED = 16
"""Triton tells multiples of 16 from others, in elements or, for pointers, bytes."""
_SCALAR_LOAD = re.compile(r"(= tt\.load %\S+(?:, %\S+)*)((?: \{[^}]*\})? : !tt\.ptr<i(?:32|64)>)")


def true_multiple(value: int) -> int:
    """The largest power of two that divides a number, up to 16."""
    return min(ALIGNED, value & -value) if value else ALIGNED


def value_of(launch: Launch, name: str) -> int | None:
    """An argument as a number: of a tensor its address."""
    value = launch.arguments.get(name)
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def unaligned(ttir: str, launch: Launch) -> dict[str, int]:
    """The arguments that the compiler does not know to be multiples of 16, with what they are multiples of."""
    found = {}
    for name, (known, _) in _parameters(ttir).items():
        value = value_of(launch, name)
        if value is not None and known < ALIGNED:
            found[name] = true_multiple(value)
    return found


def with_hints(ttir: str, multiples: Mapping[str, int]) -> str:
    """The TTIR with what arguments are multiples of; 1 says that an argument is 1, which Triton makes a constant."""
    for name, (_, own) in _parameters(ttir).items():
        if name not in multiples:
            continue
        parameter = rf"({re.escape(own)})(: [^{{,()]+?)(?: \{{[^}}]*\}})?( loc\()"
        if multiples[name] == 1:
            kind = re.search(parameter, ttir)
            ttir = re.sub(parameter, r"\1_given\2\3", ttir, count=1)
            constant = f"    {own} = arith.constant 1 {kind[2] if kind else ''} loc(unknown)"
            ttir = re.sub(r"^(  tt\.func public .*)$", lambda line, new=constant: f"{line[1]}\n{new}", ttir, flags=re.M)  # type: ignore[misc]
        else:
            ttir = re.sub(parameter, rf"\1\2 {{tt.divisibility = {multiples[name]} : i32}}\3", ttir, count=1)
    return ttir


def loaded_numbers(ttir: str) -> list[Location]:
    """Where single whole numbers are loaded, in the order of the text."""
    ops = parse(ttir).ops()
    return [
        op.location
        for op in ops
        if op.name == "tt.load" and op.result_types[0].element in ("i32", "i64") and not op.result_types[0].shape
    ]


def with_aligned_loads(ttir: str, only: int | None = None) -> str:
    """The TTIR with each single whole number that is loaded said to be a multiple of 16, or ``only`` one of them."""
    counter = itertools.count()

    def hinted(match: re.Match[str]) -> str:
        wanted = next(counter) == only or only is None
        return f"{match[1]} {{tt.divisibility = dense<16> : tensor<1xi32>}}{match[2]}" if wanted else match[0]

    return _SCALAR_LOAD.sub(hinted, ttir)


def _parameters(ttir: str) -> dict[str, tuple[int, str]]:
    """What each scalar or pointer parameter is known to be a multiple of, and its name in the text."""
    header = next(line for line in ttir.splitlines() if line.lstrip().startswith("tt.func public"))
    entry = parse(ttir).entry
    found = {}
    for own, kind, name in zip(entry.arguments, entry.argument_types, entry.argument_names, strict=True):
        if kind.shape or kind.element.startswith(("desc", "f", "bf")):
            continue
        known = re.search(rf"{re.escape(own)}: [^{{,()]+? \{{[^}}]*tt\.divisibility = (\d+)", header)
        found[name] = (int(known[1]) if known else 1, own)
    return found
