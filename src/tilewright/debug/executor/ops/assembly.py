"""``tl.inline_asm_elementwise``: PTX in a straight line, of registers only, all lanes at once."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tilewright.debug.executor import elements
from tilewright.debug.executor.machine import Handler, Machine
from tilewright.debug.executor.ops import instructions
from tilewright.debug.executor.ops.instructions import UnknownInstructionError, cut, width
from tilewright.debug.executor.tile import Tile, joined_poison
from tilewright.launch.ttir import Op, Type

_TYPES = re.compile(r"pred|[bsu](?:8|16|32|64)|bf16x2|f16x2|bf16|f(?:16|32|64)|e4m3x2|e5m2x2|e2m1x2")
_MULTIPROCESSORS = 132
"""Of an H100; which of them runs a program is made up."""


@dataclass(frozen=True)
class Instruction:
    text: str
    guard: str  # the predicate it is under; "" for none
    wanted: bool  # what that must be
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]


def parsed(text: str) -> list[Instruction]:
    """The instructions of an assembly string, as TTIR holds it."""
    text = re.sub(r"\\([0-9A-Fa-f]{2})", lambda found: chr(int(found.group(1), 16)), text)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = []
    for part in text.split(";"):
        statement = " ".join(part.split()).lstrip("{} ")
        if not statement or statement.startswith(".reg"):
            continue
        guard = re.match(r"@(!?)\s*([\w%$]+)\s+", statement)
        plain = statement[guard.end() :] if guard else statement
        opcode, _, rest = plain.partition(" ")
        name, *modifiers = opcode.split(".")
        operands = tuple(o.strip() for o in re.findall(r"\{[^}]*\}|[^,{}]+", rest) if o.strip())
        predicate, wanted = (guard.group(2), not guard.group(1)) if guard else ("", True)
        found.append(Instruction(statement, predicate, wanted, name, tuple(modifiers), operands))
    return found


class _Registers:
    """What registers hold, by name; ``$0`` and on are the operands of the whole."""

    def __init__(self, machine: Machine, held: dict[str, Tensor]) -> None:
        self._machine = machine
        self.held = held

    def read(self, operand: str, kind: str) -> Tensor:
        if operand.startswith("{"):
            parts = [part.strip() for part in operand.strip("{}").split(",")]
            size = width(kind) // len(parts)
            whole = torch.zeros(1, dtype=torch.int64)
            for place, part in enumerate(parts):
                whole = whole | cut(self.read(part, f"b{size}"), size) << size * place
            return whole
        if operand in self.held:
            return self.held[operand]
        if operand.startswith("%"):
            return self._special(operand)
        return torch.tensor([_immediate(operand, kind)])

    def write(self, operand: str, bits: Tensor, kind: str, under: Tensor | None) -> None:
        if operand.startswith("{"):
            parts = [part.strip() for part in operand.strip("{}").split(",")]
            size = width(kind) // len(parts)
            for place, part in enumerate(parts):
                self.write(part, cut(bits >> size * place, size), f"b{size}", under)
        elif operand != "_":
            before = self.held.get(operand, torch.zeros(1, dtype=torch.int64))
            self.held[operand] = bits if under is None else torch.where(under, bits, before)

    def _special(self, name: str) -> Tensor:
        """Registers of the machine that are the same in all threads of a program."""
        x, y, z = self._machine.grid
        programs = self._machine.scope.programs
        known = {
            "%smid": programs % _MULTIPROCESSORS,
            "%nsmid": torch.tensor([_MULTIPROCESSORS]),
            "%ctaid.x": programs % x,
            "%ctaid.y": programs // x % y,
            "%ctaid.z": programs // (x * y),
            **{f"%nctaid.{axis}": torch.tensor([size]) for axis, size in zip("xyz", (x, y, z), strict=True)},
            **dict.fromkeys(("%clock", "%clock64", "%globaltimer"), torch.tensor([self._machine.stamp])),
        }
        if name not in known:
            raise UnknownInstructionError
        self._machine.stamp += "clock" in name or "timer" in name
        return known[name]


def _immediate(text: str, kind: str) -> int:
    """A constant as bits: ``0x1F``, ``-3``, ``0f3F800000``, ``1.5``."""
    if re.fullmatch(r"0[fF][0-9A-Fa-f]{8}|0[dD][0-9A-Fa-f]{16}", text):
        bits = int(text[2:], 16)
        return bits - (1 << 64) if bits >> 63 else bits
    if re.fullmatch(r"[+-]?\d+\.\d*(?:[eE][+-]?\d+)?", text) and kind in ("f32", "f64"):
        code, back = ("<f", "<I") if kind == "f32" else ("<d", "<q")
        return int(struct.unpack(back, struct.pack(code, float(text)))[0])
    if not re.fullmatch(r"[+-]?(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|\d+)U?", text):
        raise UnknownInstructionError
    value = int(text.rstrip("U"), 0)
    return value if width(kind) == 64 else value & ((1 << width(kind)) - 1)


def _execute(instruction: Instruction, registers: _Registers) -> None:
    if instruction.name in instructions.WITHOUT_EFFECT:
        return
    kinds = [m for m in instruction.modifiers if _TYPES.fullmatch(m)]
    if not kinds or not instruction.operands:
        raise UnknownInstructionError
    kind = kinds[-1]
    under = None
    if instruction.guard:
        under = (registers.read(instruction.guard, "pred") != 0) == instruction.wanted
    target, *others = instruction.operands
    if instruction.name == "selp":
        a, b = (registers.read(other, kind) for other in others[:2])
        result = torch.where(registers.read(others[2], "pred") != 0, a, b)
    else:
        shift = instruction.name in ("shl", "shr", "bfe", "bfi")
        sources = [registers.read(o, "u32" if shift and i else kind) for i, o in enumerate(others)]
        result = _computed(instruction, sources, kinds)
    wide = "wide" in instruction.modifiers
    registers.write(target, result, f"b{2 * width(kind)}" if wide else kinds[0], under)


def _computed(instruction: Instruction, sources: list[Tensor], kinds: list[str]) -> Tensor:
    kind = kinds[-1]
    if instruction.name == "cvt":
        return instructions.converted(sources, instruction.modifiers, kinds[0], kind)
    if instruction.name == "setp":
        compare = instructions.COMPARISONS.get(instruction.modifiers[0])
        if compare is None or len(sources) != 2:
            raise UnknownInstructionError
        read = instructions.floats if kind in elements.FLOATS else instructions.number
        return compare(*(read(source, kind) for source in sources)).long()
    work = instructions.INSTRUCTIONS.get(instruction.name)
    if work is None or len(kinds) != 1:
        raise UnknownInstructionError
    return work(sources, instruction.modifiers, kind)


# ---------------------------------------------------------------------------------- lanes and registers


def _loaded(tiles: list[Tile], first: int, pack: int) -> dict[str, Tensor]:
    """Registers of the operands: neighbours of fewer than 32 bits share one."""
    held: dict[str, Tensor] = {}
    for tile in tiles:
        lanes = [_bits(tile)] if pack == 1 else _neighbours(_bits(tile.full()), pack)
        own = elements.bits(tile.element)
        share = max(1, min(pack, 32 // max(own, 8)))
        for start in range(0, pack, share):
            whole = lanes[start]
            for place in range(1, share):
                whole = whole | lanes[start + place] << own * place
            held[f"${first + len(held)}"] = whole
    return held


def _neighbours(data: Tensor, pack: int) -> list[Tensor]:
    flat = data.reshape(data.shape[0], -1)
    missing = -flat.shape[1] % pack
    return list(torch.nn.functional.pad(flat, (0, missing)).unflatten(1, (-1, pack)).unbind(2))


def _bits(tile: Tile) -> Tensor:
    if tile.element in elements.FLOATS:
        raw = tile.data.contiguous().view(elements.MEMORY[elements.size(tile.element)])
        return cut(raw.to(torch.int64), elements.bits(tile.element))
    return cut(tile.data.to(torch.int64), max(elements.bits(tile.element), 8))


def _values(bits: Tensor, element: str) -> Tensor:
    if element in elements.FLOAT8:
        return cut(bits, 8).to(torch.uint8)
    if element not in elements.FLOATS:
        return elements.wrapped(bits, elements.bits(element))
    return instructions.floats(bits, element)


def _stored(registers: Mapping[str, Tensor], first: int, kind: Type, pack: int, rows: int) -> tuple[Tensor, int]:
    """The data of a result, and the number of the register after its own."""
    own = elements.bits(kind.element)
    share = max(1, min(pack, 32 // max(own, 8)))
    lanes = []
    for start in range(0, pack, share):
        whole = registers.get(f"${first + start // share}", torch.zeros(1, dtype=torch.int64))
        lanes += [whole >> own * place for place in range(share)]
    after = first + pack // share
    if pack == 1:
        whole = lanes[0] if lanes[0].dim() == len(kind.shape) + 1 else lanes[0].reshape(-1, *(1,) * len(kind.shape))
        return _values(whole, kind.element), after
    flat = torch.stack(torch.broadcast_tensors(*lanes), dim=-1)
    flat = flat.reshape(flat.shape[0], -1) if flat.dim() > 2 else flat.expand(rows, -1)
    count = kind.shape.numel() if isinstance(kind.shape, torch.Size) else torch.Size(kind.shape).numel()
    return _values(flat[:, :count].reshape(-1, *kind.shape), kind.element), after


def _inline_assembly(machine: Machine, op: Op, operands: list[Tile]) -> list[Tile] | Tile:
    if op.cache is None:
        text = re.search(r'"((?:[^"\\]|\\.)*)"', op.body)
        op.cache = parsed(text.group(1) if text else "")
    pack = int(op.attributes.get("packed_element", "1").split()[0])
    outputs = op.attributes.get("constraints", "").count("=")
    registers = _Registers(machine, _loaded(operands, outputs, pack))
    for instruction in op.cache:
        try:
            _execute(instruction, registers)
        except UnknownInstructionError:
            words = f"the checked executor does not model this PTX: {instruction.text}"
            raise machine.unsupported(op, words) from None
    results: list[Tile] = []
    register = 0
    for kind in op.result_types:
        data, register = _stored(registers.held, register, kind, pack, machine.scope.size)
        results.append(Tile(data, kind.shape, kind.element, poison=joined_poison(operands)))
    return results[0] if len(results) == 1 else results


OPS: dict[str, Handler] = {"tt.elementwise_inline_asm": _inline_assembly}
