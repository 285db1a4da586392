"""Arithmetic that costs more than it should: fp64 that nobody asked for, and 64-bit divisions in a loop."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tilewright.records import Advice
from tilewright.tune.advice.evidence import Evidence
from tilewright.tune.advice.ptx import Instruction

_DOUBLE = ("add.", "sub.", "mul.", "fma.", "div.", "rcp.", "sqrt.", "ex2.", "neg.f64", "max.f64", "min.f64")
_DIVISION = ("div.s64", "div.u64", "rem.s64", "rem.u64")


def check(seen: Evidence) -> Iterator[Advice]:
    assert seen.texts is not None
    if not any(tensor.dtype in (torch.float64, torch.complex128) for tensor in seen.launch.tensors.values()):
        doubles = [i for i in seen.texts.ptx if i.opcode.startswith(_DOUBLE) and i.opcode.endswith(".f64")]
        if doubles:
            yield _fp64(seen, doubles)
    for number in dict.fromkeys(i.origin for i in _divisions(seen)):
        same = [i for i in _divisions(seen) if i.origin == number]
        yield seen.advice(
            "wide-index",
            seen.texts.place.get(number or 0),
            f"{len(same)} 64-bit {'division' if len(same) == 1 else 'divisions'} a thread in each iteration",
            remedy="divide in 32 bits where the numbers fit (.to(tl.int32)), or once before the loop",
            cost="the chip has no instruction for it: a routine of some hundred instructions, or, where a test at run time finds "
            "both numbers small, one of 32 bits behind a branch",
            instructions=len(same),
        )


def _divisions(seen: Evidence) -> list[Instruction]:
    assert seen.texts is not None
    return [i for i in seen.texts.ptx if i.opcode in _DIVISION and i.loop is not None]


def _fp64(seen: Evidence, doubles: list[Instruction]) -> Advice:
    assert seen.texts is not None
    return seen.advice(
        "float64-arithmetic",
        seen.texts.place.get(doubles[0].origin or 0),
        f"{len(doubles)} fp64 instructions a thread, and no tensor of the launch is fp64",
        remedy="find what makes it so (tl.float64, a constant beyond fp32's range), and cast it: .to(tl.float32)",
        cost="half the rate of fp32 at best (a sixty-fourth on GeForce boards), and two registers a number",
        instructions=len(doubles),
    )
