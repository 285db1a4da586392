"""Dims and dtypes read from annotations, and what they are in a case."""

from typing import Any

import jaxtyping
import pytest
import torch
from jaxtyping import (
    BFloat16,
    Bool,
    Complex,
    Float,
    Float8e4m3fn,
    Float16,
    Float32,
    Int,
    Int8,
    Int32,
    Num,
    Shaped,
    UInt,
    UInt8,
)
from torch import Tensor

from tilewright.errors import AnnotationError, UnknownDim, UsageError
from tilewright.spec import dtypes
from tilewright.spec.shapes import Dim, TensorSpec, is_tensor_annotation, read_returns, read_tensor


def shape(dims, **sizes):
    return read_tensor(Float[Tensor, dims], "f(x)").shape(sizes)


@pytest.mark.parametrize(
    ("dims", "sizes", "expected"),
    [
        ("M N", {"M": 3, "N": 5}, (3, 5)),
        ("", {}, ()),
        ("3 M 1", {"M": 2}, (3, 2, 1)),
        ("rows=4 columns=N", {"N": 2}, (4, 2)),
        ("K+1", {"K": 7}, (8,)),
        ("2*K-1 K//4", {"K": 8}, (15, 2)),
        ("min(M,N) max(M,N)", {"M": 3, "N": 5}, (3, 5)),
        ("*batch M", {"batch": (2, 3), "M": 4}, (2, 3, 4)),
        ("*batch M", {"batch": [], "M": 4}, (4,)),
        ("*batch M", {"batch": 2, "M": 4}, (2, 4)),
        ("M *middle N", {"M": 1, "middle": (0,), "N": 2}, (1, 0, 2)),
    ],
)
def test_shapes_of_a_case(dims, sizes, expected):
    assert shape(dims, **sizes) == expected


@pytest.mark.parametrize(
    ("dims", "symbols"),
    [
        ("M N M", ("M", "N")),
        ("K+1 2*J*K", ("K", "J")),
        ("*batch 3", ("batch",)),
        ("min(M,N)", ("M", "N")),
        ("rows=R columns=4", ("R",)),
        ("", ()),
    ],
)
def test_symbols_are_the_names_that_a_case_must_size(dims, symbols):
    assert read_tensor(Float[Tensor, dims], "f(x)").symbols == symbols


@pytest.mark.parametrize("dims", ["...", "... N", "#M N", "*#batch N", "_ N", "_M", "?M", "{n} M"])
def test_dims_without_a_size_to_choose_are_refused(dims):
    with pytest.raises(AnnotationError, match=r"^f\(x\): dim .* has no size to choose") as caught:
        read_tensor(Float[Tensor, dims], "f(x)")
    assert "name, a number or an expression" in caught.value.remedy


@pytest.mark.parametrize("word", ["M+", "M-*", "*M+1"])
def test_dims_that_are_no_expression_are_refused(word):
    class Annotation:  # jaxtyping itself would refuse some of them
        dim_str = word

    with pytest.raises(AnnotationError, match="f\\(x\\): dim"):
        read_tensor(Annotation, "f(x)")


def test_a_name_without_a_size_is_named():
    with pytest.raises(UnknownDim, match="'K'"):
        shape("K+1", M=3)
    with pytest.raises(UnknownDim, match="batch"):
        shape("*batch", M=3)


@pytest.mark.parametrize("size", ["many", None, (2, 3)])
def test_what_is_no_size_is_refused_in_words(size):
    with pytest.raises(UsageError, match="dim 'M' is no size with M="):
        shape("M", M=size)


@pytest.mark.parametrize("text", ["__import__('os')", "open('x')", "M.__class__"])
def test_expressions_see_nothing_but_dims(text):
    with pytest.raises((UnknownDim, UsageError)):
        Dim(text).sizes({"M": 1})


@pytest.mark.parametrize(
    ("annotation", "dtype", "drawn"),
    [
        (Float[Tensor, "M"], None, torch.float16),
        (Num[Tensor, "M"], None, torch.float16),
        (Shaped[Tensor, "M"], None, torch.float16),
        (Float32[Tensor, "M"], "fp32", torch.float32),
        (Float16[Tensor, "M"], "fp16", torch.float16),
        (BFloat16[Tensor, "M"], "bf16", torch.bfloat16),
        (Float8e4m3fn[Tensor, "M"], "fp8e4m3", torch.float8_e4m3fn),
        (Int[Tensor, "M"], "int64", torch.int64),
        (Int32[Tensor, "M"], "int32", torch.int32),
        (Int8[Tensor, "M"], "int8", torch.int8),
        (UInt[Tensor, "M"], "uint8", torch.uint8),
        (UInt8[Tensor, "M"], "uint8", torch.uint8),
        (Bool[Tensor, "M"], "bool", torch.bool),
    ],
)
def test_dtypes_of_annotations(annotation, dtype, drawn):
    spec = read_tensor(annotation, "f(x)")
    assert spec.dtype == dtype
    assert spec.torch_dtype("fp16") == drawn


def test_floats_of_a_case_without_a_dtype_are_fp32():
    assert read_tensor(Float[Tensor, "M"], "f(x)").torch_dtype(None) == torch.float32


@pytest.mark.parametrize("annotation", [Complex[Tensor, "M"], jaxtyping.Key[Tensor, "M"]])
def test_dtypes_that_cannot_be_drawn_are_refused(annotation):
    with pytest.raises(AnnotationError, match=r"f\(x\): cannot draw values of dtype"):
        read_tensor(annotation, "f(x)")


def test_a_bare_tensor_says_nothing_of_its_dims():
    with pytest.raises(AnnotationError, match="does not say the dims") as caught:
        read_tensor(Tensor, "f(x)")
    assert 'Float[Tensor, "M N"]' in caught.value.remedy


@pytest.mark.parametrize("annotation", [Float[Tensor, "M"] | None, None | Float[Tensor, "M"]])
def test_an_optional_tensor_is_known_as_one(annotation):
    assert is_tensor_annotation(annotation)
    assert read_tensor(annotation, "f(x)") == TensorSpec((Dim("M"),), None, optional=True)


@pytest.mark.parametrize("annotation", [int, str, float | None, Any, list[int], "x"])
def test_other_annotations_are_no_tensors(annotation):
    assert not is_tensor_annotation(annotation)


@pytest.mark.parametrize("annotation", [Tensor, Tensor | None, Float[Tensor, "M"]])
def test_tensors_are_tensors(annotation):
    assert is_tensor_annotation(annotation)


def test_results():
    assert read_returns(Any, "f") is None
    assert read_returns(None, "f") == ()
    assert read_returns(type(None), "f") == ()
    assert [str(spec) for spec in read_returns(Float[Tensor, "M N"], "f")] == ["Float[M N]"]
    both = read_returns(tuple[Float16[Tensor, "M"], Tensor], "f")
    assert [spec and spec.dtype for spec in both] == ["fp16", None]
    assert both[1] is None


def test_a_result_of_a_family_of_dtypes_promises_none():
    assert [spec.dtype for spec in read_returns(tuple[Int[Tensor, "M"], UInt[Tensor, "M"]], "f")] == [None, None]
    assert [spec.dtype for spec in read_returns(tuple[Int32[Tensor, "M"], Bool[Tensor, "M"]], "f")] == ["int32", "bool"]


# ---------------------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("bf16", torch.bfloat16),
        ("bfloat16", torch.bfloat16),
        ("torch.float16", torch.float16),
        ("half", torch.float16),
        ("float", torch.float32),
        ("fp8", torch.float8_e4m3fn),
        ("fp8e5m2", torch.float8_e5m2),
        ("uint16", torch.uint16),
    ],
)
def test_names_of_dtypes(name, dtype):
    assert dtypes.to_torch(name) == dtype


@pytest.mark.parametrize("name", ["fp12", "tensor", "", "Tensor"])
def test_unknown_dtypes_are_refused_with_those_there_are(name):
    with pytest.raises(AnnotationError, match=f"unknown dtype {name!r}") as caught:
        dtypes.to_torch(name)
    assert "bf16" in caught.value.remedy


def test_short_names_go_both_ways():
    assert all(dtypes.short(dtype) == name and dtypes.to_torch(name) == dtype for name, dtype in dtypes.TORCH.items())
    assert dtypes.short(torch.complex64) == "complex64"


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [
        (torch.float64, 2.0**-53),
        (torch.float32, 2.0**-24),
        (torch.float16, 2.0**-11),
        (torch.bfloat16, 2.0**-8),
        (torch.float8_e4m3fn, 2.0**-4),
        (torch.float8_e5m2, 2.0**-3),
        (torch.float8_e4m3fnuz, 2.0**-4),
        (torch.int32, 0.0),
        (torch.bool, 0.0),
    ],
)
def test_unit_roundoffs(dtype, unit):
    assert dtypes.roundoff(dtype) == unit
    if dtype.is_floating_point:
        assert dtypes.roundoff(dtype) == torch.finfo(dtype).eps / 2
