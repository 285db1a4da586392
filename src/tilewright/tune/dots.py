"""The dots of a kernel, and its largest tile: what the model needs to know of its TTIR."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tilewright.launch.compile import without_locations
from tilewright.launch.ttir import Module, Op, parse

# Keys of Target.peak by the element type of a dot's operands.
_PEAKS = {"f64": "fp64", "f32": "fp32", "bf16": "bf16", "f16": "fp16", "i8": "int8"}
# An fp32 dot in other precisions: the unit, and how many products it takes there for one.
_PRECISIONS = {"tf32": ("tf32", 1), "tf32x3": ("tf32", 3), "bf16x3": ("bf16", 3), "bf16x6": ("bf16", 6)}
_BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}
_MOVES = ("tt.load", "tt.store", "tt.descriptor_load", "tt.descriptor_store", "tt.atomic", "tt.gather", "tt.scatter")


@dataclass(frozen=True)
class Dot:
    """One ``tl.dot``: tile sizes, the bytes of an operand's element, and the peak rate that bounds it."""

    rows: int
    columns: int
    depth: int
    element_bytes: int
    peak: str  # a key of Target.peak, where the chip has it
    products: int = 1  # times that peak's work for one product
    batch: int = 1

    @property
    def flops(self) -> float:
        """Operations of one execution, a multiply-add being two."""
        return 2.0 * self.batch * self.rows * self.columns * self.depth


@lru_cache(maxsize=256)
def parsed(ttir: str) -> Module:
    """A module; of one text the same one."""
    return parse(without_locations(ttir))


@lru_cache(maxsize=2048)
def dots(ttir: str) -> tuple[Dot, ...]:
    """The dots of a module, as often as they are written."""
    return tuple(dot for op in parsed(ttir).ops() if (dot := dot_of(op)))


@lru_cache(maxsize=256)
def largest_tile(ttir: str) -> int:
    """Elements of the largest tensor that a program loads or stores at once; 0 where it moves scalars only."""
    moved = (op for op in parsed(ttir).ops() if op.name.startswith(_MOVES))
    return max((math.prod(kind.shape) for op in moved for kind in op.types if kind.shape), default=0)


def dot_of(op: Op) -> Dot | None:
    """An operation as a dot, if it is one."""
    tiles = [kind for kind in op.types if kind.shape]
    if op.name not in ("tt.dot", "tt.dot_scaled") or len(tiles) < 3:
        return None
    left, element, result = tiles[0].shape, tiles[0].element, tiles[-1].shape
    peak, products = _PEAKS.get(element, "fp8" if element.startswith("f8") else "fp16"), 1
    depth, precision = left[-1], op.attributes.get("inputPrecision")
    if op.name == "tt.dot_scaled":
        peak, depth = "fp8", depth * (2 if op.attributes.get("lhs") == "e2m1" else 1)
    elif element == "f32" and precision in _PRECISIONS:
        peak, products = _PRECISIONS[precision]
    batch = math.prod(result[:-2])
    return Dot(result[-2], result[-1], depth, _BYTES.get(element, 1), peak, products, batch)
