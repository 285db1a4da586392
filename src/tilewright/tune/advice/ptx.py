"""PTX, read into instructions that know which operation of the TTIR they come from, and which loop they are in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilewright.launch.pipeline import NUMBERS, number_at

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_LABEL = re.compile(r"([$\w]+):$")
_INSTRUCTION = re.compile(r"(?:@!?%?\w+\s+)?([a-z][\w.:]*)\s*(.*)")
_WIDTH = re.compile(r"(?:\.v(\d))?\.[bfsu](\d+)$")
_COPY_SIZE = re.compile(r"\],\s*(0x[0-9a-fA-F]+|\d+)")
_MATRIX = ("mma.sync", "wgmma.mma_async", "tcgen05.mma", "mma.sp")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    ``origin`` is the number of the operation it comes from (None where that is lost), ``loop`` numbers the innermost
    loop around it (None outside of all).
    """

    opcode: str
    operands: str
    origin: int | None
    loop: int | None = None

    @property
    def is_matrix(self) -> bool:
        return self.opcode.startswith(_MATRIX)

    @property
    def global_bytes(self) -> int | None:
        """Bytes that one thread moves between global memory and itself or shared memory; None for anything else."""
        if self.opcode.startswith("cp.async.c"):
            size = _COPY_SIZE.search(self.operands.partition("[")[2].partition("[")[2])
            return int(size[1], 0) if size else None
        if not self.opcode.startswith(("ld.", "st.")) or ".global" not in self.opcode:
            return None
        width = _WIDTH.search(self.opcode)
        return int(width[1] or 1) * int(width[2]) // 8 if width else None


def read(text: str) -> tuple[Instruction, ...]:
    """The instructions of all functions, in the order of the text."""
    numbered = {number for number, file in _FILE.findall(text) if file.rpartition("/")[2] == NUMBERS}
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    origin: int | None = None
    for line in text.splitlines():
        line = line.partition("//")[0].strip(" \t{}")
        if place := _LOC.match(line):
            origin = number_at(int(place[2])) if place[1] in numbered else None
        elif label := _LABEL.match(line):
            labels[label[1]] = len(found)
        elif match := _INSTRUCTION.match(line):
            opcode, operands = match[1], match[2].rstrip("; ")
            target = labels.get(operands.split()[-1]) if opcode.startswith("bra") and operands else None
            if target is not None:
                loops.append((target, len(found)))
            found.append(Instruction(opcode, operands, origin))
    return _with_loops(found, loops)


def _with_loops(found: list[Instruction], loops: list[tuple[int, int]]) -> tuple[Instruction, ...]:
    """Marks what lies between a label and a branch back to it; the widest loops first, so that the innermost stays."""
    marks: list[int | None] = [None] * len(found)
    for number, (first, last) in enumerate(sorted(loops, key=lambda span: span[0] - span[1])):
        marks[first : last + 1] = [number] * (last + 1 - first)
    return tuple(replace(one, loop=mark) for one, mark in zip(found, marks, strict=True))
