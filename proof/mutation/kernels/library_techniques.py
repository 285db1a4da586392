"""Operators over the kernels of tests/cpu/executor/kernels/library.py."""

import torch
import triton
from jaxtyping import Float, Int32, Int64
from library import _cross_entropy, _experts, _joined, _kept, _partly, _recurrence, _rotary, _unpacked
from torch import Tensor

import tilewright as tw


def _rotary_golden(x, cos, sin):
    a, b = x.clone().chunk(2, -1)
    x.copy_(torch.cat((a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]), -1))


@tw.operator(reference=_rotary_golden, mutates=("x",), where="T * H * 16 < 2**31 and H <= 65535")
def rotary_in_place(x: Float[Tensor, "T H 16"], cos: Float[Tensor, "T 8"], sin: Float[Tensor, "T 8"]) -> None:
    rows = x.contiguous()
    if x.numel():
        _rotary[(x.shape[0], x.shape[1])](rows, cos.contiguous(), sin.contiguous(), x.shape[1], HALF=8)
    if rows.data_ptr() != x.data_ptr():
        x.copy_(rows)


def _targets(request):
    drawn = torch.randint(0, max(request.sizes["V"], 1), request.shape, generator=request.generator)
    drawn[2::3] = -100
    return drawn


def _cross_entropy_golden(logits, target):
    counts = target != -100
    picked = torch.where(counts, target, 0)[:, None]
    loss = torch.where(counts, torch.logsumexp(logits, -1) - logits.gather(1, picked)[:, 0], 0.0)
    grad = torch.softmax(logits, -1) - torch.zeros_like(logits).scatter(1, picked, 1.0)
    logits.copy_(torch.where(counts[:, None], grad, 0.0))
    return loss


@tw.operator(
    reference=_cross_entropy_golden, mutates=("logits",), values={"target": _targets}, where="V >= 1 and V < 2**30"
)
def cross_entropy_in_place(logits: Float[Tensor, "M V"], target: Int64[Tensor, "M"]) -> Float[Tensor, "M"]:
    rows = logits.contiguous()
    loss = torch.empty(logits.shape[0])
    if logits.shape[0]:
        _cross_entropy[(logits.shape[0],)](rows, target.contiguous(), loss, logits.shape[1], -100, BLOCK=32)
    if rows.data_ptr() != logits.data_ptr():
        logits.copy_(rows)
    return loss


def _words(request):
    return torch.randint(-(2**31), 2**31, request.shape, generator=request.generator).to(request.dtype)


def _unpacked_golden(words, scale):
    values = ((words.long()[:, None] >> (torch.arange(8) * 4)) & 15) - 8
    return (values.flatten().to(scale.dtype) * scale.repeat_interleave(32)[: 8 * len(words)]).float()


@tw.operator(
    reference=_unpacked_golden, dtypes=("fp16",), values={"words": _words}, where="G == (W + 3) // 4 and W < 2**27"
)
def unpacked_integers(words: Int32[Tensor, "W"], scale: Float[Tensor, "G"]) -> Tensor:
    words, scale = words.contiguous(), scale.contiguous()
    n = 8 * words.numel()
    y = torch.empty(n)
    if n:
        _unpacked[(triton.cdiv(n, 64),)](words, scale, y, n, GROUP=32, BLOCK=64)
    return y


def _recurrence_golden(a, b):
    states, state = [], torch.zeros_like(b[0]) if len(b) else None
    for t in range(len(a)):
        state = a[t] * state + b[t]
        states.append(state)
    return torch.stack(states) if states else torch.empty_like(b)


@tw.operator(
    reference=_recurrence_golden, values={"a": tw.values.uniform(0, 1)}, where="T >= 1 and T <= 1024 and T * D < 2**31"
)
def linear_recurrence(a: Float[Tensor, "T D"], b: Float[Tensor, "T D"]) -> Float[Tensor, "T D"]:
    a, b = a.contiguous(), b.contiguous()
    T, D = a.shape
    h = torch.empty((T, D))
    if D:
        _recurrence[(D,)](a, b, h, T, D, BLOCK=triton.next_power_of_2(T))
    return h


def expert_inputs(T=11, N=24, K=20, E=4, seed=0):
    """Tokens sorted by expert, each expert's filled up to blocks of 16; the third expert is another rank's."""
    g = torch.Generator().manual_seed(seed)
    x, w = torch.randn(T, K, generator=g), torch.randn(E, N, K, generator=g)
    top = min(2, E)
    chosen = torch.stack([torch.randperm(E, generator=g)[:top] for _ in range(T)]) if T else torch.zeros(0, top).long()
    flat, tokens, experts = chosen.flatten(), [], []
    for e in range(E):
        mine = (flat == e).nonzero().flatten().tolist()
        mine += [T * top] * (-len(mine) % 16)
        tokens += mine
        experts += [-1 if e == 2 else e] * (len(mine) // 16)
    spare = 2  # blocks that nobody needs
    order = torch.tensor(tokens + [T * top] * (16 * spare), dtype=torch.int32)
    of_block = torch.tensor(experts + [0] * spare, dtype=torch.int32)
    return x, w, chosen, order, of_block, torch.tensor([len(tokens)], dtype=torch.int32)


def experts_run(x, w, chosen, order, of_block, padded):
    K, N = x.shape[1], w.shape[1]
    y = torch.empty(chosen.numel(), N)
    if y.numel():
        _experts[(of_block.numel(), triton.cdiv(N, 16))](
            x, w, y, order, of_block, padded, chosen.numel(), N, K, TOP=chosen.shape[1], BM=16, BN=16, BK=16
        )
    return y


def experts_golden(x, w, chosen, order, of_block, padded):
    expected = torch.einsum("tk,tjnk->tjn", x, w[chosen]) * (chosen != 2)[..., None]
    return expected.flatten(0, 1)


experts = tw.Operator(
    name="experts", run=experts_run, reference=experts_golden, inputs=expert_inputs,
    where="E >= 2 and E <= 16 and T <= 4096 and N * K * E < 2**24 and T * N < 2**24",
)  # fmt: skip


def _kept_golden(x):
    kept = x[x > 0]
    return torch.cat((kept, torch.zeros(len(x) - len(kept)))), torch.tensor([len(kept)], dtype=torch.int32)


@tw.operator(reference=_kept_golden, where="N < 2**30")
def compaction(x: Float[Tensor, "N"]) -> tuple[Float[Tensor, "N"], Int32[Tensor, "1"]]:
    x = x.contiguous()
    y, count = torch.zeros(x.numel()), torch.empty(1, dtype=torch.int32)
    _kept[(1,)](x, y, count, x.numel(), BLOCK=32)
    return y, count


def _lengths(request):
    """From 1 to all there is, both ends among them."""
    drawn = torch.randint(1, request.sizes["L"] + 1, request.shape, generator=request.generator)
    drawn[:1] = request.sizes["L"]
    drawn[1:2] = 1
    return drawn.to(request.dtype)


def _split_golden(q, k, lengths):
    inside = torch.arange(k.shape[1]) < lengths[:, None]
    scores = torch.einsum("bld,bd->bl", k, q).masked_fill(~inside, -torch.inf)
    return torch.einsum("bl,bld->bd", torch.softmax(scores, -1), k)


@tw.operator(reference=_split_golden, values={"lengths": _lengths}, where="L >= 1 and B * L < 2**27")
def split_cache(
    q: Float[Tensor, "B 8"], k: Float[Tensor, "B L 8"], lengths: Int32[Tensor, "B"]
) -> Float[Tensor, "B 8"]:
    q, k, lengths = q.contiguous(), k.contiguous(), lengths.contiguous()
    B, L, D = k.shape
    part, lse, out = torch.empty(B, 5, D), torch.empty(B, 5), torch.empty(B, D)
    if B:
        _partly[(B, 5)](q, k, part, lse, lengths, L, 5, D=D, BLOCK=4)
        _joined[(B,)](part, lse, out, lengths, 5, D=D)
    return out
