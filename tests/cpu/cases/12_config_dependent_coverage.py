"""Fault kind: results depend on the tuning configuration (grid sized for another block).

The launch grid is computed with a host constant 64, the kernel tile is META BLOCK.  With BLOCK=32
half of the output is never written.  A tuner that tries all configurations on ONE output
buffer hides it, as BLOCK=64 filled the gap earlier.

A tool must say: config BLOCK=32 leaves `out` elements 128..255 of 256 (n=200: 128..199)
unwritten; every config must be checked alone, on a poisoned output (here: `run(x)` imitates the
shared buffer and passes; `run_config(x, 32)` fails).
"""

import torch
import triton
import triton.language as tl

NAIVE = [dict(n=256)]
ADVERSARIAL = [dict(n=256, only=32), dict(n=200, only=32)]
EXPECT = dict(kind="config_dependent_result", arg="out_ptr", stage=3, config=dict(BLOCK=32))
CONFIGS = [dict(BLOCK=64), dict(BLOCK=32)]


@triton.jit
def _sq(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o, mask=o < n, other=0.0)
    tl.store(out_ptr + o, x * x, mask=o < n)


def run_config(x, block, out=None, fix=False):
    out = torch.full_like(x, float("nan")) if out is None else out
    _sq[(triton.cdiv(x.numel(), block if fix else 64),)](x, out, x.numel(), BLOCK=block)  # BUG
    return out


def inputs(n=256, only=None, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=g), only


def _all(x, only, fix):
    out = torch.full_like(x, float("nan"))
    for cfg in CONFIGS:
        if only is None or cfg["BLOCK"] == only:
            run_config(x, cfg["BLOCK"], out, fix)
    return out


def run(x, only):
    return _all(x, only, False)


def fixed_run(x, only):
    return _all(x, only, True)


def reference(x, only):
    return x * x
