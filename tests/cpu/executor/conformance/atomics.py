"""Atomics: memory and what was returned agree with one serial order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import kernels_atomics as k
from .launching import run
from .samples import DTYPES, random

PLACES = 5
LANES = 128
_NOTES = ("nondeterministic", "order-dependent", "uninitialized-read")


@dataclass(frozen=True)
class AtomicCase:
    name: str
    op: Any
    dtype: str
    function: Callable[[Any, Any], Any]

    def __str__(self) -> str:
        return f"{self.name}-{self.dtype}"

    def check(self, seed: int) -> str:
        rng = np.random.default_rng(seed)
        where = torch.from_numpy(rng.integers(0, PLACES, LANES).astype("int32"))
        live = torch.from_numpy((rng.random(LANES) < 0.8).astype("int8"))
        start, values = self._drawn(PLACES, rng), self._drawn(LANES, rng)
        memory, old = start.clone(), torch.zeros(LANES, dtype=start.dtype)
        run(k.atomic_kernel, (2,), memory, where, values, live, old, OP=self.op, BLOCK=LANES // 2, allowed=_NOTES)
        return serial(start, memory, old, where, values, live != 0, self.function)

    def _drawn(self, count: int, rng: np.random.Generator) -> torch.Tensor:
        if DTYPES[self.dtype].is_floating_point:  # small whole numbers: sums are exact in any order
            return torch.from_numpy(rng.integers(-4, 5, count)).to(DTYPES[self.dtype])
        return random(self.dtype, count, rng)


def serial(
    start: torch.Tensor,
    memory: torch.Tensor,
    old: torch.Tensor,
    where: torch.Tensor,
    values: torch.Tensor,
    live: torch.Tensor,
    function: Callable[[Any, Any], Any],
) -> str:
    """Looks for an order of the lanes of each place in which every lane found what it returned."""
    for place in range(len(start)):
        lanes = [i for i in range(len(where)) if live[i] and where[i] == place]
        if function in (np.maximum, np.minimum) and values.dtype.is_floating_point:
            # Triton makes two atomics on integers of it: one for the lanes at least 0, one for the others.
            lanes.sort(key=lambda lane: (bool(values[lane] < 0), lane))
        state = as_numpy(start[place : place + 1])
        for lane in lanes:  # the executor's order is that of programs and lanes
            found, value = (as_numpy(t[lane : lane + 1]) for t in (old, values))
            if found[0] != state[0]:
                return f"lane {lane} found {found[0]}, where {state[0]} was"
            state = np.asarray(function(state, value)).astype(state.dtype)
        if as_numpy(memory[place : place + 1])[0] != state[0]:
            return f"place {place} ends as {memory[place]}, not {state[0]}"
    return ""


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def cases() -> list[AtomicCase]:
    found = []
    for name in ("int32", "int64", "uint32", "uint64"):
        found += [
            AtomicCase("add", k.add, name, np.add),
            AtomicCase("max", k.most, name, np.maximum),
            AtomicCase("min", k.fewest, name, np.minimum),
            AtomicCase("and", k.both, name, np.bitwise_and),
            AtomicCase("or", k.either, name, np.bitwise_or),
            AtomicCase("xor", k.differing, name, np.bitwise_xor),
            AtomicCase("xchg", k.exchanged, name, lambda a, b: b),
        ]
    found += [AtomicCase("add", k.add, name, np.add) for name in ("fp16", "bf16", "fp32", "fp64")]
    found += [AtomicCase("max", k.most, "fp32", np.maximum), AtomicCase("min", k.fewest, "fp32", np.minimum)]
    found += [AtomicCase("xchg", k.exchanged, name, lambda a, b: b) for name in ("fp32", "fp64")]
    return found


def check_swap(dtype: str, seed: int) -> str:
    """Compare and swap, with numbers so few that many succeed."""
    rng = np.random.default_rng(seed)
    where = torch.from_numpy(rng.integers(0, PLACES, LANES).astype("int32"))
    start, expected, values = (
        torch.from_numpy(rng.integers(0, 3, n)).to(DTYPES[dtype]) for n in (PLACES, LANES, LANES)
    )
    memory, old = start.clone(), torch.zeros(LANES, dtype=DTYPES[dtype])
    run(k.swap_kernel, (2,), memory, where, expected, values, old, BLOCK=LANES // 2, allowed=_NOTES)
    pairs = torch.stack([expected.double(), values.double()], 1)
    state = start.tolist()
    for lane, place in enumerate(where.tolist()):
        if old[lane] != state[place]:
            return f"lane {lane} found {old[lane]}, where {state[place]} was"
        if state[place] == pairs[lane, 0]:
            state[place] = values[lane].item()
    return "" if memory.tolist() == state else f"{memory.tolist()}, not {state}"


def check_scalar(dtype: str) -> str:
    """Programs that add their number at one address."""
    memory, old = torch.zeros(1, dtype=DTYPES[dtype]), torch.zeros(9, dtype=DTYPES[dtype])
    run(k.scalar_kernel, (9,), memory, old, OP=k.add, allowed=_NOTES)
    return "" if memory.item() == 36 and old.tolist() == [i * (i - 1) // 2 for i in range(9)] else f"{memory}, {old}"
