"""SASS, what the chip really runs: which operation of the TTIR each instruction comes from, and whether it repeats."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilewright.launch.pipeline import NUMBERS, number_at

_LINE = re.compile(r'//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"^\s*([.$\w]+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)(.*)")
_TARGET = re.compile(r"`\(([.$\w]+)\)")
_ENDS = ("BRA", "EXIT", "RET", "BRX", "JMP")


@dataclass(frozen=True, slots=True)
class Instruction:
    opcode: str
    origin: int | None
    in_loop: bool = False


@dataclass(slots=True)
class _Block:
    first: int
    next: list[int]
    targets: list[str]
    falls_through: bool = True


def read(text: str) -> tuple[Instruction, ...]:
    """The instructions of ``nvdisasm --print-code --print-line-info``, in order."""
    found: list[Instruction] = []
    blocks = [_Block(0, [], [])]
    labels: dict[str, int] = {}
    origin: int | None = None
    for row in text.splitlines():
        if place := _LINE.search(row):
            origin = number_at(int(place[2])) if place[1].rpartition("/")[2] == NUMBERS else None
        elif label := _LABEL.match(row):
            blocks.append(_Block(len(found), [], []))
            labels[label[1]] = len(blocks) - 1
        elif match := _INSTRUCTION.match(row):
            predicate, opcode, operands = match.groups()
            found.append(Instruction(opcode, origin))
            if opcode.split(".")[0] in _ENDS:
                target = _TARGET.search(operands)
                blocks[-1].targets += [target[1]] if target else []
                blocks[-1].falls_through = predicate is not None
                blocks.append(_Block(len(found), [], []))
    _link(blocks, labels)
    marks = _repeated(blocks, len(found))
    return tuple(replace(one, in_loop=mark) for one, mark in zip(found, marks, strict=True))


def _link(blocks: list[_Block], labels: dict[str, int]) -> None:
    for number, block in enumerate(blocks):
        block.next = [labels[target] for target in block.targets if target in labels]
        if block.falls_through and number + 1 < len(blocks):
            block.next.append(number + 1)


def _repeated(blocks: list[_Block], instructions: int) -> list[bool]:
    """For each instruction, whether its block can be reached from itself.

    By what follows what, not by where it stands: waiting loops are put far behind the code that they belong to.
    """
    marks = [False] * instructions
    ends = [block.first for block in blocks[1:]] + [instructions]
    for number, (block, end) in enumerate(zip(blocks, ends, strict=True)):
        if end > block.first and _reaches(blocks, number):
            marks[block.first : end] = [True] * (end - block.first)
    return marks


def _reaches(blocks: list[_Block], start: int) -> bool:
    seen: set[int] = set()
    waiting = list(blocks[start].next)
    while waiting:
        number = waiting.pop()
        if number == start:
            return True
        if number not in seen:
            seen.add(number)
            waiting += blocks[number].next
    return False
