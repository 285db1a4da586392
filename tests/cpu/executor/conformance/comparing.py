"""How far results are apart: in bits where an operation rounds once, in units of the last place elsewhere."""

import torch

from .samples import SAME_SIZE


def apart(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Distance in units of the last place, int64; any NaN equals any other, and 0 differs from -0 by one."""
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    if not got.dtype.is_floating_point:
        plain = SAME_SIZE[got.dtype.itemsize]
        return (got.view(plain) != expected.view(plain)).long()
    both_nan = is_nan(got) & is_nan(expected)
    a, b = places(got), places(expected)
    distance = torch.where((a < 0) == (b < 0), (a - b).abs(), a.abs().double().add(b.abs()).clamp(max=2e18).long())
    distance = torch.where(is_nan(got) ^ is_nan(expected), torch.full_like(distance, 1 << 62), distance)
    return distance.masked_fill(both_nan, 0)


def is_nan(values: torch.Tensor) -> torch.Tensor:
    return values.float().isnan() if values.dtype.itemsize == 1 else values.isnan()


def places(values: torch.Tensor) -> torch.Tensor:
    """Bits in the order of the values they stand for; -0 is just below 0."""
    bits = values.contiguous().view(SAME_SIZE[values.dtype.itemsize]).long()
    top = -(1 << (8 * values.dtype.itemsize - 1))
    return torch.where(bits < 0, top - bits - 1, bits)


def first_wrong(got: torch.Tensor, expected: torch.Tensor, ulps: int, inputs: list[torch.Tensor]) -> str:
    """A line about the first lane that is too far off; empty where none is."""
    distance = apart(got, expected)
    wrong = (distance > ulps).nonzero()
    if len(wrong) == 0:
        return ""
    at = tuple(wrong[0].tolist())
    shown = [tensor[at].item() for tensor in inputs if tensor.shape == got.shape]
    return f"{len(wrong)} of {got.numel()} lanes; {shown} gives {got[at].item()}, not {expected[at].item()} ({int(distance[at])} ulp)"
