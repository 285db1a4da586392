"""What is read off a kernel and its launches: which size has which block, whatever anything is called."""

import pytest
import torch
import triton
import triton.language as tl

import tilewright as tw
from tilewright.debug.planning import naming
from tilewright.debug.planning.probing import Trait, probe, traits
from tilewright.hardware.targets import find


@triton.jit
def _tiles(a, b, total, wide, deep, P: tl.constexpr, Q: tl.constexpr, R: tl.constexpr):
    i = tl.program_id(0) * P + tl.arange(0, P)
    j = tl.program_id(1) * Q + tl.arange(0, Q)
    acc = tl.zeros((P, Q), tl.float32)
    for start in range(0, tl.cdiv(deep, R)):
        k = start * R + tl.arange(0, R)
        acc += tl.sum(tl.load(a + i[:, None] * deep + k[None, :], mask=(i[:, None] < total) & (k[None, :] < deep)), 1)[
            :, None
        ]
    tl.store(b + i[:, None] * wide + j[None, :], acc, mask=(i[:, None] < total) & (j[None, :] < wide))


def tiles(a, wide):
    b = torch.empty(a.shape[0], wide)
    _tiles[(triton.cdiv(a.shape[0], 32), triton.cdiv(wide, 16))](a, b, *a.shape[:1], wide, a.shape[1], 32, 16, 8)
    return b


@triton.jit
def _flat(x, y, count, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < count), mask=i < count)


def flat(x):
    y = torch.empty_like(x)
    _flat[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), 256)
    return y


@triton.jit
def _one_tile(x, y, cols, W: tl.constexpr):
    j = tl.arange(0, W)
    tl.store(y + tl.program_id(0) * cols + j, tl.load(x + tl.program_id(0) * cols + j, mask=j < cols), mask=j < cols)


def one_tile(x, rounded=False):
    y = torch.empty_like(x)
    _one_tile[(len(x),)](x, y, x.shape[1], triton.next_power_of_2(x.shape[1]) if rounded else 16)
    return y


def known(run, inputs):
    operator = tw.Operator(name="op", run=run, inputs=inputs)
    return traits(probe(operator, naming.first_case(operator), find("h100")))


def test_blocks_are_found_by_what_masks_compare_and_not_by_names():
    found = known(tiles, lambda first=40, second=40, third=24: (torch.randn(first, third), second))
    assert {dim: (t.blocks, t.step is not None, t.axes) for dim, t in found.items()} == {
        "first": ((32,), False, (0,)),
        "second": ((16,), False, (1,)),
        "third": ((8,), True, ()),
    }


def test_of_a_product_each_size_has_a_side_of_the_block():
    found = known(flat, lambda rows=8, cols=64: (torch.randn(rows, cols),))
    assert (found["rows"].blocks, found["cols"].blocks) == ((16,), (16,))


@pytest.mark.parametrize("rounded", [False, True])
def test_what_one_tile_holds_and_nothing_goes_on_with_is_as_large_as_it_gets(rounded):
    found = known(lambda x: one_tile(x, rounded), lambda rows=4, cols=16: (torch.randn(rows, cols),))
    assert found["cols"] == Trait(
        "cols", 16, (16,), grows=rounded, tiled=rounded, rounded=rounded, sides=frozenset(("W",))
    )
    assert found["rows"].grows


def test_a_kernel_that_lost_its_mask_has_the_block_that_its_grid_divides_by():
    @triton.jit
    def unmasked(x, y, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y + i, tl.load(x + i))

    def run(x):
        y = torch.empty_like(x)
        unmasked[(triton.cdiv(len(x), 64),)](x, y, 64)
        return y

    assert known(run, lambda n=256: (torch.randn(n),))["n"].blocks == (64,)
