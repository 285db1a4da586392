"""Kernels and launchers in the shapes that real code has: nested, tuned, with heuristics, asking for the chip."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, n, amount, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(y_ptr + offsets, x + amount, mask=offsets < n)


def execute(launch):
    """What the kernel of a launch computes, by torch: a handler that executes."""
    arguments = launch.arguments
    arguments["y_ptr"].copy_(arguments["x_ptr"] + arguments["amount"])


def add(x, amount, y=None):
    y = torch.zeros_like(x) if y is None else y
    add_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, x.numel(), amount, BLOCK=32)
    return y


def add_twice(x):
    """The second launch reads what the first wrote, and so does the host in between."""
    y = add(x, 1.0)
    return add(y, float(y.sum()))


def add_to_list(xs):
    """A launcher that calls launchers."""
    return [add_twice(x) for x in xs]


@triton.jit(do_not_specialize=["n"])
def unspecialised_kernel(x_ptr, n, m, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets * m, offsets.to(tl.float32), mask=offsets < n)


CONFIGS = [
    triton.Config({"BLOCK": 32}, num_warps=1),
    triton.Config({"BLOCK": 64}, num_warps=2, num_stages=4),
    triton.Config({"BLOCK": 128}, num_warps=4, maxnreg=64),
]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, amount, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + amount, mask=offsets < n)


def add_tuned(x, amount=1.0):
    y = torch.zeros_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), amount)
    return y


pruned_with = []


def only_small(configs, named, **keywords):
    pruned_with.append((named, keywords))
    return [config for config in configs if config.kwargs["BLOCK"] <= named["n"]]


@triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": only_small})
@triton.jit
def pruned_kernel(x_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    pass


def zero_first(named):
    """A hook that itself launches another kernel."""
    named["counter_ptr"].zero_()
    add_kernel[(1,)](named["x_ptr"], named["x_ptr"], 1, 0.0, BLOCK=32)


@triton.autotune([triton.Config({"BLOCK": b}, pre_hook=zero_first) for b in (32, 64)], key=[])
@triton.jit
def hooked_kernel(x_ptr, counter_ptr, BLOCK: tl.constexpr):
    pass


@triton.autotune(CONFIGS[:2], key=["n"], reset_to_zero=["sum_ptr"], restore_value=["x_ptr"])
@triton.jit
def accumulating_kernel(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    pass


def accumulate(launch):
    launch.arguments["sum_ptr"].add_(launch.arguments["x_ptr"].sum())
    launch.arguments["x_ptr"].mul_(2)


@triton.autotune(CONFIGS[:2], key=["n"])
@triton.heuristics({"EVEN": lambda named: named["n"] % named["BLOCK"] == 0})
@triton.jit
def heuristics_below(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    pass


@triton.heuristics({"EVEN": lambda named: named["n"] % 2 == 0})
@triton.autotune(CONFIGS[:2], key=["n"])
@triton.jit
def heuristics_above(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    pass


def persistent(x):
    """As many programs as the chip has compute units."""
    active = triton.runtime.driver.active
    properties = active.utils.get_device_properties(active.get_current_device())
    add_kernel[(properties["multiprocessor_count"],)](x, x, x.numel(), 1.0, BLOCK=32)


def by_target(x):
    """A launcher with a branch for each vendor."""
    target = triton.runtime.driver.active.get_current_target()
    options = {"waves_per_eu": 2} if target.backend == "hip" else {"num_stages": 3 if target.arch >= 90 else 2}
    buffer = torch.empty(4, device=triton.runtime.driver.active.get_active_torch_device())
    add_kernel[(1,)](x, buffer, x.numel(), 1.0, BLOCK=target.warp_size, **options)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, depth, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, depth, STEP):
        a = tl.load(a_ptr + rows * depth + (start + inner)[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * N + columns)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows * N + columns, total.to(tl.float16))


@triton.jit
def sum_kernel(x_ptr, y_ptr, N: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)) * 1.5, 0))
