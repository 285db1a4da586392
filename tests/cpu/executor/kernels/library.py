"""Idioms of kernel libraries: in-place passes, packed integers, routing with sentinels, compaction, lists, split caches."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

Pairs = list[tuple[Tensor, Tensor]]


@triton.jit
def _rotary(x_ptr, cos_ptr, sin_ptr, heads, HALF: tl.constexpr):
    token, head = tl.program_id(0), tl.program_id(1)
    lanes = tl.arange(0, HALF)
    cos, sin = tl.load(cos_ptr + token * HALF + lanes), tl.load(sin_ptr + token * HALF + lanes)
    x_ptr += (token * heads + head) * 2 * HALF
    a, b = tl.load(x_ptr + lanes), tl.load(x_ptr + HALF + lanes)
    tl.store(x_ptr + lanes, a * cos - b * sin)
    tl.store(x_ptr + HALF + lanes, b * cos + a * sin)


def rotary_in_place() -> Pairs:
    x, angle = torch.randn(5, 3, 16), torch.randn(5, 8)
    a, b = x.clone().chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    expected = torch.cat((a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]), -1)
    _rotary[(5, 3)](x, cos, sin, 3, HALF=8)
    return [(x, expected)]


@triton.jit
def _cross_entropy(logits_ptr, target_ptr, loss_ptr, V, ignore, BLOCK: tl.constexpr):
    """The loss of a row, and its gradient in the logits' own place."""
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * V
    target = tl.load(target_ptr + row)
    if target == ignore:
        for start in range(0, V, BLOCK):
            lanes = start + tl.arange(0, BLOCK)
            tl.store(logits_ptr + lanes, 0.0, mask=lanes < V)
        tl.store(loss_ptr + row, 0.0)
        return
    top, total = -float("inf"), 0.0
    chosen = tl.load(logits_ptr + target)
    for start in range(0, V, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + lanes, mask=lanes < V, other=-float("inf"))
        new = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new))
        top = new
    for start in range(0, V, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + lanes, mask=lanes < V, other=-float("inf"))
        x = tl.exp(x - top) / total
        tl.store(logits_ptr + lanes, tl.where(lanes == target, x - 1, x), mask=lanes < V)
    tl.debug_barrier()
    tl.store(loss_ptr + row, top + tl.log(total) - chosen)


def cross_entropy_in_place() -> Pairs:
    logits, target = torch.randn(6, 50), torch.tensor([3, 49, -100, 0, 7, 7])
    leaf = logits.clone().requires_grad_()
    losses = torch.nn.functional.cross_entropy(leaf, target, reduction="none")
    losses.sum().backward()
    out = torch.empty(6)
    _cross_entropy[(6,)](logits, target, out, 50, -100, BLOCK=32)
    return [(out, losses.detach()), (logits, leaf.grad)]


@triton.jit
def _unpacked(q_ptr, scale_ptr, y_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Eight 4-bit numbers a word, a scale for each group."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < n
    word = tl.load(q_ptr + lanes // 8, mask=mask)
    value = ((word >> (lanes % 8 * 4)) & 15) - 8
    scale = tl.load(scale_ptr + lanes // GROUP, mask=mask)
    tl.store(y_ptr + lanes, value.to(tl.float32) * scale.to(tl.float32), mask=mask)


def packed_integers() -> Pairs:
    values = torch.randint(0, 16, (25, 8))
    words = (values << (torch.arange(8) * 4)).sum(1)
    words = torch.where(words >= 2**31, words - 2**32, words).int()
    scale = torch.rand(7).half()
    y = torch.empty(200)
    _unpacked[(4,)](words, scale, y, 200, GROUP=32, BLOCK=64)
    return [(y, (values.flatten() - 8) * scale.float().repeat_interleave(32)[:200])]


@triton.jit
def _first_order(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def _recurrence(a_ptr, b_ptr, h_ptr, T, D, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    t = tl.arange(0, BLOCK)
    at = t * D + channel
    a = tl.load(a_ptr + at, mask=t < T, other=1.0)
    b = tl.load(b_ptr + at, mask=t < T, other=0.0)
    _, h = tl.associative_scan((a, b), 0, _first_order)
    tl.store(h_ptr + at, h, mask=t < T)


def linear_recurrence() -> Pairs:
    a, b = torch.rand(20, 5), torch.randn(20, 5)
    h, expected, state = torch.empty(20, 5), [], torch.zeros(5)
    for t in range(20):
        state = a[t] * state + b[t]
        expected.append(state)
    _recurrence[(5,)](a, b, h, 20, 5, BLOCK=32)
    return [(h, torch.stack(expected))]


@triton.jit
def _experts(
    x_ptr, w_ptr, y_ptr, tokens_ptr, expert_ptr, padded_ptr, valid, N, K, TOP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Blocks of sorted tokens, each of one expert; sentinels fill the blocks up, -1 is an expert of another rank."""
    block, rn = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN)
    if block * BM >= tl.load(padded_ptr):
        return
    slots = tl.load(tokens_ptr + block * BM + tl.arange(0, BM)).to(tl.int64)
    real = slots < valid
    y_ptrs = y_ptr + slots[:, None] * N + rn[None, :]
    expert = tl.load(expert_ptr + block).to(tl.int64)
    acc = tl.zeros((BM, BN), tl.float32)
    if expert != -1:
        for k in range(0, tl.cdiv(K, BK)):
            rk = k * BK + tl.arange(0, BK)
            x = tl.load(
                x_ptr + slots[:, None] // TOP * K + rk[None, :], mask=real[:, None] & (rk[None, :] < K), other=0.0
            )
            w = tl.load(
                w_ptr + expert * N * K + rn[None, :] * K + rk[:, None],
                mask=(rn[None, :] < N) & (rk[:, None] < K),
                other=0.0,
            )
            acc = tl.dot(x, w, acc, input_precision="ieee")
    tl.store(y_ptrs, acc, mask=real[:, None] & (rn[None, :] < N))


def experts_of_sorted_tokens() -> Pairs:
    x, w = torch.randn(11, 20), torch.randn(4, 24, 20)
    chosen = torch.stack([torch.randperm(4)[:2] for _ in range(11)])
    flat, tokens, experts = chosen.flatten(), [], []
    for e in range(4):
        mine = (flat == e).nonzero().flatten().tolist()
        mine += [22] * (-len(mine) % 16)
        tokens += mine
        experts += [-1 if e == 2 else e] * (len(mine) // 16)
    sorted_tokens = torch.full((96,), 22, dtype=torch.int32)
    sorted_tokens[: len(tokens)] = torch.tensor(tokens)
    of_block = torch.zeros(6, dtype=torch.int32)
    of_block[: len(experts)] = torch.tensor(experts)
    y = torch.empty(22, 24)
    _experts[(6, 2)](
        x, w, y, sorted_tokens, of_block, torch.tensor([len(tokens)], dtype=torch.int32), 22, 24, 20,
        TOP=2, BM=16, BN=16, BK=16,
    )  # fmt: skip
    expected = torch.einsum("tk,tjnk->tjn", x, w[chosen]) * (chosen != 2)[..., None]
    return [(y, expected.reshape(22, 24))]


@triton.jit
def _kept(x_ptr, y_ptr, count_ptr, n, BLOCK: tl.constexpr):
    """Positive numbers close up, in order; one program."""
    written = 0
    for start in range(0, n, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
        keep = x > 0
        place = written + tl.cumsum(keep.to(tl.int32), 0) - 1
        tl.store(y_ptr + place, x, mask=keep)
        written += tl.sum(keep.to(tl.int32))
    tl.store(count_ptr, written)


def compaction() -> Pairs:
    x = torch.randn(100)
    y, count = torch.zeros(100), torch.empty(1, dtype=torch.int32)
    _kept[(1,)](x, y, count, 100, BLOCK=32)
    kept = x[x > 0]
    return [(y[: len(kept)], kept), (count, torch.tensor([len(kept)]))]


@triton.jit
def _either(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Lanes that read from one tensor or the other; and programs that take one pointer or the other."""
    lanes = tl.arange(0, BLOCK)
    mixed = tl.load(tl.where(lanes % 2 == 0, a_ptr + lanes, b_ptr + lanes), mask=lanes < n)
    p = a_ptr
    if tl.program_id(0) == 1:
        p = b_ptr + 1
    one = tl.load(p + lanes, mask=lanes < n - 1, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * n + lanes, mixed + one, mask=lanes < n)


def pointers_chosen_by_lane_and_program() -> Pairs:
    a, b, y = torch.randn(10), torch.randn(10), torch.empty(2, 10)
    _either[(2,)](a, b, y, 10, BLOCK=16)
    mixed = torch.where(torch.arange(10) % 2 == 0, a, b)
    zero = torch.zeros(1)
    return [(y, torch.stack((mixed + torch.cat((a[:9], zero)), mixed + torch.cat((b[1:], zero)))))]


@triton.jit
def _followed(next_ptr, value_ptr, head_ptr, out_ptr):
    node = tl.load(head_ptr + tl.program_id(0))
    total = 0
    while node != -1:
        total += tl.load(value_ptr + node)
        node = tl.load(next_ptr + node)
    tl.store(out_ptr + tl.program_id(0), total)


def linked_lists() -> Pairs:
    following = torch.tensor([3, -1, 1, 2, -1], dtype=torch.int32)
    value, head = (
        torch.tensor([1, 10, 100, 1000, 10000], dtype=torch.int32),
        torch.tensor([0, 4, -1, 2], dtype=torch.int32),
    )
    out = torch.empty(4, dtype=torch.int32)
    _followed[(4,)](following, value, head, out)
    return [(out, torch.tensor([1111, 10000, 0, 110]))]


@triton.jit
def _partly(q_ptr, k_ptr, part_ptr, lse_ptr, lengths_ptr, L, splits, D: tl.constexpr, BLOCK: tl.constexpr):
    """One query over a split of its cache; splits behind the end leave nothing but a weight of zero."""
    row, split = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths_ptr + row)
    share = tl.cdiv(length, splits)
    begin, end = split * share, tl.minimum(split * share + share, length)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + row * D + rd)
    top, total, acc = -float("inf"), 0.0, tl.zeros([D], tl.float32)
    if end > begin:
        for n in range(begin, end, BLOCK):
            rn = n + tl.arange(0, BLOCK)
            k = tl.load(k_ptr + (row * L + rn[:, None]) * D + rd[None, :], mask=rn[:, None] < end, other=0.0)
            s = tl.where(rn < end, tl.sum(q[None, :] * k, 1), -float("inf"))
            new = tl.maximum(top, tl.max(s))
            p, fade = tl.exp(s - new), tl.exp(top - new)
            acc = acc * fade + tl.sum(p[:, None] * k, 0)
            total = total * fade + tl.sum(p)
            top = new
        tl.store(part_ptr + (row * splits + split) * D + rd, acc / total)
        tl.store(lse_ptr + row * splits + split, top + tl.log(total))


@triton.jit
def _joined(part_ptr, lse_ptr, out_ptr, lengths_ptr, splits, D: tl.constexpr):
    row, rd = tl.program_id(0), tl.arange(0, D)
    length = tl.load(lengths_ptr + row)
    share = tl.cdiv(length, splits)
    top, total, acc = -float("inf"), 0.0, tl.zeros([D], tl.float32)
    for split in range(splits):
        if split * share < length:
            lse = tl.load(lse_ptr + row * splits + split)
            new = tl.maximum(top, lse)
            fade, w = tl.exp(top - new), tl.exp(lse - new)
            acc = acc * fade + w * tl.load(part_ptr + (row * splits + split) * D + rd)
            total = total * fade + w
            top = new
    tl.store(out_ptr + row * D + rd, acc / total)


def split_cache() -> Pairs:
    q, k, lengths = torch.randn(3, 8), torch.randn(3, 40, 8), torch.tensor([40, 3, 17], dtype=torch.int32)
    part, lse, out = torch.empty(3, 5, 8), torch.empty(3, 5), torch.empty(3, 8)
    _partly[(3, 5)](q, k, part, lse, lengths, 40, 5, D=8, BLOCK=4)
    _joined[(3,)](part, lse, out, lengths, 5, D=8)
    expected = [torch.softmax(k[i, :n] @ q[i], 0) @ k[i, :n] for i, n in enumerate(lengths.tolist())]
    return [(out, torch.stack(expected))]


@triton.jit
def _through_scratch(x_ptr, scratch_ptr, y_ptr, BLOCK: tl.constexpr):
    """Lanes of one program meet in memory."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(scratch_ptr + lanes, tl.load(x_ptr + lanes))
    tl.debug_barrier()
    back = tl.program_id(0) * BLOCK + BLOCK - 1 - tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, tl.load(scratch_ptr + back))


def scratch_of_a_program() -> Pairs:
    x, y = torch.randn(64), torch.empty(64)
    _through_scratch[(4,)](x, torch.empty(64), y, BLOCK=16)
    return [(y, x.view(4, 16).flip(1).flatten())]


TECHNIQUES = [
    rotary_in_place,
    cross_entropy_in_place,
    packed_integers,
    linear_recurrence,
    experts_of_sorted_tokens,
    compaction,
    pointers_chosen_by_lane_and_program,
    linked_lists,
    split_cache,
    scratch_of_a_program,
]
