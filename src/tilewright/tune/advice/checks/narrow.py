"""Loads and stores of less than 16 bytes a thread, though the tile has more, and the arguments that make them so.

The compiler is asked: with what the arguments truly are multiples of, and with multiples of 16, in place of what it
was told. Where the one brings wide accesses back, a hint is enough; where only the other does, memory has to be laid
out otherwise. An argument is to blame where leaving it out makes the access narrow again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence, Texts
from tilewright.tune.advice.hints import (
    ALIGNED,
    loaded_numbers,
    unaligned,
    value_of,
    with_aligned_loads,
    with_hints,
)
from tilewright.tune.advice.tiles import Access
from tilewright.wording import count

WIDE = 16
ASYNC = 4  # bytes that a cp.async copies at least


@dataclass(frozen=True)
class Narrow:
    """An access of ``width`` bytes a thread where ``possible`` would do; ``position`` among the kernel's accesses."""

    position: int
    access: Access
    width: int
    possible: int


def check(seen: Evidence) -> Iterator[Advice]:
    assert seen.texts is not None
    narrow = narrow_accesses(seen)
    if not narrow:
        return
    used = frozenset[str]().union(*(one.access.parameters for one in narrow))
    multiples = {k: v for k, v in unaligned(seen.lowered.ttir, seen.launch).items() if k in used}
    true = {name: m for name, m in multiples.items() if m > 1 or value_of(seen.launch, name) == 1}
    aligned = {name: 1 if value_of(seen.launch, name) == 1 else ALIGNED for name in multiples}
    ttir = seen.lowered.ttir
    told = _compiled(seen, with_hints(ttir, true))
    still = [one for one in narrow if _width(told, one) <= one.width]
    moved = _compiled(seen, with_hints(ttir, aligned)) if still else None
    still = [one for one in still if _width(moved, one) <= one.width]
    read = _compiled(seen, with_hints(with_aligned_loads(ttir), aligned)) if still else None
    without_true = _leaving_out(seen, true, narrow, told)
    without_aligned = _leaving_out(seen, aligned, narrow, moved)
    for one in narrow:
        best, after = _width(told, one), _width(moved, one)
        if best > one.width:
            blamed = _blamed(one, best, without_true)
            if blamed:
                yield _hint(seen, one, best, {name: true[name] for name in blamed})
        elif after > one.width:
            blamed = _blamed(one, after, without_aligned)
            if blamed:
                yield _padding(seen, one, after, blamed)
        elif _width(read, one) > one.width:
            yield from _index(seen, one, _width(read, one), aligned)
        elif rows := _apart(one):
            yield _rows(seen, one, rows)


def narrow_accesses(seen: Evidence) -> list[Narrow]:
    """Accesses that the tile's size and the order of its elements would let be wider.

    Tiles of one size are spread over threads alike: where one of them has 16 bytes in 8 elements a thread, it is 8
    elements of the others too, be they smaller.
    """
    assert seen.texts is not None
    found = []
    for position, access in enumerate(seen.accesses):
        width = seen.texts.width_of(access.op)
        largest = max(other.element_bytes for other in seen.accesses if other.elements == access.elements)
        each = min(access.elements // seen.threads, WIDE // largest)
        rows = [size for size, step in zip(access.shape, access.steps, strict=True) if step == 1]
        possible = min(each, max(rows, default=0)) * access.element_bytes
        possible = 1 << possible.bit_length() - 1 if possible else 0
        if width is not None and width < possible:
            found.append(Narrow(position, access, width, possible))
    return found


# ------------------------------------------------------------------------------------------ asking the compiler


def _compiled(seen: Evidence, ttir: str) -> Texts | None:
    """The launch with other TTIR; None where it is the same, or does not compile."""
    return None if ttir == seen.lowered.ttir else seen.compiled_with([{"ttir": ttir}])[0]


def _leaving_out(
    seen: Evidence, hints: Mapping[str, int], narrow: list[Narrow], whole: Texts | None
) -> dict[str, Texts | None]:
    """The launch with all hints but one, for each of them; nothing where all together help none of the accesses."""
    if not any(_width(whole, one) > one.width for one in narrow):
        return {}
    changes = [{"ttir": with_hints(seen.lowered.ttir, {k: v for k, v in hints.items() if k != name})} for name in hints]
    return dict(zip(hints, seen.compiled_with(changes), strict=True))


def _blamed(one: Narrow, width: int, without: Mapping[str, Texts | None]) -> list[str]:
    own = [name for name in without if name in one.access.parameters]
    return [name for name in own if without[name] is not None and _width(without[name], one) < width]


def _width(texts: Texts | None, one: Narrow) -> int:
    """The width that an access has in another compilation; 0 where that is not known."""
    if texts is None:
        return 0
    accesses = [
        op
        for op in texts.flow.ops
        if op.name in ("tt.load", "tt.store") and op.types[0].is_pointer and op.types[0].shape
    ]
    if one.position >= len(accesses) or accesses[one.position].name != one.access.op.name:
        return 0
    return texts.width_of(accesses[one.position]) or 0


# ----------------------------------------------------------------------------------------------------- in words


def _advice(seen: Evidence, one: Narrow, width: int, why: str, remedy: str, **figures: Any) -> Advice:
    access = one.access
    cost = f"{width // one.width} times as many instructions for the same bytes"
    multiplies = access.loop is not None and any(op.name.startswith("tt.dot") for op in access.loop.regions[-1].ops())
    if multiplies and one.width < ASYNC and access.op.name == "tt.load":
        cost += f"; and an asynchronous copy takes no fewer than {ASYNC} bytes, so the tile cannot be copied ahead"
    seen_here = f"a thread {access.verb} {count(one.width, 'byte')} at a time of a {access.tile} tile, {width} would do"
    return seen.advice(
        "narrow-access",
        access.op.location,
        f"{seen_here}: {why}",
        remedy=remedy,
        cost=cost,
        bytes=one.width,
        possible=width,
        **figures,
    )


def _hint(seen: Evidence, one: Narrow, width: int, blamed: Mapping[str, int]) -> Advice:
    known = ", ".join(_known(seen, one, name, multiple) for name, multiple in blamed.items())
    only = all(1 < multiple < ALIGNED for multiple in blamed.values())
    why = f"but Triton only sees multiples of {ALIGNED}" if only else "but Triton is not told"
    return _advice(seen, one, width, f"{known}, {why}", _told(seen, one, blamed), arguments=_arguments(seen, blamed))


def _known(seen: Evidence, one: Narrow, name: str, multiple: int) -> str:
    value = value_of(seen.launch, name)
    if _is_pointer(seen, name):
        return f"{name} starts at a multiple of {multiple} bytes"
    return f"{name} = 1" if value == 1 else f"{name} = {value} is a multiple of {multiple}"


def _told(seen: Evidence, one: Narrow, blamed: Mapping[str, int]) -> str:
    numbers = {name: multiple for name, multiple in blamed.items() if not _is_pointer(seen, name)}
    rounded = [f"{name} = {name} // {multiple} * {multiple}" for name, multiple in numbers.items() if multiple > 1]
    words = []
    if rounded:
        words.append(
            f"if that always holds, say so at the top of the kernel: `{'; '.join(rounded)}` "
            "(tl.multiple_of does nothing to an argument)"
        )
    withheld = [name for name in numbers if value_of(seen.launch, name) in (0, 1) or blamed[name] == ALIGNED]
    if withheld:
        words.append(f"do not list {', '.join(withheld)} under do_not_specialize")
    padded = [name for name, multiple in numbers.items() if 1 < multiple < ALIGNED]
    if padded:
        words.append(f"or pad what {', '.join(padded)} count to a multiple of {ALIGNED} elements")
    if _descriptor_fits(one):
        words.append(f"or, on Hopper and later, let a tensor descriptor {one.access.verb[:-1]} the tile")
    return "; ".join(words)


def _descriptor_fits(one: Narrow) -> bool:
    """Whether a tensor descriptor could describe the tile: rows contiguous, their distance a multiple of 16 bytes."""
    *outer, inner = one.access.steps
    apart = [step for step in outer if step is not None]
    return inner == 1 and len(apart) == len(outer) > 0 and all(s * one.access.element_bytes % WIDE == 0 for s in apart)


def _padding(seen: Evidence, one: Narrow, width: int, blamed: list[str]) -> Advice:
    element = one.access.element_bytes
    words, remedies = [], []
    for name in blamed:
        value = value_of(seen.launch, name) or 0
        if _is_pointer(seen, name):
            words.append(f"{name} starts {value % WIDE} bytes behind a multiple of {WIDE}")
            remedies.append(
                f"let {name} start at a multiple of {WIDE} bytes (a view that begins elsewhere has to be copied)"
            )
        elif value == 1:
            words.append(f"{name} = 1, but Triton is not told")
            remedies.append(f"do not list {name} under do_not_specialize")
        else:
            words.append(f"{name} = {value} elements are {value * element} bytes, no multiple of {WIDE}")
            remedies.append(f"pad the rows that {name} counts to {_padded(value)} elements; a hint would not be true")
    why = ", ".join(words)
    return _advice(seen, one, width, why, "; ".join(remedies), arguments=_arguments(seen, blamed))


def _padded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _index(seen: Evidence, one: Narrow, width: int, hints: Mapping[str, int]) -> Iterator[Advice]:
    """Its offset is a number that the kernel reads: nobody but its author knows what it is a multiple of."""
    ttir = seen.lowered.ttir
    places = loaded_numbers(ttir)
    changes = [{"ttir": with_hints(with_aligned_loads(ttir, only), hints)} for only in range(len(places))]
    enough = [
        place for place, texts in zip(places, seen.compiled_with(changes), strict=True) if _width(texts, one) >= width
    ]
    if not enough:
        return
    name, line = enough[0].name or "offset", enough[0].line
    yield _advice(
        seen,
        one,
        width,
        f"its address follows from {name}, read at line {line}, and what that is a multiple of is not known",
        f"if it always is, say so: `{name} = tl.multiple_of({name}, {width // one.access.element_bytes})`",
        read_at=line,
    )


def _apart(one: Narrow) -> int | None:
    """The distance of rows in elements where it keeps them from 16 bytes, whatever the arguments."""
    steps = [step for step in one.access.steps if step not in (0, 1)]
    if len(steps) != 1 or steps[0] is None or one.access.loaded:
        return None
    return steps[0] if steps[0] * one.access.element_bytes % WIDE else None


def _rows(seen: Evidence, one: Narrow, rows: int) -> Advice:
    why = f"rows are {rows} elements apart, {rows * one.access.element_bytes} bytes, no multiple of {WIDE}"
    return _advice(seen, one, one.possible, why, f"pad the rows to {_padded(rows)} elements", apart=rows)


def _arguments(seen: Evidence, blamed: Iterable[str]) -> dict[str, int | None]:
    """The values of arguments; of a tensor how far behind a multiple of 16 bytes it starts."""
    values = {name: value_of(seen.launch, name) for name in blamed}
    return {name: (value or 0) % WIDE if _is_pointer(seen, name) else value for name, value in values.items()}


def _is_pointer(seen: Evidence, name: str) -> bool:
    return hasattr(seen.launch.arguments.get(name), "data_ptr")
