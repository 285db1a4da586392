"""Frontend TTIR, read from its printed text into operations with their types, names and lines.

The text is the one form that Triton 3.6 to 3.9 share and that holds everything: the Python bindings give
neither predicates nor constants. MLIR prints one operation a line, regions between braces, so the reader
works line by line and needs no grammar of each operation: operands come in order, types behind the last
colon, attributes as ``key = value``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

_VALUE = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_KEYWORD = re.compile(r"(?<![\w.%])(\w+) = ([\w.\-]+)")
_RESULTS = re.compile(r"^((?:%[\w$.\-]+(?::\d+)?(?:, )?)+) = ")
_NAME = re.compile(r"[\w.$\-]*")
_ARGUMENT = re.compile(r"(%[\w$.\-]+): (.+)$", re.DOTALL)
_HINTS = frozenset(("tt.divisibility", "tt.contiguity", "tt.constancy"))
_MARKS = re.compile(r'"[^"]*"?|->|[<({\[>)}\]]')
"""What matters to the depth of brackets: strings and arrows are passed over as a whole."""
_STEPS = {**dict.fromkeys("<({[", 1), **dict.fromkeys(">)}]", -1)}


@dataclass(frozen=True, slots=True)
class Type:
    """``tensor<128x64xf32>`` is shape (128, 64) of f32; a scalar has shape (). Pointers are ``ptr<f32>``."""

    shape: tuple[int, ...]
    element: str

    @property
    def is_pointer(self) -> bool:
        return self.element.startswith("ptr<")

    @property
    def pointee(self) -> str:
        return self.element[4:-1]


@dataclass(frozen=True, slots=True)
class Location:
    """Where in the user's code an operation comes from, and the name its result was given there.

    ``callers`` are the calls that brought it there, innermost first, where the compiler has inlined them.
    """

    file: str | None = None
    line: int | None = None
    name: str | None = None
    column: int | None = None  # from 0
    callers: tuple[Location, ...] = ()


@dataclass(slots=True)
class Op:
    """One operation. ``index`` numbers the operations of a module in the order of its text."""

    index: int
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    attributes: dict[str, str]
    body: str
    location: Location
    regions: list[Region] = field(default_factory=list)
    cache: Any = None
    hinted: bool = False  # carries what the kernel promises of its result


@dataclass(slots=True)
class Block:
    label: str
    arguments: tuple[str, ...] = ()
    argument_types: tuple[Type, ...] = ()
    ops: list[Op] = field(default_factory=list)


@dataclass(slots=True)
class Region:
    blocks: list[Block] = field(default_factory=list)

    def block(self, label: str) -> Block:
        return next(block for block in self.blocks if block.label == label)

    def ops(self) -> Iterator[Op]:
        """Every operation, nested ones included."""
        for block in self.blocks:
            for op in block.ops:
                yield op
                for inner in op.regions:
                    yield from inner.ops()


@dataclass(slots=True)
class Function:
    name: str
    arguments: tuple[str, ...]
    argument_types: tuple[Type, ...]
    argument_names: tuple[str, ...]
    region: Region
    location: Location


@dataclass(slots=True)
class Module:
    functions: dict[str, Function]
    entry: Function

    def ops(self) -> Iterator[Op]:
        """Every operation, nested ones included."""
        for function in self.functions.values():
            yield from function.region.ops()


def parse(text: str) -> Module:
    """Reads a module.

    Raises:
        ValueError: text that is no TTIR module.
    """
    reader = _Reader(text)
    functions = {function.name: function for function in reader.read()}
    entry = next((f for f in functions.values() if f.name in reader.public), None)
    if entry is None:
        raise ValueError("no public function in the TTIR module")
    return Module(functions, entry)


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.public: set[str] = set()
        self.count = 0
        self._locations: dict[str, str] = {}
        for line in self.lines:
            if line.startswith("#loc"):
                label, _, value = line.partition(" = ")
                self._locations[label] = value
        self._known: dict[str, Location] = {}

    def read(self) -> Iterator[Function]:
        lines = iter(self.lines)
        for line in lines:
            stripped = line.strip()
            if stripped.startswith("tt.func"):
                yield self._function(stripped, lines)

    def _function(self, header: str, lines: Iterator[str]) -> Function:
        found = re.match(r'tt\.func (public |private )?@("[^"]*"|[\w$.\-]+)\(', header)
        if found is None:
            raise ValueError(f"not understood: {header}")
        name = found.group(2).strip('"')
        if found.group(1) == "public ":
            self.public.add(name)
        end = _balanced(header, found.end() - 1)
        arguments, types, names = self._arguments(header[found.end() : end])
        region, tail = self._region(lines, Block("^bb0", arguments, types))
        return Function(name, arguments, types, names, region, self._location(tail))

    def _arguments(self, text: str) -> tuple[tuple[str, ...], tuple[Type, ...], tuple[str, ...]]:
        """SSA names, types and the user's names of a list of block arguments."""
        arguments, types, names = [], [], []
        for part in split(text):
            own, location = _cut_location(part)
            found = _ARGUMENT.match(own.strip())
            if found is None:
                raise ValueError(f"not understood: {part}")
            kind = found.group(2)
            kind = kind[: kind.index(" {")] if " {" in kind else kind
            arguments.append(found.group(1))
            types.append(parse_type(kind))
            names.append(self._location(location).name or found.group(1)[1:])
        return tuple(arguments), tuple(types), tuple(names)

    def _region(self, lines: Iterator[str], first: Block) -> tuple[Region, str]:
        """Reads to the brace that closes a region; returns it and the rest of the closing line."""
        region = Region([first])
        block = first
        for line in lines:
            text = line.strip()
            if text.startswith("}"):
                if not block.ops and block is first and len(region.blocks) > 1:
                    region.blocks.remove(block)
                return region, text[1:].strip()
            if text.startswith("^"):
                block = self._block(text)
                if not region.blocks[0].ops and len(region.blocks) == 1 and not region.blocks[0].arguments:
                    region.blocks[0] = block
                else:
                    region.blocks.append(block)
            elif text and not text.startswith("//"):
                block.ops.append(self._op(text, lines))
        raise ValueError("the TTIR ends inside a region")

    def _block(self, text: str) -> Block:
        label = re.match(r"\^\w+", text)
        assert label is not None
        if text[label.end()] != "(":
            return Block(label.group())
        end = _balanced(text, label.end())
        arguments, types, _ = self._arguments(text[label.end() + 1 : end])
        return Block(label.group(), arguments, types)

    def _op(self, text: str, lines: Iterator[str]) -> Op:
        index, self.count = self.count, self.count + 1
        head, location = _cut_location(text)
        regions: list[Region] = []
        while head.endswith("{") or head.endswith("({"):
            region, tail = self._region(lines, Block("^bb0"))
            regions.append(region)
            if tail.startswith(("else {", "do {", ", {")):
                continue
            tail, location = _cut_location(tail)
            head = head.rstrip("({ ") + " " + tail.lstrip(")").strip()
        return self._built(index, head.strip(), self._location(location), regions)

    def _built(self, index: int, text: str, location: Location, regions: list[Region]) -> Op:
        results: tuple[str, ...] = ()
        found = _RESULTS.match(text)
        if found is not None:
            results = tuple(_result_names(found.group(1)))
            text = text[found.end() :]
        if text.startswith('"'):
            name, _, rest = text[1:].partition('"')
        else:
            name = _NAME.match(text).group()  # type: ignore[union-attr]  # any text starts with some name, or none
            rest = text[len(name) :].lstrip(" ")  # scf.condition(%c) has no blank between
        body, types = _cut_types(rest)
        if name == "tt.elementwise_inline_asm" and not types:  # of no operands: printed without a colon
            body, arrow, after = rest.rpartition(" -> ")
            types = arrow + after
        kinds, result_types = _types(types)
        if name == "arith.constant" and not result_types:
            result_types = (Type((), "i1"),)  # true and false are printed without their type
        if name == "tt.addptr":
            result_types = kinds[:1]
        elif name in ("tt.make_tensor_ptr", "tt.advance"):
            result_types = (parse_type(f"!tt.ptr{types}"),)  # printed in short as <tensor<…>>
        elif name == "tt.load":
            result_types = (_loaded(kinds[0]),)
        elif name == "scf.for" or name == "scf.while" or name == "scf.if":
            result_types = _arrow_types(rest)
        plain, attributes = _attributes(body)
        operands = tuple(_VALUE.findall(_without_strings(plain)))
        hinted = not _HINTS.isdisjoint(attributes)
        return Op(
            index, name, results, operands, kinds, result_types, attributes, plain, location, regions, hinted=hinted
        )

    def _location(self, text: str) -> Location:
        text = text.strip()
        if text not in self._known:
            self._known[text] = self._resolved(text)
        return self._known[text]

    def _resolved(self, text: str, name: str | None = None) -> Location:
        for _ in range(64):
            text = text.strip()
            if text.startswith("loc("):
                text = text[4:-1]
            elif text.startswith("#loc"):
                text = self._locations.get(text, "unknown")
            elif text.startswith("callsite("):
                callee, _, caller = text[9:-1].partition(" at ")
                here, above = self._resolved(callee, name), self._resolved(caller)
                return replace(here, callers=(*here.callers, replace(above, callers=()), *above.callers))
            elif found := re.match(r'"([^"]*)":(\d+):(\d+)', text):
                return Location(found.group(1), int(found.group(2)), name, int(found.group(3)))
            elif found := re.match(r'"([^"]*)"\((.*)\)$', text):
                name, text = name or found.group(1), found.group(2)
            elif found := re.match(r'"([^"]*)"$', text):
                return Location(None, None, name or found.group(1))
            elif text.startswith("fused"):
                text = text[text.index("[") + 1 : -1].partition(",")[0]
            else:
                break
        return Location(None, None, name)


# ------------------------------------------------------------------------------------------------- pieces


def _result_names(text: str) -> Iterator[str]:
    for part in text.split(", "):
        name, _, count = part.partition(":")
        if count:
            yield from (f"{name}#{i}" for i in range(int(count)))
        else:
            yield name


def _cut_location(text: str) -> tuple[str, str]:
    """The text before its trailing ``loc(…)``, and that."""
    comment = text.find(" // ")
    while comment >= 0 and text.count('"', 0, comment) % 2:  # assembly has comments of its own
        comment = text.find(" // ", comment + 1)
    text = (text[:comment] if comment >= 0 else text).rstrip()
    at = text.rfind(" loc(")
    if at < 0 and text.startswith("loc("):
        return "", text
    while at >= 0 and _balanced(text, at + 4) != len(text) - 1:
        at = text.rfind(" loc(", 0, at)
    return (text[:at], text[at + 1 :]) if at >= 0 else (text, "")


def _balanced(text: str, start: int) -> int:
    """Position of the bracket that closes the one at ``start``; -1 where none does."""
    depth = 0
    for mark in _MARKS.finditer(text, start):
        depth += _STEPS.get(mark.group(), 0)
        if depth == 0:
            return mark.start()
    return -1


def split(text: str, separator: str = ",") -> list[str]:
    """Parts of a text between separators outside brackets and strings."""
    if separator not in text:
        return [text.strip()] if text.strip() else []
    parts, begin, depth = [], 0, 0
    for mark in _separators(separator).finditer(text):
        found = mark.group()
        if found != separator:
            depth += _STEPS.get(found, 0)
        elif depth == 0:
            parts.append(text[begin : mark.start()])
            begin = mark.end()
    parts.append(text[begin:])
    return [part.strip() for part in parts if part.strip()]


@cache
def _separators(separator: str) -> re.Pattern[str]:
    return re.compile(f"{re.escape(separator)}|{_MARKS.pattern}")


def _cut_types(text: str) -> tuple[str, str]:
    """Body and type part of an operation: what stands behind the last colon outside brackets."""
    parts = split(text, " : ")
    if text.startswith(": "):
        return "", text[2:]
    return (" : ".join(parts[:-1]), parts[-1]) if len(parts) > 1 else (text, "")


def _types(text: str) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """All types of a type part, and those of the results."""
    if not text:
        return (), ()
    for arrow in (" -> ", " to "):
        if arrow in text:
            before, _, after = text.rpartition(arrow)
            results = _type_list(after)
            return _type_list(before) + results, results
    kinds = _type_list(text)
    return kinds, kinds[-1:]


def _loaded(pointer: Type) -> Type:
    """What a pointer, a tile of pointers or a block pointer points at."""
    pointee = pointer.pointee
    return parse_type(pointee) if pointee.startswith("tensor<") else Type(pointer.shape, pointee)


def _arrow_types(text: str) -> tuple[Type, ...]:
    """Result types of a structured operation: behind its arrow."""
    at = text.find(" -> (")
    if at < 0:
        return ()
    return _type_list(text[at + 4 : _balanced(text, at + 4) + 1])


def _type_list(text: str) -> tuple[Type, ...]:
    text = text.strip()
    if text.startswith("(") and _balanced(text, 0) == len(text) - 1:
        text = text[1:-1]
    return tuple(parse_type(kind) for part in split(text) for kind in split(part, " * "))


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """A type as printed: ``f32``, ``!tt.ptr<f16>``, ``tensor<16x!tt.ptr<f32>>``, ``!tt.tensordesc<…>``."""
    text = text.strip()
    if text.startswith("tensor<"):
        inner = text[7:-1]
        shape = []
        while found := re.match(r"(\d+)x", inner):
            shape.append(int(found.group(1)))
            inner = inner[found.end() :]
        return Type(tuple(shape), parse_type(inner).element)
    if text.startswith("!tt.ptr<"):
        end = _balanced(text, 7)
        pointee = split(text[8:end])[0]
        return Type((), f"ptr<{pointee if pointee.startswith('tensor') else parse_type(pointee).element}>")
    if text.startswith("!tt.tensordesc<"):
        inner = text[15:-1]
        block = parse_type(inner if inner.startswith("tensor<") else f"tensor<{inner}>")
        return Type(block.shape, f"desc<{block.element}>")
    if text.startswith("<"):  # the short form inside make_tensor_descriptor
        return parse_type("!tt.ptr" + text if "x" not in text else "!tt.tensordesc" + text)
    return Type((), text)


def _attributes(body: str) -> tuple[str, dict[str, str]]:
    """The body without its attribute dictionaries, and all ``key = value`` of it."""
    attributes: dict[str, str] = {}
    plain = body
    while (at := _dictionary(plain)) is not None:
        start, end = at
        inner = plain[start:end].removeprefix("<").removesuffix(">")[1:-1]
        for entry in split(inner):
            key, _, value = entry.partition(" = ")
            attributes[key.strip()] = value.strip()
        plain = (plain[:start] + plain[end:]).strip()
    for key, value in _KEYWORD.findall(_without_strings(plain)):
        attributes.setdefault(key, value)
    return plain, attributes


def _dictionary(text: str) -> tuple[int, int] | None:
    if "{" not in text:
        return None
    quoted = False
    for position, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == "{" and not quoted:
            start = position - 1 if position and text[position - 1] == "<" else position
            end = _balanced(text, start)
            return (start, end + 1) if end > 0 else None
    return None


def _without_strings(text: str) -> str:
    return re.sub(r'"[^"]*"', '""', text) if '"' in text else text


def integer(attributes: dict[str, str], key: str, default: int = 0) -> int:
    """A whole-number attribute such as ``axis = 1 : i32``."""
    return int(attributes[key].partition(" ")[0]) if key in attributes else default


def integers(value: str) -> Sequence[int]:
    """An array attribute such as ``array<i32: 1, 0>``."""
    return tuple(int(number) for number in re.findall(r"-?\d+", value.partition(":")[2]))


def callee(op: Op) -> str:
    """Name of the function that a ``tt.call`` calls."""
    if op.body.startswith('@"'):
        return op.body[2 : op.body.index('"', 2)]
    return op.body[1 : op.body.index("(")]
