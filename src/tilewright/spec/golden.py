"""The golden reference: what an output should be, and how far from it is still right.

The reference runs twice: on float64 inputs (the golden values) and in the declared precision (PyTorch's
own error). The tolerance of an element is derived from both, never chosen per operator:

    tolerance = k * max(scale * max(own, u_out, c * u_acc * spread), own error of the element) + floor

``scale``   the larger of the golden value and the root of the sum of squares of the contributions that
            went into it, found by perturbing the inputs
``own``     PyTorch's own largest error over ``scale``, in the declared precision
``floor``   what is lost next to zero: half the spacing of subnormals, or all of those of float32
``u_out``   unit roundoff of the output's dtype
``u_acc``   unit roundoff of the accumulator: float32 for dtypes up to 32 bits
``spread``  sum of the magnitudes of the contributions over the root of the sum of their squares, sampled
            by automatic differentiation: how much a long sum may lose although its result is small
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tilewright.errors import ReferenceFailed
from tilewright.records import Disagreement
from tilewright.spec import dtypes, steps
from tilewright.spec.inputs import Inputs
from tilewright.spec.tiles import fold_tiles

FACTOR = 4.0
"""k of the tolerance: kernels may be this many times worse than the worst of what explains an error."""
ACCUMULATION_FACTOR = 4.0
CANCELLED_ROUNDINGS = 16.0
"""Of the largest input, that may be left of terms that cancel."""
ROOM_FACTOR = 8.0
"""Of what the reference's own steps may move a value: sampled, so with more room than what is known."""
PERTURBATION = 2.0**-12
"""Relative: large enough to stand out of float32 arithmetic inside a reference, small enough to be linear."""
PERTURBATIONS = 5
"""With fewer, one element in some hundred thousand has a scale that is tiny by chance, and a false alarm."""
SMALLEST_SCALE = 2.0**-4
"""Of the root mean square of an output's scales: below it an element's own scale may be an accident."""
SAMPLED_ELEMENTS = 6
NEGLIGIBLE = 2.0**-30
"""Of the largest scale: where everything cancels (the flat end of a GELU) a right kernel is off by a hair."""
NEGLIGIBLE_OF_16_BITS = 2.0**-27
"""Of the largest scale, whatever is left there: a fraction of what float32 loses on the way to a 16-bit output."""


@dataclass(frozen=True)
class Expected:
    """One golden output. ``tolerance`` is absolute, per element; 0 where the output must be exact.

    ``own`` is PyTorch's own error in the declared precision, per element. ``moves`` tells how far steps of the reference that are a little off move each element (``steps.py``).
    """

    name: str
    values: Tensor
    tolerance: Tensor
    dtype: torch.dtype
    scale: Tensor
    spread: float
    own: Tensor | None = None
    moves: Callable[[], Tensor] | None = None


Reference = Callable[..., Any]


def expect(
    reference: Reference,
    inputs: Inputs,
    *,
    mutates: tuple[str, ...] = (),
    declared: tuple[torch.dtype | None, ...] = (),
    names: tuple[str, ...] = (),
    label: str = "",
    golden_dtype: torch.dtype = torch.float64,
) -> tuple[Expected, ...]:
    """Golden outputs of ``reference``, in the order results come, then the tensors named in ``mutates``.

    ``declared`` dtypes win over those the reference returns; ``names`` are for reports. For 16-bit
    operators at sizes where float64 does not fit the memory, ``golden_dtype`` may be float32.

    Raises:
        ReferenceFailed: the reference raised, on the inputs or on their float64 form.
    """
    mutates = tuple(name for name in mutates if name in inputs.tensors)  # an optional one may be None
    own = call_reference(reference, inputs.copy(), mutates, label)
    exact_inputs = inputs.upcast(golden_dtype)
    golden = tuple(map(_computable, call_reference(reference, exact_inputs.copy(), mutates, label)))
    if len(own) != len(golden):
        raise ReferenceFailed(f"{label}: the reference returns {len(own)} tensors, on float64 inputs {len(golden)}")
    scales = _scales(reference, exact_inputs, golden, mutates, label)
    # A 16-bit output is rounded far more coarsely than a float32 accumulator: its spread cannot matter.
    is_fine = any(o.dtype in (torch.float32, torch.float64) for o in own)
    spreads = _spreads(reference, exact_inputs, golden, mutates, label) if is_fine else [1.0] * len(golden)
    names = names or output_names(len(own) - len(mutates)) + mutates
    dtypes_wanted = [*declared, *[None] * len(own)]

    def again() -> tuple[Tensor, ...]:
        return tuple(map(_computable, call_reference(reference, exact_inputs.copy(), mutates, label)))

    found = [
        _expected(names[i], golden[i], own[i], scales[i], spreads[i], dtypes_wanted[i] or own[i].dtype)
        for i in range(len(own))
    ]
    found = [_with_cancellations(one, exact_inputs) for one in found]
    moves = steps.later(again, golden, PERTURBATION, PERTURBATIONS)
    return tuple(replace(found[i], moves=moves[i]) for i in range(len(found)))


def expect_like(
    first: tuple[Expected, ...],
    reference: Reference | None,
    inputs: Inputs,
    *,
    mutates: tuple[str, ...] = (),
    label: str = "",
    golden_dtype: torch.dtype = torch.float64,
) -> tuple[Expected, ...]:
    """Golden outputs for another draw of the same case's inputs, at a fraction of the cost of :func:`expect`.

    What an element may be off is twice the most that any could of the ``first`` draw, and PyTorch's own error: enough to
    tell another draw's answer from this one's, and no more than that.

    Raises:
        ReferenceFailed: the reference raised, or returned other shapes.
    """
    assert reference is not None
    mutates = tuple(name for name in mutates if name in inputs.tensors)
    own = call_reference(reference, inputs.copy(), mutates, label)
    golden = call_reference(reference, inputs.upcast(golden_dtype), mutates, label)
    found = []
    for known, gold, plain in zip(first, map(_computable, golden), map(_computable, own), strict=False):
        if gold.shape != known.values.shape:
            raise ReferenceFailed(f"{label}: with another seed the reference returns {tuple(gold.shape)}")
        if known.dtype.is_floating_point:
            gold = gold.detach().to(torch.float64)
            error = (plain.detach().to(torch.float64) - gold).abs().nan_to_num(0.0, 0.0, 0.0)
            largest = float(known.tolerance.max()) if known.tolerance.numel() else 0.0
            tolerance = FACTOR * error + 2 * largest
        else:
            tolerance = known.tolerance
        found.append(replace(known, values=gold, tolerance=tolerance, moves=None))
    return tuple(found)


def output_names(count: int) -> tuple[str, ...]:
    """How reports call the results of a launcher."""
    return ("output",) if count == 1 else tuple(f"output {i}" for i in range(count))


def call_reference(reference: Reference, inputs: Inputs, mutates: tuple[str, ...], label: str) -> tuple[Tensor, ...]:
    """Calls a reference on inputs it may change; its results, then the new values of ``mutates``.

    A functional reference returns the new values after its results; one that works in place returns
    only its results, and the changed inputs are taken.
    """
    keywords = accepted_keywords(reference, inputs.kwargs)
    before = {name: inputs.tensors[name]._version for name in mutates}
    try:
        returned = reference(*inputs.args, **keywords)
    except Exception as error:
        kind = "on float64 inputs " if any(t.dtype == torch.float64 for t in inputs.tensors.values()) else ""
        raise ReferenceFailed(
            f"the reference raised {kind}({label}): {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            _remedy(error, inputs, is_float64=bool(kind)),
        ) from error
    results = as_tensors(returned)
    if results is None:
        raise ReferenceFailed(f"the reference returned {type(returned).__name__}, not a tensor or a tuple of tensors")
    in_place = [name for name in mutates if inputs.tensors[name]._version != before[name]]
    results = without_arguments(results, tuple(inputs.tensors[name] for name in in_place))
    if in_place or (mutates and len(results) < len(mutates)):
        results = results + tuple(inputs.tensors[name] for name in mutates)
    return results


def _remedy(error: Exception, inputs: Inputs, *, is_float64: bool) -> str:
    integers = [n for n, t in inputs.tensors.items() if not t.is_floating_point() and t.dtype != torch.bool]
    if integers and (isinstance(error, IndexError) or re.search(r"index|out of (range|bounds)", str(error))):
        return (
            f"{', '.join(integers)} may hold what no index is: say what to draw, "
            f'such as values={{"{integers[0]}": tw.values.indices("N")}}'
        )
    return "it must run on the operator's inputs and on their float64 form" if is_float64 else "check it on these sizes"


def without_arguments(results: tuple[Tensor, ...], mutated: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Results without those that are a mutated argument itself (``return x.mul_(2)``): it is compared as such."""

    def is_same(one: Tensor, other: Tensor) -> bool:
        if one is other or one.numel() == 0:
            return one is other
        places = [(t.data_ptr(), t.shape, t.stride(), t.dtype) for t in (one, other)]
        return places[0] == places[1]

    return tuple(result for result in results if not any(is_same(result, argument) for argument in mutated))


def own_outputs(outputs: tuple[Tensor, ...], mutated: tuple[Tensor, ...], expected: int | None) -> tuple[Tensor, ...]:
    """A launcher's outputs beside the arguments that it changed, of which ``expected`` are golden.

    A mutated argument that is returned is an output only where the reference makes it one.
    """
    return outputs if len(outputs) == expected else without_arguments(outputs, mutated)


def accepted_keywords(function: Callable[..., Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Those keyword arguments that a function takes: a reference need not name every option."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return dict(keywords)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return dict(keywords)
    return {name: value for name, value in keywords.items() if name in parameters}


def as_tensors(returned: Any) -> tuple[Tensor, ...] | None:
    """Results as a tuple of tensors; None entries are dropped; None where it is something else."""
    if returned is None:
        return ()
    if isinstance(returned, Tensor):
        return (returned,)
    if isinstance(returned, (tuple, list)) and all(item is None or isinstance(item, Tensor) for item in returned):
        return tuple(item for item in returned if item is not None)
    return None


def _computable(tensor: Tensor) -> Tensor:
    """8-bit floats in float64: PyTorch stores them, but does not compute on them."""
    return tensor.to(torch.float64) if tensor.is_floating_point() and tensor.element_size() == 1 else tensor


def _expected(name: str, gold: Tensor, own: Tensor, scale: Tensor, spread: float, dtype: torch.dtype) -> Expected:
    if not dtype.is_floating_point:
        zero = torch.zeros((), dtype=torch.float64, device=gold.device)
        return Expected(name, gold.detach(), zero.expand(gold.shape), dtype, zero.expand(gold.shape), 1.0)
    gold = gold.detach().to(torch.float64)
    scale = scale.to(torch.float64)
    error = (own.detach().to(torch.float64) - gold).abs() if own.shape == gold.shape else torch.zeros_like(gold)
    error = error.nan_to_num(0.0, 0.0, 0.0)
    accumulator = 2.0**-53 if dtype == torch.float64 else 2.0**-24
    unit = max(
        _worst_relative(error, scale, own.dtype), dtypes.roundoff(dtype), ACCUMULATION_FACTOR * accumulator * spread
    )
    share = unit * NEGLIGIBLE if dtype.itemsize > 2 else max(unit * NEGLIGIBLE, NEGLIGIBLE_OF_16_BITS)
    hair = share * float(scale.max()) if scale.numel() else 0.0
    tolerance = FACTOR * torch.maximum(unit * scale + hair, error) + _floor(dtype)
    return Expected(name, gold, tolerance, dtype, scale, spread, error)


def _with_cancellations(expected: Expected, inputs: Inputs) -> Expected:
    """The same output; where it is zero everywhere, with room for what is left of terms that cancel.

    A gradient of a softmax over one element is 0 by one operation in PyTorch, and the rounding of two sums in a kernel:
    nothing in the output says how large these were, the inputs do.
    """
    if not expected.dtype.is_floating_point or expected.values.numel() == 0 or bool((expected.values != 0).any()):
        return expected
    finite = [t[t.isfinite()].abs() for t in inputs.tensors.values() if t.is_floating_point()]
    largest = max((float(t.max()) for t in finite if t.numel()), default=0.0)
    room = CANCELLED_ROUNDINGS * max(2.0**-24, dtypes.roundoff(expected.dtype)) * largest
    return replace(expected, tolerance=expected.tolerance.clamp_min(room))


def _worst_relative(error: Tensor, scale: Tensor, dtype: torch.dtype) -> float:
    """The largest error over its scale. One element must not open the tolerance of all others: what underflow
    took is no relative error, and where an element's scale is tiny by chance the usual scale stands in."""
    if error.numel() == 0:
        return 0.0
    usual = float(scale.square().mean().sqrt()) + torch.finfo(torch.float64).tiny
    excess = (error - _floor(dtype)).clamp_min(0.0)
    return float((excess / torch.where(scale < SMALLEST_SCALE * usual, usual, scale)).max())


def _floor(dtype: torch.dtype) -> float:
    """The error of a value next to zero. GPUs flush float32's subnormals, and bfloat16's with them."""
    if not dtype.is_floating_point:
        return 0.0
    half_spacing = torch.finfo(dtype).smallest_normal * dtypes.roundoff(dtype)
    return half_spacing if dtype == torch.float64 else max(half_spacing, torch.finfo(torch.float32).smallest_normal)


def with_roundoff(expected: Expected, roundoff: float) -> Expected:
    """The same output as if contributions had been rounded to ``roundoff`` (tf32: 2**-10) before their sum."""
    return replace(expected, tolerance=torch.maximum(expected.tolerance, FACTOR * 2 * roundoff * expected.scale))


def _scales(
    reference: Reference, inputs: Inputs, golden: tuple[Tensor, ...], mutates: tuple[str, ...], label: str
) -> list[Tensor]:
    """max(|golden|, root of the sum of squares of the contributions), by relative random perturbations."""
    scales = [(g.detach().abs() if g.is_floating_point() else torch.zeros_like(g)) for g in golden]
    source = torch.Generator().manual_seed(20_11)
    for _ in range(PERTURBATIONS):

        def disturb(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return tensor.clone()
            # Of various sizes: terms that cancel would else do so in their perturbations too, every other time.
            signs = torch.randint(0, 2, tensor.shape, generator=source, dtype=torch.int8) * 2 - 1
            sizes = torch.randint(8, 17, tensor.shape, generator=source, dtype=torch.int8)
            return tensor * (1 + PERTURBATION / 16 * (signs * sizes).to(tensor.device, tensor.dtype))

        disturbed = call_reference(reference, inputs.map(disturb), mutates, label)
        for index, (moved, gold) in enumerate(zip(map(_computable, disturbed), golden, strict=True)):
            if gold.is_floating_point() and moved.shape == gold.shape:
                change = ((moved.detach() - gold.detach()).abs() / PERTURBATION).nan_to_num(0.0, 0.0, 0.0)
                scales[index] = torch.maximum(scales[index], change)
    return [scale.nan_to_num(0.0, 0.0, 0.0) for scale in scales]


def _spreads(
    reference: Reference, inputs: Inputs, golden: tuple[Tensor, ...], mutates: tuple[str, ...], label: str
) -> list[float]:
    """Sum of magnitudes over root of the sum of squares of an output's contributions, the largest sampled.

    1 where the reference cannot be differentiated: the tolerance is then the tighter one.
    """
    spreads = [1.0] * len(golden)
    leaves: list[Tensor] = []

    def track(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor.clone()
        leaves.append(tensor.clone().requires_grad_())
        return leaves[-1] * 1  # a reference may work in place, which a leaf forbids

    try:
        with torch.enable_grad():
            outputs = call_reference(reference, inputs.map(track), mutates, label)
        for index, output in enumerate(outputs):
            if output.requires_grad and output.numel():
                spreads[index] = max(_spread_at(output, leaves, element) for element in _sample(output))
    except (ReferenceFailed, RuntimeError):
        return [1.0] * len(golden)
    return spreads


def _sample(output: Tensor) -> list[int]:
    count = min(SAMPLED_ELEMENTS, output.numel())
    return [round(i * (output.numel() - 1) / max(count - 1, 1)) for i in range(count)]


def _spread_at(output: Tensor, leaves: list[Tensor], element: int) -> float:
    gradients = torch.autograd.grad(output.reshape(-1)[element], leaves, retain_graph=True, allow_unused=True)
    magnitudes = [
        (g * leaf).detach().abs().nan_to_num(0.0, 0.0, 0.0)
        for g, leaf in zip(gradients, leaves, strict=True)
        if g is not None
    ]
    total = float(sum(m.sum() for m in magnitudes))
    square = math.sqrt(float(sum((m * m).sum() for m in magnitudes)))
    return max(total / square, 1.0) if square > 0 else 1.0


# ------------------------------------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Match:
    """How an output compares: its worst error over the tolerance, and the disagreement where above 1."""

    error_over_tolerance: float
    disagreement: Disagreement | None


def compare(actual: Tensor, expected: Expected) -> Match:
    """Compares an output with its golden values, elementwise; NaN must meet NaN, infinities their like."""
    if tuple(actual.shape) != tuple(expected.values.shape):
        return Match(math.inf, _other_kind("shape", actual, expected))
    if actual.dtype != expected.dtype:
        return Match(math.inf, _other_kind("dtype", actual, expected))
    if actual.numel() == 0:
        return Match(0.0, None)
    over = error_over_tolerance(actual, expected)
    worst = float(over.max())
    if worst > 1.0:
        over = error_over_tolerance(actual, with_room(expected))
        worst = float(over.max())
    return Match(worst, _disagreement(actual, expected, over) if worst > 1.0 else None)


def with_room(expected: Expected) -> Expected:
    """The same output with the room that steps of its reference leave, each a little off."""
    if expected.moves is None or not expected.dtype.is_floating_point:
        return expected
    unit = max(dtypes.roundoff(expected.dtype), ACCUMULATION_FACTOR * 2.0**-24)
    room = FACTOR * unit * steps.room(expected.moves(), expected.scale, expected.dtype)
    return replace(expected, tolerance=torch.maximum(expected.tolerance, room))


def error_over_tolerance(actual: Tensor, expected: Expected) -> Tensor:
    """|actual - golden| / tolerance per element, infinite where a NaN, an infinity or an exact value differs.

    Values that the dtype cannot hold are infinite on both sides.
    """
    gold = expected.values.to(actual.device)
    if not expected.dtype.is_floating_point:
        return torch.where(actual == gold, 0.0, math.inf).to(torch.float64)
    value, tolerance = actual.detach().to(torch.float64), expected.tolerance.to(actual.device)
    same = (value == gold) | (value.isnan() & gold.isnan()) | _overflowed(value, gold, tolerance, expected.dtype)
    error = torch.where(value.isfinite() & gold.isfinite(), (value - gold).abs() / tolerance, math.inf)
    return torch.where(same, 0.0, error)


def _overflowed(value: Tensor, gold: Tensor, tolerance: Tensor, dtype: torch.dtype) -> Tensor:
    """Where a value is what its dtype makes of a golden one that is beyond its range, or may be when rounded."""
    largest = torch.finfo(dtype).max
    beyond = gold.abs() + tolerance > largest
    if dtype.itemsize > 1:
        return beyond & (value == math.inf * gold.sign())
    # Of what is too large for 8 bits PyTorch makes NaN, infinity or the largest value, GPUs the largest.
    return beyond & (value.isnan() | (value == largest * gold.sign()) | (value == math.inf * gold.sign()))


def _other_kind(kind: str, actual: Tensor, expected: Expected) -> Disagreement:
    return Disagreement(
        output=expected.name,
        shape=tuple(actual.shape),
        dtype=dtypes.short(actual.dtype),
        wrong=actual.numel(),
        total=actual.numel(),
        worst_index=(),
        worst_value=math.nan,
        worst_expected=math.nan,
        worst_over_tolerance=math.inf,
        tile_shape=(1, 1),
        tile_grid=(0, 0),
        tiles=(),
        kind=kind,
    )


def _disagreement(actual: Tensor, expected: Expected, over: Tensor) -> Disagreement:
    flat = int(over.reshape(-1).argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), over.shape))
    tile, grid, tiles = fold_tiles(over)
    return Disagreement(
        output=expected.name,
        shape=tuple(actual.shape),
        dtype=dtypes.short(actual.dtype),
        wrong=int((over > 1.0).sum()),
        total=over.numel(),
        worst_index=index,
        worst_value=float(actual.detach().reshape(-1)[flat]),
        worst_expected=float(expected.values.reshape(-1)[flat]),
        worst_over_tolerance=float(over.max()),
        worst_own_error=None if expected.own is None else float(expected.own.reshape(-1)[flat]),
        tile_shape=tile,
        tile_grid=grid,
        tiles=tiles,
    )
