"""What the tensors of a case hold, by one word: the value classes that a case names.

For an annotated operator the word replaces what the declaration leaves open (drawn normally, a mask, indices,
offsets). What an author's own ``inputs`` made is changed with more care: it may mean something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tilewright.errors import UsageError
from tilewright.spec import values
from tilewright.spec.inputs import Inputs, generator
from tilewright.spec.values import Request, Values

_LOOKED_AT = 1 << 16
_SEVERAL = 4
"""From so many elements on a tensor's own values tell what kind they are of."""


def _normal(request: Request) -> Tensor:
    return torch.randn(request.shape, generator=request.generator)


def _uniform(request: Request) -> Tensor:
    return torch.rand(request.shape, generator=request.generator)


def _scattered(request: Request, *specials: float) -> Tensor:
    """Normal, with about one element in eight among ``specials``."""
    which = torch.randint(0, 8 * len(specials), request.shape, generator=request.generator)
    sample = _normal(request)
    for position, special in enumerate(specials):
        sample = torch.where(which == position, special, sample)
    return sample


_BEYOND = 2.0**16
"""What float16 cannot hold, and float32 and bfloat16 with ease."""
WIDE_RANGE = "beyond-half"
"""The word for values that only a detour through float16 makes infinite: nothing else is told of them."""

FLOATS: Mapping[str, Callable[[Request], Tensor]] = {
    "equal": lambda r: torch.full(r.shape, 0.7),
    "large": lambda r: 32 * _normal(r),
    "tiny": lambda r: _normal(r) / 1024,
    "large-mean": lambda r: 8 + _normal(r),
    "beyond-half": lambda r: _BEYOND * (1 + _uniform(r)) * torch.where(_uniform(r) < 0.5, -1, 1),
    "signed-zeros": lambda r: torch.where(_uniform(r) < 0.5, -0.0, 0.0),
    "positive": lambda r: _normal(r).abs() + 0.125,
    "negative": lambda r: -_normal(r).abs() - 0.125,
    "very-negative": lambda r: -90 - 60 * _normal(r).abs(),
    "denormal": lambda r: _normal(r) * torch.finfo(r.dtype).smallest_normal / 2,
    "infinite": lambda r: _scattered(r, math.inf, -math.inf),
    "nan": lambda r: _scattered(r, math.nan),
}
TIED = frozenset(("equal", "signed-zeros"))
"""Words under which equal values have an order that nobody promises: whole numbers, such as indices of the largest."""
ROUGH = frozenset(("large-mean", "very-negative", "large", "tiny", "denormal", WIDE_RANGE))
"""Words under which right algorithms lose digits, a variance from a sum of squares for one: faults lose far more."""
NOT_FINITE = frozenset(("infinite", "nan"))
"""Words under which values that differ are a warning: what a kernel makes of them is seldom promised."""


def _one_row_false(request: Request) -> Tensor:
    drawn = _uniform(request) < 0.5
    if drawn.dim():
        rows = drawn.reshape(-1, drawn.shape[-1]) if drawn.dim() > 1 else drawn.reshape(-1, 1)
        if len(rows):
            rows[len(rows) // 2] = False
    return drawn


MASKS: Mapping[str, Callable[[Request], Tensor]] = {
    "all-true": lambda r: torch.ones(r.shape, dtype=torch.bool),
    "all-false": lambda r: torch.zeros(r.shape, dtype=torch.bool),
    "one-row-false": _one_row_false,
}


def _index_ends(request: Request, low: int, high: int) -> Tensor:
    return torch.where(_uniform(request) < 0.5, low, high - 1)


def _index_few(request: Request, low: int, high: int) -> Tensor:
    """Every second one at most, and never the last: some are named by no index."""
    count = max((high - low) // 2, 1)
    return low + 2 * torch.randint(0, count, request.shape, generator=request.generator) * (high - low > 1)


def _index_sorted(request: Request, low: int, high: int) -> Tensor:
    drawn = torch.randint(low, max(high, low + 1), request.shape, generator=request.generator)
    return drawn.sort(dim=-1).values if drawn.dim() else drawn


INDICES: Mapping[str, Callable[[Request, int, int], Tensor]] = {
    "index-ends": _index_ends,
    "index-duplicated": lambda r, low, high: torch.full(r.shape, high - 1),
    "index-sorted": _index_sorted,
    "unnamed-poison": _index_few,
}


def _one_long(request: Request, total: int) -> Tensor:
    """All but one segment empty."""
    count = request.shape[0]
    return torch.where(torch.arange(count) < max(count // 2, 1), 0, total)


def _ones(request: Request, total: int) -> Tensor:
    """Segments of one element, the last one of what is left."""
    ends = torch.arange(request.shape[0]).clamp(max=total)
    ends[-1:] = total
    return ends


OFFSETS: Mapping[str, Callable[[Request, int], Tensor]] = {"empty-segments": _one_long, "unit-segments": _ones}


def _integer_ends(request: Request) -> Tensor:
    limits = torch.iinfo(request.dtype)
    choices = torch.tensor([limits.min, limits.max, 0, 1, limits.max - 1])
    return choices[torch.randint(0, len(choices), request.shape, generator=request.generator)]


INTEGERS: Mapping[str, Callable[[Request], Tensor]] = {"integer-ends": _integer_ends}

WORDS = ("normal", *FLOATS, *MASKS, *INDICES, *OFFSETS, *INTEGERS)
"""What ``Case.values`` may be, and a tensor's entry in ``values=`` of a declaration."""


def check(word: str) -> None:
    """Refuses a word that is none.

    Raises:
        UsageError: with those there are.
    """
    if word not in WORDS:
        raise UsageError(f"no value class {word!r}", f"one of {', '.join(WORDS)}")


def maker(word: str, declared: Values | str | None, dtype: torch.dtype) -> Values:
    """What draws a tensor of a case with this word; where the word says nothing of it, what is declared."""
    if isinstance(declared, str):
        return _named(declared, None, dtype) or values.default_for(dtype)
    return _named(word, declared, dtype) or declared or values.default_for(dtype)


def affects(word: str, declared: Any, dtype: torch.dtype) -> bool:
    """Whether a word changes what a tensor of this declaration holds."""
    return not isinstance(declared, str) and _named(word, declared, dtype) is not None


def _named(word: str, declared: Values | None, dtype: torch.dtype) -> Values | None:
    if isinstance(declared, values.integers) and word in INDICES:

        def index(request: Request) -> Tensor:
            high = max(values.dim_value(declared.high, request.sizes), declared.low + 1)
            return INDICES[word](request, declared.low, high).to(request.dtype)

        return index
    if isinstance(declared, values.offsets) and word in OFFSETS:
        return lambda request: OFFSETS[word](request, values.dim_value(declared.dim, request.sizes)).to(request.dtype)
    kinds: Mapping[str, Callable[[Request], Tensor]] = {}
    if dtype == torch.bool:
        kinds = MASKS if declared is None or isinstance(declared, values.mask) else {}
    elif dtype.is_floating_point:
        kinds = FLOATS if declared is None or isinstance(declared, values.normal) else {}
        if word == WIDE_RANGE and torch.finfo(dtype).max < 2 * _BEYOND:
            kinds = {}
    elif declared is None:
        kinds = INTEGERS
    make = kinds.get(word)
    return None if make is None else lambda request: make(request).to(request.dtype)


def poison_unnamed(
    drawn: Mapping[str, Tensor], places: Mapping[str, tuple[str, ...]], indexed: Mapping[str, str]
) -> None:
    """Rows of float tensors that no index names become NaN.

    ``places`` are the dims of each tensor, ``indexed`` the dim that each tensor of indices points into.
    """
    for dim in dict.fromkeys(indexed.values()):
        named = torch.cat([drawn[n].reshape(-1).long() for n, d in indexed.items() if d == dim and n in drawn])
        for name, dims in places.items():
            tensor = drawn.get(name)
            if tensor is None or dim not in dims or not tensor.is_floating_point():
                continue
            axis = dims.index(dim)
            free = torch.ones(tensor.shape[axis], dtype=torch.bool)
            free[named[(named >= 0) & (named < len(free))]] = False
            tensor.movedim(axis, 0)[free] = math.nan


# --------------------------------------------------------------------------- what an author's inputs() made


def refills(inputs: Inputs, word: str) -> bool:
    """Whether a word changes any tensor of what an author's own function made."""
    if word not in FLOATS:
        return False
    kinds = {_kind(tensor) for tensor in inputs.tensors.values()}
    return "random" in kinds or ("constant" in kinds and word == _OF_CONSTANTS)


def refilled(inputs: Inputs, word: str, seed: int, reference: Callable[..., Any] | None) -> Inputs:
    """The same arguments with other values in the float tensors that may hold any.

    Those are of both signs and in no order, or one constant that is not 0, and the reference looks at them.
    Shapes, strides, offsets and aliasing stay.
    """
    found = inputs.copy()
    for name, tensor in found.tensors.items():
        make = _refill(word, tensor, generator(seed, f"{word}/{name}"))
        if make is None or reference is None or not _matters(reference, inputs, name, make):
            continue
        with torch.no_grad():
            tensor.copy_(make)
    return found


def _refill(word: str, tensor: Tensor, source: torch.Generator) -> Tensor | None:
    kind = _kind(tensor) if word in FLOATS else None
    request = Request(tuple(tensor.shape), tensor.dtype, {}, source)
    if kind == "constant" and word == _OF_CONSTANTS:
        return (tensor.detach().double() * (0.5 + _uniform(request))).to(tensor.dtype)
    return FLOATS[word](request).to(tensor.dtype) if kind == "random" else None


_OF_CONSTANTS = "positive"
"""The word that makes a constant such as ones(N) another in each element: a kernel that takes no notice of it passes
until then."""


def _kind(tensor: Tensor) -> str | None:
    """``random`` or ``constant``, of the float tensors that may hold something else; of large ones a part tells."""
    if not tensor.is_floating_point() or tensor.element_size() == 1 or tensor.numel() < 2:
        return None
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        return None
    plain = tensor.detach()
    while plain.numel() > _LOOKED_AT and plain.dim() > 1:
        plain = plain[0]
    plain = plain[:_LOOKED_AT].double()
    if not bool(plain.isfinite().all()) or not bool((plain != 0).all()):
        return None
    if bool((plain == plain.flatten()[0]).all()):
        return "constant"
    is_random = bool((plain > 0).any() and (plain < 0).any()) and tensor.numel() >= _SEVERAL
    return "random" if is_random and not _is_ordered(plain) and not _repeats(plain, tensor.element_size()) else None


def _repeats(tensor: Tensor, size: int) -> bool:
    """Whether parts of a tensor are copies of others, as the halves of a rotary table are: random values are not."""
    if size >= 4:
        return bool(tensor.unique().numel() < 0.98 * tensor.numel())
    half = tensor.shape[-1] // 2
    rows = tensor.reshape(-1, tensor.shape[-1])
    if half and torch.equal(rows[:, :half], rows[:, half : 2 * half]):
        return True
    return len(rows) > 1 and torch.equal(rows[0], rows[1])


def _is_ordered(tensor: Tensor) -> bool:
    if tensor.dim() == 0 or tensor.shape[-1] < 2:
        return False
    steps = tensor.diff(dim=-1)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _matters(reference: Callable[..., Any], inputs: Inputs, name: str, other: Tensor) -> bool:
    """Whether the reference gives something else where one tensor holds something else."""

    def results(arguments: Inputs) -> list[Tensor]:
        made = reference(*arguments.args, **dict(arguments.kwargs))
        flat = made if isinstance(made, (tuple, list)) else [made]
        changed = list(arguments.tensors.values())
        return [tensor for tensor in (*flat, *changed) if isinstance(tensor, Tensor)]

    try:
        with torch.no_grad():
            plain = inputs.map(lambda t: t.detach()).copy()
            position = list(plain.tensors).index(name)
            before = results(plain)
            changed = inputs.map(lambda t: t.detach()).copy()
            changed.tensors[name].copy_(other)
            after = results(changed)
    except Exception:
        return False
    count = len(before) - len(plain.tensors)
    own = [i for i in range(len(before)) if i != count + position]
    return any(
        before[i].shape != after[i].shape or not torch.equal(before[i].nan_to_num(), after[i].nan_to_num()) for i in own
    )
