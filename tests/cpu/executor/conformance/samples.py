"""Inputs for single operations: the edges of a dtype in every pairing, then random ones."""

from collections.abc import Callable

import numpy as np
import torch

INTEGERS = {
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
}
FLOATS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
FLOAT8 = {"fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn}
DTYPES = {**INTEGERS, **FLOATS, **FLOAT8, "bool": torch.bool}
SAME_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def edges(name: str) -> torch.Tensor:
    """Values at which operations of a dtype go wrong."""
    dtype = DTYPES[name]
    if name == "bool":
        return torch.tensor([False, True])
    if name in INTEGERS:
        low, high = (int(n) for n in (np.iinfo(name).min, np.iinfo(name).max))
        values = [0, 1, 2, 3, 7, high, high - 1, high // 2, high // 2 + 1, low, low + 1, low // 2]
        values += [-1, -2, -7] if low < 0 else [high // 3, high // 5]
        return torch.from_numpy(np.array(values, dtype=object).astype(name))
    least = torch.finfo(dtype).smallest_normal
    largest = torch.finfo(dtype).max
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1 / 3, largest, -largest, least, -least, least / 2]
    values += [float("nan")] if name == "fp8e4nv" else [float("inf"), -float("inf"), float("nan")]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def random(name: str, count: int, rng: np.random.Generator) -> torch.Tensor:
    """Half of them any bits, half of them of a moderate size."""
    dtype = DTYPES[name]
    if name == "bool":
        return torch.from_numpy(rng.integers(0, 2, count).astype(bool))
    size = dtype.itemsize
    bits = torch.from_numpy(rng.integers(0, 256, count * size, dtype=np.uint8)).view(SAME_SIZE[size])
    if name in INTEGERS:
        low, high = np.iinfo(name).min, np.iinfo(name).max
        small = torch.from_numpy(rng.integers(max(low, -100), min(high, 100), count).astype(name))
        values = bits.numpy().view(name)
        return torch.from_numpy(np.where(rng.random(count) < 0.5, values, small.numpy()))
    moderate = torch.from_numpy(rng.normal(size=count) * 4).to(dtype)
    some = torch.from_numpy(rng.random(count) < 0.5)
    return torch.where(some, bits, moderate.view(SAME_SIZE[size])).view(dtype)


def moderate(name: str, count: int, rng: np.random.Generator) -> torch.Tensor:
    """Values that sums and products of many of them do not carry out of range."""
    if name in INTEGERS or name == "bool":
        return random(name, count, rng)
    return torch.from_numpy(rng.normal(size=count)).to(DTYPES[name])


def operands(names: tuple[str, ...], count: int, seed: int) -> list[torch.Tensor]:
    """``count`` lanes for each operand: all pairings of edges first, as far as they fit."""
    rng = np.random.default_rng(seed)
    grids = torch.meshgrid(*(torch.arange(len(edges(name))) for name in names), indexing="ij")
    order = torch.from_numpy(rng.permutation(grids[0].numel()))[: max(count - count // 4, 1)]
    found = []
    for name, grid in zip(names, grids, strict=True):
        chosen = np_take(edges(name), grid.reshape(-1)[order])
        rest = random(name, count - len(chosen), rng)
        found.append(joined(chosen, rest))
    return found


def np_take(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Indexing by bits: torch has no kernels for some unsigned and 8-bit types."""
    plain = SAME_SIZE[values.dtype.itemsize]
    return values.view(plain)[index].view(values.dtype)


def joined(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    plain = SAME_SIZE[first.dtype.itemsize]
    return torch.cat([first.view(plain), second.view(plain)]).view(first.dtype)


def without_subnormals(values: torch.Tensor) -> torch.Tensor:
    """fp32 as instructions that flush see it: subnormal numbers are zeros of their sign."""
    if values.dtype != torch.float32:
        return values
    return torch.where(values.abs() < torch.finfo(torch.float32).smallest_normal, values * 0.0, values)


def flushing(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *tensors: without_subnormals(function(*map(without_subnormals, tensors)))
