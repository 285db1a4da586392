"""Values written as Python text come back bit for bit."""

import base64
import math
import zlib
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from tilewright.debug.repro import literals
from tilewright.debug.repro.literals import elements, literal
from tilewright.errors import UsageError

HARNESS = Path(literals.__file__).with_name("harness.py").read_text().partition("# --- copied from here")[2]
NAMES = {"torch": torch, "base64": base64, "zlib": zlib, "TorchDispatchMode": TorchDispatchMode}
exec(HARNESS, NAMES)
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.int8]


def same_bits(one, other):
    same = one.dtype == other.dtype and one.shape == other.shape
    return same and one.contiguous().numpy(force=True).tobytes() == other.contiguous().numpy(force=True).tobytes()


def read_back(tensor):
    made = eval(elements(tensor), NAMES)
    return made.view(torch.uint8) if made.dim() else made.reshape(1).view(torch.uint8)


def bits(tensor):
    return tensor.contiguous().reshape(tensor.shape or (1,)).view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(data=st.binary(min_size=8, max_size=64))
def test_any_bits_come_back(dtype, data):
    raw = torch.frombuffer(bytearray(data[: len(data) // 8 * 8]), dtype=torch.uint8).view(dtype)
    assert torch.equal(read_back(raw), bits(raw))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(-0.0),
        torch.empty(0, 3),
        torch.rand(3, 4, 5) < 0.5,
        torch.full((70, 70), math.nan),
        torch.randn(50, 60, generator=torch.Generator().manual_seed(1)),
        torch.zeros(5, dtype=torch.bool),
    ],
    ids=["minus zero", "empty", "bools", "all alike", "packed", "false"],
)
def test_other_tensors_come_back(tensor):
    assert torch.equal(read_back(tensor), bits(tensor))


def test_of_a_tensor_that_takes_no_memory_only_its_elements_are_written():
    huge = torch.zeros(1 << 27, dtype=torch.int8)
    huge[5:9] = torch.tensor([1, 2, 3, 4])
    huge[-1] = 7
    text = elements(huge)
    assert len(text) < 400
    assert torch.equal(eval(text, NAMES), huge)


def test_plain_values_and_others():
    value = {"a": (1, -2.5, None), "b": [True, math.inf, torch.float16]}
    assert eval(literal(value), {"torch": torch}) == value
    with pytest.raises(UsageError, match="a script cannot hold"):
        literal(object())
