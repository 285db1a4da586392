"""What indices decide: embedding rows, ragged segments, pages."""

import itertools

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32, Int64
from torch import Tensor

import tilewright as tw


@triton.jit
def _embedding_kernel(ids_ptr, table_ptr, out_ptr, stride_v, D, BLOCK_D: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    mask = cols < D
    row = tl.load(ids_ptr + token).to(tl.int64)
    x = tl.load(table_ptr + row * stride_v + cols, mask=mask, other=0.0)
    tl.store(out_ptr + token * D + cols, x, mask=mask)


@tw.operator(
    reference=lambda ids, table: table[ids.long()], dtypes=("fp16",), where="V >= 1",
    values={"ids": tw.values.indices("V")},
)  # fmt: skip
def embedding(ids: Int32[Tensor, "T"], table: Float[Tensor, "V D"]) -> Float[Tensor, "T D"]:
    ids, table = ids.contiguous(), table if table.stride(1) == 1 else table.contiguous()
    T, D = ids.numel(), table.shape[1]
    out = torch.empty((T, D), dtype=table.dtype)
    if out.numel():
        _embedding_kernel[(T, triton.cdiv(D, 32))](ids, table, out, table.stride(0), D, BLOCK_D=32)
    return out


@triton.jit
def _embedding_backward_kernel(ids_ptr, grad_ptr, table_grad_ptr, D, BLOCK_D: tl.constexpr):
    """Tokens of one id meet in its row."""
    token = tl.program_id(0).to(tl.int64)
    row = tl.load(ids_ptr + token).to(tl.int64)
    for start in range(0, D, BLOCK_D):
        cols = start + tl.arange(0, BLOCK_D)
        g = tl.load(grad_ptr + token * D + cols, mask=cols < D, other=0.0)
        tl.atomic_add(table_grad_ptr + row * D + cols, g, mask=cols < D)


def _embedding_backward_golden(ids, grad, table):
    return torch.zeros_like(table).index_add(0, ids.long(), grad)


@tw.operator(reference=_embedding_backward_golden, where="V >= 1", values={"ids": tw.values.indices("V")})
def embedding_backward(
    ids: Int64[Tensor, "T"], grad: Float[Tensor, "T D"], table: Float[Tensor, "V D"]
) -> Float[Tensor, "V D"]:
    ids, grad = ids.contiguous(), grad.contiguous()
    (T, D), V = grad.shape, table.shape[0]
    out = torch.zeros((V, D))
    if T:
        _embedding_backward_kernel[(T,)](ids, grad, out, D, BLOCK_D=16)
    return out


@triton.jit
def _segment_sum_kernel(x_ptr, starts_ptr, out_ptr, D, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    """The rows of a segment added up; a segment may be empty."""
    segment = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    begin = tl.load(starts_ptr + segment).to(tl.int64)
    end = tl.load(starts_ptr + segment + 1).to(tl.int64)
    total = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for start in range(begin, end, BLOCK_T):
        rows = start + tl.arange(0, BLOCK_T)
        mask = (rows[:, None] < end) & (cols[None, :] < D)
        x = tl.load(x_ptr + rows[:, None] * D + cols[None, :], mask=mask, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(out_ptr + segment * D + cols, total, mask=cols < D)


def _segment_sum_golden(x, starts):
    ends = starts.long().tolist()
    parts = [x[a:b].sum(0) for a, b in itertools.pairwise(ends)]
    return torch.stack(parts).float() if parts else x.new_zeros((0, x.shape[1])).float()


@tw.operator(reference=_segment_sum_golden, dtypes=("bf16",), values={"starts": tw.values.offsets("T")})
def segment_sum(x: Float[Tensor, "T D"], starts: Int32[Tensor, "S+1"]) -> Tensor:
    x, starts = x.contiguous(), starts.contiguous()
    segments, D = starts.numel() - 1, x.shape[1]
    out = torch.empty((segments, D))
    if out.numel():
        _segment_sum_kernel[(segments, triton.cdiv(D, 16))](x, starts, out, D, BLOCK_T=8, BLOCK_D=16)
    return out


@triton.jit
def _paged_kernel(
    cache_ptr, table_ptr, lengths_ptr, out_ptr, stride_cp, stride_ct, stride_cd, stride_tb, stride_tp, L, D,
    PAGE: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Copies the rows of a sequence out of its pages; behind its end there are zeros."""
    sequence = tl.program_id(0).to(tl.int64)
    page = tl.program_id(1)
    length = tl.load(lengths_ptr + sequence)
    slots = tl.arange(0, PAGE)
    rows = page * PAGE + slots
    cols = tl.arange(0, BLOCK_D)
    block = tl.load(table_ptr + sequence * stride_tb + page * stride_tp, mask=page * PAGE < length, other=0)
    source = cache_ptr + block.to(tl.int64) * stride_cp + slots[:, None] * stride_ct + cols[None, :] * stride_cd
    live = (rows[:, None] < length) & (cols[None, :] < D)
    x = tl.load(source, mask=live, other=0.0)
    inside = (rows[:, None] < L) & (cols[None, :] < D)
    tl.store(out_ptr + (sequence * L + rows[:, None]) * D + cols[None, :], x, mask=inside)


def _lengths(request):
    """From 0 to all there is, both ends among them."""
    most = request.sizes["N"] * 8
    drawn = torch.randint(0, most + 1, request.shape, generator=request.generator)
    drawn[:1] = most
    drawn[1:2] = 0
    return drawn.to(request.dtype)


def _paged_golden(cache, table, lengths):
    rows = cache[table.long()].flatten(1, 2)
    live = torch.arange(rows.shape[1]) < lengths[:, None]
    return torch.where(live[:, :, None], rows, 0.0)


@tw.operator(
    reference=_paged_golden, dtypes=("fp16", "fp32"), where="P >= 1 and N <= 65535",
    values={"table": tw.values.indices("P"), "lengths": _lengths},
)  # fmt: skip
def paged_gather(
    cache: Float[Tensor, "P 8 D"], table: Int32[Tensor, "B N"], lengths: Int32[Tensor, "B"]
) -> Float[Tensor, "B 8*N D"]:
    (B, N), D = table.shape, cache.shape[2]
    lengths = lengths.contiguous()
    out = torch.empty((B, 8 * N, D), dtype=cache.dtype)
    if out.numel():
        _paged_kernel[(B, N)](
            cache, table, lengths, out, *cache.stride(), *table.stride(), 8 * N, D,
            PAGE=8, BLOCK_D=triton.next_power_of_2(D),
        )  # fmt: skip
    return out
