"""Small kernels with one fault each, and the same kernels without it: launchers take ``wrong``. Faulty lines are tagged."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# ----------------------------------------------------------------------------------------------------- bounds


@triton.jit
def _copy(x_ptr, y_ptr, n, m, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + lanes, mask=lanes < n, other=0.0)  # load
    tl.store(y_ptr + row * stride + lanes, x, mask=lanes < m)  # store


def reads_past_the_storage(wrong):
    x, y = torch.randn(3, 10), torch.empty(3, 10)
    _copy[(3,)](x, y, 12 if wrong else 10, 10, 10, BLOCK=16)


def reads_padding_of_a_view(wrong):
    x, y = torch.randn(4, 16)[:, :10], torch.zeros(4, 16)
    _copy[(4,)](x, y, 11 if wrong else 10, 10, 16, BLOCK=16)


def writes_past_the_storage(wrong):
    x, y = torch.randn(3, 16), torch.zeros(3, 16)[:2]
    _copy[(3 if wrong else 2,)](x, torch.zeros(2, 16), 16, 16, 16, BLOCK=16)
    return y


def writes_a_neighbour_in_a_pool(wrong):
    pool = torch.zeros(96)
    _copy[(2,)](torch.randn(2, 16), pool[32:64].view(2, 16), 16, 16, 32 if wrong else 16, BLOCK=16)


@triton.jit
def _shifted(x_ptr, y_ptr, n, shift, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes - shift, mask=lanes < n)  # load
    tl.store(y_ptr + lanes, x, mask=lanes < n)


def reads_before_the_start(wrong):
    _shifted[(2,)](torch.randn(40), torch.empty(40), 40, 2 if wrong else 0, BLOCK=32)


def reads_what_a_stride_skips(wrong):
    x = torch.randn(80)[::2]
    _shifted[(2,)](x if wrong else x.contiguous(), torch.empty(40), 40, 0, BLOCK=32)


@triton.jit
def _wild(table_ptr, y_ptr, COUNT: tl.constexpr):
    p = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(y_ptr + tl.program_id(0), tl.load(p))  # load


def reads_where_no_tensor_is(wrong):
    x = torch.ones(2)
    table = torch.tensor([x.data_ptr(), 64 if wrong else x.data_ptr() + 4])
    _wild[(2,)](table, torch.empty(2), COUNT=2)


# ------------------------------------------------------------------------------------------------------ races


@triton.jit
def _own_row(y_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) % rows
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * n + lanes, tl.program_id(0), mask=lanes < n)  # store


def programs_share_a_row(wrong):
    _own_row[(6,)](torch.zeros(6, 10), 4 if wrong else 6, 10, BLOCK=16)


@triton.jit
def _ones(y_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) % rows
    lanes = tl.arange(0, BLOCK)
    tl.store(y_ptr + row * n + lanes, 1.0, mask=lanes < n)  # store


def programs_write_the_same(wrong):
    _ones[(6,)](torch.zeros(6, 10), 4 if wrong else 6, 10, BLOCK=16)


@triton.jit
def _in_place(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes + 1, mask=lanes + 1 < n, other=0.0)
    tl.store(y_ptr + lanes, x, mask=lanes < n)  # store


def shifts_in_place(wrong):
    x = torch.randn(64)
    _in_place[(4,)](x, x if wrong else torch.empty(64), 64, BLOCK=16)


@triton.jit
def _tree(x_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(x_ptr + lanes // 2, lanes)  # store


@triton.jit
def _pairs(x_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(x_ptr + lanes // 2, lanes // 2)


def lanes_disagree(wrong):
    (_tree if wrong else _pairs)[(1,)](torch.zeros(16, dtype=torch.int32), 16, BLOCK=16)


@triton.jit
def _mixed(x_ptr, ATOMIC: tl.constexpr):
    if ATOMIC:
        tl.atomic_add(x_ptr, 1)
    elif tl.program_id(0) == 0:
        tl.store(x_ptr, 5)
    else:
        tl.atomic_add(x_ptr, 1)  # atomic


def stores_what_others_add_to(wrong):
    _mixed[(3,)](torch.zeros(1, dtype=torch.int32), ATOMIC=not wrong)


# --------------------------------------------------------------------------------------------- undefined values


@triton.jit
def _row_sum(x_ptr, y_ptr, n, BLOCK: tl.constexpr, OTHER: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    if OTHER:
        x = tl.load(x_ptr + row * n + lanes, mask=lanes < n, other=0.0)
    else:
        x = tl.load(x_ptr + row * n + lanes, mask=lanes < n)  # origin
    tl.store(y_ptr + row, tl.sum(x))  # store


def sums_dead_lanes(wrong):
    _row_sum[(3,)](torch.randn(3, 10), torch.empty(3), 10, BLOCK=16, OTHER=not wrong)


@triton.jit
def _index_of_dead_lanes(i_ptr, x_ptr, y_ptr, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    i = tl.load(i_ptr + lanes, mask=lanes < n)  # origin
    if MASKED:
        x = tl.load(x_ptr + i, mask=lanes < n)
    else:
        x = tl.load(x_ptr + i)  # address
    tl.store(y_ptr + lanes, x, mask=lanes < n)


def gathers_by_dead_lanes(wrong):
    _index_of_dead_lanes[(1,)](torch.arange(10), torch.randn(10), torch.empty(10), 10, BLOCK=16, MASKED=not wrong)


@triton.jit
def _branch_on(x_ptr, y_ptr, n):
    x = tl.load(x_ptr, mask=n > 0)  # origin
    if x > 0:  # branch
        tl.store(y_ptr, 1.0)


def branches_on_a_dead_lane(wrong):
    _branch_on[(1,)](torch.ones(1), torch.zeros(1), 0 if wrong else 5)


@triton.jit
def _accumulate(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + lanes, mask=lanes < n, other=0.0)  # origin
    tl.store(y_ptr + lanes, y + tl.load(x_ptr + lanes, mask=lanes < n, other=0.0), mask=lanes < n)  # store


def accumulates_into_empty(wrong):
    y = torch.empty(40) if wrong else torch.zeros(40)
    _accumulate[(2,)](torch.randn(40), y, 40, BLOCK=32)


def accumulates_into_a_half_written_one(wrong):
    y = torch.empty(40)
    y[:10] = 1.0
    if not wrong:
        y[10:] = 2.0
    _accumulate[(2,)](torch.randn(40), y, 40, BLOCK=32)


@triton.jit
def _atomic(y_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(y_ptr + tl.arange(0, BLOCK), 1)  # atomic


def adds_to_empty_integers(wrong):
    y = torch.empty(16, dtype=torch.int32) if wrong else torch.zeros(16, dtype=torch.int32)
    _atomic[(2,)](y, BLOCK=16)


def grid_too_high(wrong):
    _own_row[(1, 70_000 if wrong else 1)](torch.zeros(1, 10), 1, 10, BLOCK=16)
