"""Operations on whole tiles, with what NumPy gives for each program's tile."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import kernels_tiles as k
from .launching import run
from .samples import DTYPES, FLOATS, INTEGERS, moderate

PROGRAMS = 3


@dataclass(frozen=True)
class TileCase:
    """An operation on a tile per program; ``expected`` works on one program's array, in fp64 for floats.

    Attributes:
        tolerance: how far off a float may be, relative to the sum of the magnitudes that went into it.
    """

    name: str
    op: Any
    parameter: Any
    shape: tuple[int, ...]
    dtype: str
    output: str
    expected: Callable[[np.ndarray], np.ndarray]
    tolerance: float = 0.0
    spread: bool = False

    def __str__(self) -> str:
        return f"{self.name}-{self.parameter}-{self.dtype}{'-spread' if self.spread else ''}".replace(" ", "")

    def check(self, seed: int) -> str:
        """Runs it; what is wrong, or nothing."""
        rng = np.random.default_rng(seed)
        lanes = int(np.prod(self.shape))
        x = moderate(self.dtype, PROGRAMS * lanes, rng)
        arrays = self._arrays(x)
        expected = np.stack([np.asarray(self.expected(a)).reshape(-1) for a in arrays])
        out = torch.zeros(expected.shape, dtype=DTYPES[self.output])
        kernel = k.spread_kernel if self.spread else k.tile_kernel
        run(kernel, (PROGRAMS,), x, out, OP=self.op, PARAM=self.parameter, SHAPE=self.shape, N=lanes)
        if self.output in FLOATS:
            off = np.abs(out.double().numpy() - expected.astype("float64"))
            worst = float(off.max())
            return "" if worst <= self.tolerance * (1 + np.abs(expected).max()) else f"off by {worst}"
        wrong = (out.numpy() != expected.astype(out.numpy().dtype)).nonzero()
        return (
            f"{len(wrong[0])} of {out.numel()} lanes differ, first at {[int(w[0]) for w in wrong]}"
            if len(wrong[0])
            else ""
        )

    def _arrays(self, x: torch.Tensor) -> list[np.ndarray]:
        wide = (x.double() if self.dtype in FLOATS else x).numpy().reshape(PROGRAMS, *self.shape)
        if self.spread:
            column = wide.reshape(-1)[: self.shape[0], None]
            return [np.broadcast_to(column, self.shape)] * PROGRAMS
        return list(wide)


def wide_integer(a: np.ndarray) -> np.ndarray:
    """What sums of narrow integers are made in."""
    if a.dtype.itemsize >= 4:
        return a
    return a.astype("int32" if a.dtype.kind == "i" or a.dtype == bool else "uint32")


def folded(
    function: Callable[..., Any], a: np.ndarray, axis: int, *, running: bool, reverse: bool = False
) -> np.ndarray:
    """A combine function from left to right, one after the other."""
    lanes = list(np.moveaxis(a, axis, 0))
    if reverse:
        lanes.reverse()
    seen = [lanes[0]]
    for lane in lanes[1:]:
        seen.append(function(seen[-1], lane))
    if not running:
        return seen[-1]
    if reverse:
        seen.reverse()
    return np.stack(seen, axis)


def last(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b != 0, b, a)


def affine(x: np.ndarray, axis: int, *, running: bool, reverse: bool = False) -> np.ndarray:
    pairs = np.stack([x, x ^ 5])

    def function(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.stack([first[0] * second[0], first[1] * second[0] + second[1]])

    found = folded(function, pairs, axis + 1, running=running, reverse=reverse)
    return found[0] * 31 + found[1]


AXES = (0, 1, 2)
CUBE = (4, 8, 2)


def integer_reductions() -> list[TileCase]:
    found = []
    for name in INTEGERS:
        sums = name if name.endswith(("32", "64")) else ("uint32" if name[0] == "u" else "int32")

        def case(title: str, op: Any, axis: Any, output: str, function: Callable, name: str = name) -> TileCase:
            return TileCase(title, op, axis, CUBE, name, output, function)

        for axis in (*AXES, None):
            found += [
                case(
                    "sum",
                    k.total,
                    axis,
                    sums,
                    lambda a, axis=axis: wide_integer(a).sum(axis, dtype=wide_integer(a).dtype),
                ),
                case("max", k.most, axis, name, lambda a, axis=axis: a.max(axis)),
                case("min", k.fewest, axis, name, lambda a, axis=axis: a.min(axis)),
                case("xor", k.xor, axis, name, lambda a, axis=axis: np.bitwise_xor.reduce(a, axis)),
            ]
        for axis in AXES:
            found += [
                case("or", k.either, axis, name, lambda a, axis=axis: np.bitwise_or.reduce(a, axis)),
                case("argmax", k.first_most, axis, "int32", lambda a, axis=axis: a.argmax(axis)),
                case("argmin", k.first_fewest, axis, "int32", lambda a, axis=axis: a.argmin(axis)),
                case("max_any", k.some_most, axis, name, lambda a, axis=axis: a.max(axis)),
                case(
                    "sum_kept",
                    k.total_kept,
                    axis,
                    sums,
                    lambda a, axis=axis: wide_integer(a).sum(axis, dtype=wide_integer(a).dtype),
                ),
                case("last", k.last_set, axis, name, lambda a, axis=axis: folded(last, a, axis, running=False)),
            ]
    return found


def scans() -> list[TileCase]:
    found = []
    for name in ("int32", "int64", "uint32"):
        for axis in AXES:
            for title, op, function in (
                ("affine", k.composed, lambda a, axis=axis: affine(a, axis, running=False)),
                ("affine_scan", k.composed_so_far, lambda a, axis=axis: affine(a, axis, running=True)),
                ("affine_behind", k.composed_behind, lambda a, axis=axis: affine(a, axis, running=True, reverse=True)),
                ("last_scan", k.last_set_so_far, lambda a, axis=axis: folded(last, a, axis, running=True)),
                (
                    "last_behind",
                    k.last_set_behind,
                    lambda a, axis=axis: folded(last, a, axis, running=True, reverse=True),
                ),
                ("branching", k.most_by_branch, lambda a, axis=axis: a.max(axis)),
                ("cumsum", k.running_total, lambda a, axis=axis: a.cumsum(axis, dtype=a.dtype)),
                (
                    "cumsum_behind",
                    k.running_total_behind,
                    lambda a, axis=axis: np.flip(np.flip(a, axis).cumsum(axis, dtype=a.dtype), axis),
                ),
                ("cumprod", k.running_product, lambda a, axis=axis: a.cumprod(axis, dtype=a.dtype)),
            ):
                found.append(TileCase(title, op, axis, CUBE, name, name, function))
    return found


def floating_reductions() -> list[TileCase]:
    found = []
    for name, loose in (("fp16", 2e-2), ("bf16", 1e-1), ("fp32", 1e-5), ("fp64", 1e-13)):
        for axis in (*AXES, None):
            found += [
                TileCase("sum", k.total, axis, CUBE, name, name, lambda a, axis=axis: a.sum(axis), loose),
                TileCase("max", k.most, axis, CUBE, name, name, lambda a, axis=axis: a.max(axis)),
                TileCase("min", k.fewest, axis, CUBE, name, name, lambda a, axis=axis: a.min(axis)),
            ]
        for axis in AXES:
            found += [
                TileCase("argmax", k.first_most, axis, CUBE, name, "int32", lambda a, axis=axis: a.argmax(axis)),
                TileCase("argmin", k.first_fewest, axis, CUBE, name, "int32", lambda a, axis=axis: a.argmin(axis)),
                TileCase("cumsum", k.running_total, axis, CUBE, name, name, lambda a, axis=axis: a.cumsum(axis), loose),
                TileCase(
                    "last",
                    k.last_set,
                    axis,
                    CUBE,
                    name,
                    name,
                    lambda a, axis=axis: folded(last, a, axis, running=False),
                ),
            ]
    return found


def spread_reductions() -> list[TileCase]:
    """Tiles whose lanes are equal along an axis, which are kept as one."""
    found = []
    for axis in (0, 1):
        for title, op, function in (
            ("sum", k.total, lambda a, axis=axis: a.sum(axis, dtype=a.dtype)),
            ("max", k.most, lambda a, axis=axis: a.max(axis)),
            ("xor", k.xor, lambda a, axis=axis: np.bitwise_xor.reduce(a, axis)),
            ("last", k.last_set, lambda a, axis=axis: folded(last, a, axis, running=False)),
            ("argmax", k.first_most, lambda a, axis=axis: a.argmax(axis)),
            ("affine", k.composed_so_far, lambda a, axis=axis: affine(a, axis, running=True)),
            ("cumsum", k.running_total, lambda a, axis=axis: a.cumsum(axis, dtype=a.dtype)),
            ("flip", k.flipped, lambda a, axis=axis: np.flip(a, axis)),
        ):
            found.append(TileCase(title, op, axis, (8, 4), "int32", "int32", function, spread=True))
    found.append(TileCase("sum", k.total, None, (8, 4), "int32", "int32", lambda a: a.sum(dtype=a.dtype), spread=True))
    return found


def shapes() -> list[TileCase]:
    found = []
    for name in ("int8", "uint16", "int32", "int64", "fp16", "bf16", "fp32", "fp64"):
        for title, op, parameter, shape, function in _SHAPES:
            found.append(TileCase(title, op, parameter, shape, name, name, function, _LOOSE.get(name, 0.0)))
    for name in ("int8", "int32", "int64"):
        found.append(
            TileCase(
                "cat", k.catenated, 0, (16,), name, name, lambda a: np.sort(np.concatenate([a, a + a.dtype.type(1)]))
            )
        )
        found += [
            TileCase("gather", k.gathered, axis, (8, 16), name, name, lambda a, axis=axis: _taken(a, axis))
            for axis in (0, 1)
        ]
    for name in ("int32", "uint32", "int64"):
        for title, op, parameter, shape, function in _COUNTS:
            found.append(TileCase(title, op, parameter, shape, name, "int32", function))
    found.append(TileCase("softmax", k.soft, 0, (64,), "fp32", "fp32", lambda a: np.exp(a) / np.exp(a).sum(), 1e-6))
    return found


_LOOSE = {"fp16": 1e-3, "bf16": 1e-2, "fp32": 1e-7}  # x + 1 is rounded


def _counts(a: np.ndarray, keep: np.ndarray) -> np.ndarray:
    return np.bincount(a.astype("int64")[keep] & 7, minlength=8)


def _taken(a: np.ndarray, axis: int) -> np.ndarray:
    return np.take_along_axis(a, a.astype("int32").astype("int64") & (a.shape[axis] - 1), axis)


def _thirds(a: np.ndarray) -> np.ndarray:
    return np.fmod(a.astype("int32"), 3) == 0


_SHAPES: list[tuple[str, Any, Any, tuple[int, ...], Callable]] = [
    ("sort", k.ascending, 1, (4, 16), lambda a: np.sort(a, 1)),
    ("sort_down", k.descending, 1, (4, 16), lambda a: np.flip(np.sort(a, 1), 1)),
    ("topk", k.top, 4, (4, 16), lambda a: np.flip(np.sort(a, 1), 1)[:, :4]),
    *(("flip", k.flipped, axis, (4, 8, 2), lambda a, axis=axis: np.flip(a, axis)) for axis in (0, 1, 2)),
    *(
        ("permute", k.permuted, order, (4, 8, 2), lambda a, order=order: a.transpose(order))
        for order in ((0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0))
    ),
    ("trans", k.transposed, 0, (4, 16), lambda a: a.T),
    ("reshape", k.reshaped, (2, 32), (4, 16), lambda a: a),
    ("view", k.viewed, (32, 2), (4, 16), lambda a: a),
    ("ravel", k.raveled, 0, (4, 8, 2), lambda a: a),
    ("split", k.halves_apart, 0, (4, 8, 2), lambda a: a[..., ::-1]),
    ("broadcast", k.stretched, 0, (4, 8), lambda a: np.broadcast_to(a[:, None], (4, 4, 8))),
    ("join", k.joined, 0, (4, 8), lambda a: np.stack([a, a + a.dtype.type(1)], -1)),
    ("interleave", k.interleaved, 0, (4, 8), lambda a: np.stack([a, a + a.dtype.type(1)], -1)),
    ("join_uniform", k.joined_uniform, 0, (4, 8), lambda a: np.stack([a, np.full_like(a, 3)], -1)),
]
_COUNTS: list[tuple[str, Any, Any, tuple[int, ...], Callable]] = [
    ("histogram", k.counted, 8, (64,), lambda a: _counts(a, np.ones_like(a, bool))),
    ("histogram_mask", k.counted_under_mask, 8, (64,), lambda a: _counts(a, _thirds(a))),
    ("histogram_uniform", k.counted_uniform, 8, (64,), lambda a: _counts(np.arange(64), _thirds(a))),
]
