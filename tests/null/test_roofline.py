"""The roofline's two roofs, and the dtypes it refuses."""

import dataclasses
import math

import pytest

from tilewright.errors import UsageError
from tilewright.hardware import find, roofline

# A chip with round numbers, so that every result is exact.
ROUND = dataclasses.replace(find("h100"), memory_bandwidth=2.0**40, peak={"bf16": 2.0**50, "fp32": 2.0**46})


def test_above_the_ridge_arithmetic_binds():
    found = roofline(ROUND, flops=2.0**52, bytes=2.0**40, dtype="bf16")
    assert (found.compute_seconds, found.memory_seconds, found.seconds) == (4.0, 1.0, 4.0)
    assert (found.bound, found.intensity, found.ridge) == ("compute", 4096.0, 1024.0)


def test_below_the_ridge_memory_binds():
    found = roofline(ROUND, flops=2.0**48, bytes=2.0**42, dtype="bf16")
    assert (found.compute_seconds, found.memory_seconds, found.seconds) == (0.25, 4.0, 4.0)
    assert (found.bound, found.intensity) == ("memory", 64.0)


def test_the_dtype_moves_the_ridge():
    assert roofline(ROUND, flops=2.0**48, bytes=2.0**40, dtype="bf16").bound == "memory"
    found = roofline(ROUND, flops=2.0**48, bytes=2.0**40, dtype="fp32")
    assert (found.bound, found.compute_seconds, found.ridge) == ("compute", 4.0, 64.0)


def test_a_square_matmul_on_an_h200():
    found = roofline(find("h200"), flops=2 * 4096**3, bytes=3 * 2 * 4096**2, dtype="bf16")
    assert found.seconds == pytest.approx(138.912e-6, rel=1e-5)
    assert found.memory_seconds == pytest.approx(20.9715e-6, rel=1e-5)
    assert (found.bound, found.ridge) == ("compute", pytest.approx(206.125))


@pytest.mark.parametrize("name", ["a100", "h100"])
def test_no_traffic_and_no_arithmetic(name):
    still = roofline(find(name), flops=1e9, bytes=0, dtype="fp16")
    assert (still.bound, still.intensity, still.memory_seconds) == ("compute", math.inf, 0.0)
    copy = roofline(find(name), flops=0, bytes=1e9, dtype="fp16")
    assert (copy.bound, copy.intensity, copy.compute_seconds) == ("memory", 0.0, 0.0)


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("torch.bfloat16", "bf16"),
        ("float16", "fp16"),
        ("half", "fp16"),
        ("float32", "fp32"),
        ("FP32", "fp32"),
        ("tf32", "tf32"),
        ("torch.float8_e4m3fn", "fp8"),
        ("fp8e4nv", "fp8"),
        ("float64", "fp64"),
        ("torch.int8", "int8"),
    ],
)
def test_spellings_of_a_dtype(spelling, key):
    target = find("h100")
    assert roofline(target, flops=target.peak[key], bytes=0, dtype=spelling).seconds == 1.0


@pytest.mark.parametrize(("name", "dtype"), [("a100", "fp8"), ("mi350x", "tf32"), ("h100", "int4"), ("h100", "")])
def test_a_dtype_without_a_unit_is_refused(name, dtype):
    target = find(name)
    with pytest.raises(UsageError) as caught:
        roofline(target, flops=1, bytes=1, dtype=dtype)
    assert caught.value.what == f"{target.title} has no peak rate for {dtype}"
    assert ", ".join(target.peak) in caught.value.remedy


@pytest.mark.parametrize(("flops", "bytes_"), [(-1, 1), (1, -1), (math.nan, 1), (1, math.inf)])
def test_impossible_quantities_are_refused(flops, bytes_):
    with pytest.raises(UsageError):
        roofline(find("h100"), flops=flops, bytes=bytes_, dtype="fp16")
