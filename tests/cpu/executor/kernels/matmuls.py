"""Techniques of matrix products: grouped order, persistent programs, descriptors, block pointers, groups of problems."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

Pairs = list[tuple[Tensor, Tensor]]


@triton.jit
def _swizzled(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    height = min(tiles_m - first, GROUP)
    return first + tile % in_group % height, tile % in_group // height


@triton.jit
def _grouped(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = _swizzled(tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN), GROUP)
    tl.assume(pid_m >= 0)
    tl.assume(sam > 0)
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b_ptrs = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=rk[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    if ACTIVATION == "leaky_relu":
        acc = tl.where(acc >= 0, acc, 0.01 * acc)
    om, on = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + om[:, None] * scm + on[None, :] * scn
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


def grouped_order() -> Pairs:
    a, b = torch.randn(70, 45).half(), torch.randn(52, 45).half().t()
    c = torch.empty(70, 52, dtype=torch.float16)
    grid = lambda meta: (triton.cdiv(70, meta["BM"]) * triton.cdiv(52, meta["BN"]),)
    _grouped[grid](
        a,
        b,
        c,
        70,
        52,
        45,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        BM=16,
        BN=16,
        BK=16,
        GROUP=3,
        ACTIVATION="leaky_relu",
    )
    return [(c, torch.nn.functional.leaky_relu(a.float() @ b.float()))]


@triton.jit
def _persistent(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0), flatten=True):
        rm = tile // tiles_n * BM + tl.arange(0, BM)
        rn = tile % tiles_n * BN + tl.arange(0, BN)
        rm_ = tl.max_contiguous(tl.multiple_of(tl.where(rm < M, rm, 0), BM), BM)
        rn_ = tl.max_contiguous(tl.multiple_of(tl.where(rn < N, rn, 0), BN), BN)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            a = tl.load(a_ptr + rm_[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.0)
            b = tl.load(b_ptr + rk[:, None] * N + rn_[None, :], mask=rk[:, None] < K, other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


def persistent() -> Pairs:
    a, b = torch.randn(64, 40), torch.randn(40, 96)
    c = torch.empty(64, 96)
    _persistent[(5,)](a, b, c, 64, 96, 40, BM=16, BN=32, BK=16)
    return [(c, a @ b)]


@triton.jit
def _device_descriptors(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(a.load([pid_m * BM, k * BK]), b.load([pid_n * BN, k * BK]).T, acc)
    c.store([pid_m * BM, pid_n * BN], acc.to(tl.float16))


@triton.jit
def _host_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([n, k]).T, acc)
    c.store([m, n], acc.to(tl.float16))


def descriptors() -> Pairs:
    a, b = torch.randn(72, 40).half(), torch.randn(56, 40).half()
    made, given = (torch.empty(72, 56, dtype=torch.float16) for _ in range(2))
    _device_descriptors[(3, 2)](a, b, made, 72, 56, 40, BM=32, BN=32, BK=16)
    hosts = [TensorDescriptor.from_tensor(t, block) for t, block in ((a, [32, 16]), (b, [32, 16]), (given, [32, 32]))]
    _host_descriptors[(3, 2)](*hosts, 40, BM=32, BN=32, BK=16)
    expected = a.float() @ b.float().t()
    return [(made, expected), (given, expected)]


@triton.jit
def _block_pointers(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_block_ptr(a_ptr, shape=(M, K), strides=(K, 1), offsets=(m, 0), block_shape=(BM, BK), order=(1, 0))
    b = tl.make_block_ptr(b_ptr, shape=(K, N), strides=(N, 1), offsets=(0, n), block_shape=(BK, BN), order=(1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc += tl.dot(
            tl.load(a, boundary_check=(0, 1), padding_option="zero"),
            tl.load(b, boundary_check=(0, 1), padding_option="zero"),
        )
        a, b = tl.advance(a, (0, BK)), tl.advance(b, (BK, 0))
    c = tl.make_block_ptr(c_ptr, shape=(M, N), strides=(N, 1), offsets=(m, n), block_shape=(BM, BN), order=(1, 0))
    tl.store(c, acc.to(tl.float16), boundary_check=(0, 1))


def block_pointers() -> Pairs:
    a, b = torch.randn(50, 37).half(), torch.randn(37, 41).half()
    c = torch.empty(50, 41, dtype=torch.float16)
    _block_pointers[(2, 2)](a, b, c, 50, 41, 37, BM=32, BN=32, BK=16)
    return [(c, a.float() @ b.float())]


@triton.jit
def _group_gemm(
    a_table, b_table, c_table, sizes_ptr, strides_ptr, problems, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Problems of several sizes, whose matrices are addresses in tables."""
    tile, done = tl.program_id(0), 0
    for g in range(problems):
        gm, gn, gk = tl.load(sizes_ptr + g * 3), tl.load(sizes_ptr + g * 3 + 1), tl.load(sizes_ptr + g * 3 + 2)
        tiles_m, tiles_n = tl.cdiv(gm, BM), tl.cdiv(gn, BN)
        tiles = tiles_m * tiles_n
        while tile >= done and tile < done + tiles:
            lda, ldb, ldc = (
                tl.load(strides_ptr + g * 3),
                tl.load(strides_ptr + g * 3 + 1),
                tl.load(strides_ptr + g * 3 + 2),
            )
            a_ptr = tl.load(a_table + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_table + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_table + g).to(tl.pointer_type(tl.float16))
            rm = (tile - done) // tiles_n * BM + tl.arange(0, BM)
            rn = (tile - done) % tiles_n * BN + tl.arange(0, BN)
            rk = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, gk, BK):
                inside = rk + k < gk
                a = tl.load(
                    a_ptr + rm[:, None] * lda + (rk + k)[None, :], mask=(rm[:, None] < gm) & inside[None, :], other=0.0
                )
                b = tl.load(
                    b_ptr + (rk + k)[:, None] * ldb + rn[None, :], mask=(rn[None, :] < gn) & inside[:, None], other=0.0
                )
                acc += tl.dot(a, b)
            tl.store(
                c_ptr + rm[:, None] * ldc + rn[None, :],
                acc.to(tl.float16),
                mask=(rm[:, None] < gm) & (rn[None, :] < gn),
            )
            tile += tl.num_programs(0)
        done += tiles


def group_gemm() -> Pairs:
    sizes = [(20, 33, 16), (48, 16, 40), (5, 7, 9)]
    a = [torch.randn(m, k).half() for m, n, k in sizes]
    b = [torch.randn(k, n).half() for m, n, k in sizes]
    c = [torch.empty(m, n, dtype=torch.float16) for m, n, k in sizes]
    tables = [torch.tensor([t.data_ptr() for t in group]) for group in (a, b, c)]
    strides = [(x.stride(0), y.stride(0), z.stride(0)) for x, y, z in zip(a, b, c, strict=True)]
    _group_gemm[(4,)](
        *tables,
        torch.tensor(sizes, dtype=torch.int32),
        torch.tensor(strides, dtype=torch.int32),
        3,
        BM=16,
        BN=16,
        BK=16,
    )
    return [(z, x.float() @ y.float()) for x, y, z in zip(a, b, c, strict=True)]


@triton.jit
def _split_k(a_ptr, b_ptr, c_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.program_id(2) * BK, K, BK * SPLIT):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.atomic_add(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


def split_k() -> Pairs:
    a, b = torch.randn(40, 100), torch.randn(100, 24)
    c = torch.zeros(40, 24)
    _split_k[(3, 2, 3)](a, b, c, 40, 24, 100, SPLIT=3, BM=16, BN=16, BK=16)
    return [(c, a @ b)]


TECHNIQUES = [grouped_order, persistent, descriptors, group_gemm, split_k]
if int(triton.__version__.split(".")[1]) < 9:  # later ones have descriptors alone
    TECHNIQUES.append(block_pointers)
