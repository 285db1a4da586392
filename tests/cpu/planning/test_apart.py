"""Layouts whose strides are huge: every offset along a dim wraps in a few elements; and who is let alone by them."""

import pytest
import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

import tilewright as tw
from tilewright.errors import UnknownDim
from tilewright.records import Case
from tilewright.spec.virtual import APART


@triton.jit
def _scale(
    x, y, stride_xm, stride_xn, stride_ym, stride_yn, N,
    BLOCK: tl.constexpr, WIDE: tl.constexpr, TOLD_APART: tl.constexpr,
):  # fmt: skip
    """Rows in 64 bits; columns in as many only if WIDE."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, N, BLOCK):
        lanes = tl.arange(0, BLOCK)
        first = x + row * stride_xm + tl.cast(start, tl.int64) * stride_xn
        if WIDE:
            lanes = lanes.to(tl.int64)
        value = tl.load(first + lanes * stride_xn, mask=start + lanes < N)
        tl.store(y + row * stride_ym + (start + lanes) * stride_yn, value * 2, mask=start + lanes < N)


@triton.jit
def _scale_in_32_bits(x, y, stride_xm, stride_xn, stride_ym, stride_yn, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, N, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride_xm + lanes * stride_xn, mask=lanes < N)
        tl.store(y + row * stride_ym + lanes.to(tl.int64) * stride_yn, value * 2, mask=lanes < N)


def planned(operator):
    return [result.case for result in tw.debug(operator, shrink_seconds=0, cause_seconds=0).results]


def of_layout(cases, layout):
    return [case.arguments for case in cases if case.layout == layout]


@tw.operator(reference=lambda x: 2 * x, where="M <= 64")
def in_32_bits(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    y = torch.empty(x.shape)
    if x.numel():
        _scale_in_32_bits[(x.shape[0],)](x, y, *x.stride(), *y.stride(), x.shape[1], 32)
    return y


def test_an_offset_in_32_bits_is_found_where_no_size_that_is_run_makes_it_wrap():
    report = tw.debug(in_32_bits)
    overflow = next(f for f in report.errors if f.kind == "offset-overflow")
    assert overflow.source.startswith("value = tl.load(")
    assert overflow.case.layout == "N-apart"
    assert "lanes.to(tl.int64) * stride_xn" in overflow.remedy
    assert {f.case.layout for f in report.errors} == {"N-apart"}


def scaling(is_told_apart, **declared):
    @tw.operator(reference=lambda x: 2 * x, **declared)
    def scaled(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
        y = torch.empty(x.shape)
        wide = is_told_apart and 64 * x.stride(1) >= 2**31
        if x.numel():
            _scale[(x.shape[0],)](x, y, *x.stride(), *y.stride(), x.shape[1], 32, wide, is_told_apart)
        return y

    return scaled


def test_within_a_tile_32_bits_are_enough_unless_the_launcher_tells_such_strides_apart():
    plain, told = planned(scaling(False)), planned(scaling(True))
    assert [sizes["N"] for sizes in of_layout(plain, "N-apart")] == [129]
    assert [sizes["N"] for sizes in of_layout(told, "N-apart")] == [129, 32]
    assert not tw.debug(scaling(False)).errors
    assert not tw.debug(scaling(True)).errors


def test_who_declares_small_tensors_or_takes_no_strides_is_let_alone():
    assert not any(case.layout.endswith("-apart") for case in planned(scaling(False, where="M * N < 2**30")))

    @tw.operator(reference=lambda x: 2 * x)
    def contiguous(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
        return in_32_bits.run(x.contiguous())

    assert not any(case.layout.endswith("-apart") for case in planned(contiguous))


@tw.operator(values={"i": tw.values.indices("M")}, dtypes=("bf16",))
def gathered(x: Float[Tensor, "M 2*N"], i: Int64[Tensor, "M N"], b: Float[Tensor, "M"]) -> Float[Tensor, "M N"]:
    return x


def test_a_dim_lies_apart_in_data_of_several_dims_and_its_values_are_those_of_any_layout():
    x, i, b = gathered.make_inputs(Case("gathered", {"M": 5, "N": 3}, "bf16", "M-apart")).args
    usual = gathered.make_inputs(Case("gathered", {"M": 5, "N": 3}, "bf16")).args
    assert x.stride(1) == 1
    assert APART <= 4 * x.stride(0) < APART + 1024
    assert x.stride(0) % 64 == 0
    assert (i.stride(), b.stride()) == ((3, 1), (1,))
    assert all(torch.equal(laid_out, plain) for laid_out, plain in zip((x, i, b), usual, strict=True))
    with pytest.raises(UnknownDim, match="no dim 'K'"):
        gathered.make_inputs(Case("gathered", {"M": 5, "N": 3}, "bf16", "K-apart"))
