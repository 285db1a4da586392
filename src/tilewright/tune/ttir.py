"""Frontend TTIR read as far as the model needs it: functions, lines, the regions below them, and the dots."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache

from tilewright.launch.compile import without_locations

# Keys of Target.peak by the element type of a dot's operands.
_PEAKS = {"f64": "fp64", "f32": "fp32", "bf16": "bf16", "f16": "fp16", "i8": "int8"}
# An fp32 dot in other precisions: the unit, and how many products it takes there for one.
_PRECISIONS = {"tf32": ("tf32", 1), "tf32x3": ("tf32", 3), "bf16x3": ("bf16", 3), "bf16x6": ("bf16", 6)}
_BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}


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


@dataclass
class Op:
    """A line of TTIR with the regions below it."""

    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    regions: list[list[Op]] = field(default_factory=list)
    dot: Dot | None = None


@dataclass
class Function:
    """A function; the launch is of the public one."""

    name: str
    parameters: tuple[str, ...]
    is_public: bool
    body: list[Op] = field(default_factory=list)


def dots(ttir: str) -> tuple[Dot, ...]:
    """The dots of a module, as often as they are written."""
    return tuple(op.dot for function in parsed(ttir).values() for op in walk(function.body) if op.dot)


@lru_cache(maxsize=256)
def largest_tile(ttir: str) -> int:
    """Elements of the largest tensor that a program loads or stores at once; 0 where it moves scalars only."""
    sizes = (
        math.prod(map(int, shape.split("x")[:-1]))
        for line in ttir.splitlines()
        if any(word in line for word in _MOVES)
        for shape, _ in _TENSOR.findall(line)
    )
    return max(sizes, default=0)


_MOVES = ("tt.load", "tt.store", "tt.descriptor_load", "tt.descriptor_store", "tt.atomic", "tt.gather", "tt.scatter")
_LINE = re.compile(r'(?:(%[\w$.-]+)(?::(\d+))? = )?"?([\w.]+)"?(.*)')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_FUNCTION = re.compile(r"tt\.func (public|private)?\s*@(\"[^\"]+\"|[\w.$-]+)\((.*)")
_TENSOR = re.compile(r"tensor<((?:\d+x)+)([\w!.<>]+?)(?:, [^>]*)?>")


@lru_cache(maxsize=256)
def parsed(ttir: str) -> dict[str, Function]:
    """The functions of a module by name."""
    functions: dict[str, Function] = {}
    open_regions: list[tuple[Op | None, list[Op]]] = []
    for raw in without_locations(ttir).splitlines():
        line = raw.strip()
        header = _FUNCTION.match(line)
        if header:
            parameters = tuple(re.findall(r"(%[\w$.-]+):", header[3]))
            function = Function(header[2].strip('"'), parameters, header[1] == "public")
            functions[function.name] = function
            open_regions = [(None, function.body)]
        elif not line or not open_regions:
            continue
        elif line.startswith("}"):
            owner, _ = open_regions.pop()
            if owner is not None and line.endswith("{"):  # } else {, } do {
                owner.regions.append([])
                open_regions.append((owner, owner.regions[-1]))
        else:
            op = _op(line)
            open_regions[-1][1].append(op)
            if line.endswith(("{", "({")):
                op.regions.append([])
                open_regions.append((op, op.regions[-1]))
    return functions


def _op(line: str) -> Op:
    if line.startswith("^"):
        return Op("block", (), (), line[1:])
    match = _LINE.match(line)
    if match is None:
        return Op("", (), (), line)
    first, several, name, rest = match.groups()
    results = () if first is None else tuple(f"{first}#{i}" for i in range(int(several))) if several else (first,)
    dot = _dot(name, rest) if name in ("tt.dot", "tt.dot_scaled") else None
    return Op(name, results, tuple(_VALUE.findall(rest)), rest, dot=dot)


def _dot(name: str, text: str) -> Dot | None:
    types = [(tuple(map(int, sizes.split("x")[:-1])), element) for sizes, element in _TENSOR.findall(text)]
    if len(types) < 3:
        return None
    (left, element), (result, _) = types[0], types[-1]
    precision = re.search(r"inputPrecision = (\w+)", text)
    peak, products = _PEAKS.get(element, "fp8" if element.startswith("f8") else "fp16"), 1
    depth = left[-1]
    if name == "tt.dot_scaled":
        packed = "lhs = e2m1" in text
        peak, depth = "fp8", depth * (2 if packed else 1)
    elif element == "f32" and precision and precision[1] in _PRECISIONS:
        peak, products = _PRECISIONS[precision[1]]
    batch = math.prod(result[:-2])
    return Dot(result[-2], result[-1], depth, _BYTES.get(element, 1), peak, products, batch)


def walk(body: list[Op]) -> list[Op]:
    """All lines of a body, those of its regions included."""
    return [op for outer in body for op in (outer, *(inner for region in outer.regions for inner in walk(region)))]
