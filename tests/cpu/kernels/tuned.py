"""Kernels under @triton.autotune: what a tuner's benchmark does to memory, and what keys hold and leave out."""

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

import tilewright as tw

CONFIGS = [triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 64}, num_warps=2)]


def grid_of(x):
    return lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)


# ------------------------------------------------------------------------------------------------- mutation


@triton.jit
def sum_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)))


def fill_none(named, reset_only=False):
    named["total_ptr"].zero_()


def summing(name, configs=CONFIGS, **hooks):
    kernel = triton.autotune(configs, key=["n"], **hooks)(sum_kernel)

    def run(x):
        total = torch.zeros(1)
        kernel[grid_of(x)](x, total, x.numel())
        return total

    return tw.Operator(
        name=name, run=run, reference=lambda x: x.sum().reshape(1), inputs=lambda n=100: (torch.randn(n) + 1,)
    )


sum_never_reset = summing("sum_never_reset")
sum_reset = summing("sum_reset", reset_to_zero=["total_ptr"])
sum_hooked = summing("sum_hooked", pre_hook=fill_none)
sum_config_hooked = summing("sum_config_hooked", [triton.Config({"BLOCK": b}, pre_hook=fill_none) for b in (32, 64)])
sum_of_one_configuration = summing("sum_of_one_configuration", CONFIGS[:1])


@triton.autotune(
    CONFIGS,  # the decorator, not the kernel's def, is what has to change
    key=["n"],
)
@triton.jit
def step_kernel(p_ptr, m_ptr, g_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    m = 0.9 * tl.load(m_ptr + offsets, mask=inside) + 0.1 * tl.load(g_ptr + offsets, mask=inside)
    tl.store(m_ptr + offsets, m, mask=inside)
    tl.store(p_ptr + offsets, tl.load(p_ptr + offsets, mask=inside) - m, mask=inside)


def stepped(p, m, g):
    m.mul_(0.9).add_(0.1 * g)
    p.sub_(m)
    return p


@tw.operator(reference=stepped, mutates=("p", "m"))
def step_never_restored(p: Float[Tensor, "N"], m: Float[Tensor, "N"], g: Float[Tensor, "N"]):
    step_kernel[grid_of(p)](p, m, g, p.numel())
    return p


restored_step_kernel = triton.autotune(CONFIGS, key=["n"], restore_value=["p_ptr", "m_ptr"])(step_kernel.fn)


@tw.operator(reference=stepped, mutates=("p", "m"))
def step_restored(p: Float[Tensor, "N"], m: Float[Tensor, "N"], g: Float[Tensor, "N"]):
    restored_step_kernel[grid_of(p)](p, m, g, p.numel())
    return p


zeroed_step_kernel = triton.autotune(CONFIGS, key=["n"], reset_to_zero=["p_ptr", "m_ptr"])(step_kernel.fn)


@tw.operator(reference=stepped, mutates=("p", "m"))
def step_zeroed(p: Float[Tensor, "N"], m: Float[Tensor, "N"], g: Float[Tensor, "N"]):
    zeroed_step_kernel[grid_of(p)](p, m, g, p.numel())
    return p


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def relu_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, tl.maximum(x, 0.0), mask=offsets < n)


@tw.operator(reference=lambda x: x.relu_(), mutates=("x",))
def relu_in_place(x: Float[Tensor, "N"]):
    """In place, and yet twice is as good as once."""
    relu_kernel[grid_of(x)](x, x.numel())
    return x


@triton.autotune(
    [triton.Config({"BLOCK": 64, "SPLIT": 1}), triton.Config({"BLOCK": 64, "SPLIT": 2})], key=["n_columns"]
)
@triton.jit
def split_sum_kernel(x_ptr, y_ptr, n_columns, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    total = 0.0
    for start in range(part * BLOCK, n_columns, BLOCK * SPLIT):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * n_columns + offsets, mask=offsets < n_columns, other=0.0))
    if SPLIT == 1:
        tl.store(y_ptr + row, total)
    else:
        tl.atomic_add(y_ptr + row, total)


@tw.operator(reference=lambda x: x.sum(1))
def split_sum(x: Float[Tensor, "M N"]):
    """Only its second configuration adds to what is there."""
    x = x.contiguous()
    y = torch.zeros(x.shape[0])
    split_sum_kernel[lambda meta: (x.shape[0], meta["SPLIT"])](x, y, x.shape[1])
    return y


@tw.operator(reference=lambda x: x.sum().reshape(1))
def tuned_by_hand(x: Float[Tensor, "N"]):
    """A launcher that tries configurations on live data."""
    total = torch.zeros(1)
    for block in (32, 64):
        sum_kernel[(triton.cdiv(x.numel(), block),)](x, total, x.numel(), BLOCK=block)
    return total


# ----------------------------------------------------------------------------------------------------- keys


@triton.jit
def noisy_kernel(x_ptr, y_ptr, n, seed, scale, hint, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    noise = tl.where(tl.rand(seed, offsets) > 0.5, scale, 0.0)
    tl.store(y_ptr + offsets, x * noise, mask=offsets < n)


calls = 0


def noisy(name, key, seed=lambda x: 7, scale=lambda x: 2.0):
    kernel = triton.autotune(CONFIGS, key=key)(noisy_kernel)

    @tw.operator(name=name)
    def run(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        global calls
        calls += 1
        y = torch.empty_like(x)
        kernel[grid_of(x)](x, y, x.numel(), seed(x), scale(x), x.numel() // 32)
        return y

    return run


key_with_a_step = noisy("key_with_a_step", ["n", "seed"], lambda x: calls)
key_with_a_tensor = noisy("key_with_a_tensor", ["n", "x_ptr"])
key_with_a_pointer = noisy("key_with_a_pointer", ["n", "seed"], lambda x: x.data_ptr() % (1 << 30))
key_with_a_drawn_scale = noisy("key_with_a_drawn_scale", ["n", "scale"], scale=lambda x: x.abs().max().item())
key_with_a_seed = noisy("key_with_a_seed", ["n", "seed"])
key_with_a_fixed_scale = noisy("key_with_a_fixed_scale", ["n", "scale"])
key_of_nothing = noisy("key_of_nothing", [])
key_by_size = noisy("key_by_size", ["n"])
key_by_a_bucket = noisy("key_by_a_bucket", ["hint"])
"""A parameter that only the key uses, as projects pass it to round sizes."""


@triton.jit
def rows_kernel(x_ptr, y_ptr, n_rows, n_columns, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), 0.0
    for start in range(0, n_columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * n_columns + offsets, mask=offsets < n_columns, other=0.0))
    tl.store(y_ptr + row, total)


def rows(name, key):
    kernel = triton.autotune(CONFIGS, key=key)(rows_kernel)

    @tw.operator(name=name, reference=lambda x: x.sum(1))
    def run(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
        x, y = x.contiguous(), torch.empty(x.shape[0])
        kernel[(x.shape[0],)](x, y, *x.shape)
        return y

    return run


key_by_rows_alone = rows("key_by_rows_alone", ["n_rows"])
key_by_columns_alone = rows("key_by_columns_alone", ["n_columns"])
key_by_both = rows("key_by_both", ["n_rows", "n_columns"])


@triton.jit
def one_block_kernel(x_ptr, y_ptr, n_columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n_columns + offsets, mask=offsets < n_columns, other=0.0)
    tl.store(y_ptr + tl.program_id(0), tl.sum(x))


def wide_enough(configs, named, **keywords):
    n = named.get("n_columns", keywords.get("n_columns"))
    return [config for config in configs if config.kwargs["BLOCK"] >= n] or configs[-1:]


def one_block(name, key):
    configs = [triton.Config({"BLOCK": block}) for block in (32, 256, 1024)]
    pruning = {"early_config_prune": wide_enough}
    kernel = triton.autotune(configs, key=key, prune_configs_by=pruning)(one_block_kernel)

    @tw.operator(name=name, reference=lambda x: x.sum(1))
    def run(x: Float[Tensor, "M N"]) -> Float[Tensor, "M"]:
        x, y = x.contiguous(), torch.empty(x.shape[0])
        kernel[(x.shape[0],)](x, y, x.shape[1])
        return y

    return run


pruned_by_what_the_key_misses = one_block("pruned_by_what_the_key_misses", [])
pruned_by_the_key = one_block("pruned_by_the_key", ["n_columns"])


@triton.jit
def asserting_kernel(x_ptr, y_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(D % BLOCK == 0)
    for start in range(0, D, BLOCK):
        offsets = tl.program_id(0) * D + start + tl.arange(0, BLOCK)
        tl.store(y_ptr + offsets, tl.load(x_ptr + offsets) * 2)


def asserting(name, key):
    kernel = triton.autotune([triton.Config({"BLOCK": block}) for block in (16, 32, 64)], key=key)(asserting_kernel)

    @tw.operator(name=name, reference=lambda x: x * 2, where="D % 16 == 0")
    def run(x: Float[Tensor, "M D"]) -> Float[Tensor, "M D"]:
        x, y = x.contiguous(), torch.empty(x.shape)
        kernel[(x.shape[0],)](x, y, x.shape[1])
        return y

    return run


refused_where_the_key_misses_it = asserting("refused_where_the_key_misses_it", [])
refused_by_the_key = asserting("refused_by_the_key", ["D"])
