"""Operators without a kernel, which run on a CPU: what a child does with a configuration is tried on them."""

import time

import torch

import tilewright as tw
from tilewright.tune import measure


def twice(x, *, KIND="right"):
    if KIND == "slow":
        time.sleep(0.02)
    if KIND == "raises":
        raise ValueError("no such tile")
    if KIND == "memory":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
    if KIND == "vandal":  # right, and writes where nothing of its own is
        measure._Child.bench.inputs.tensors["x"].fill_(7.0)
    time.sleep(0.0005)
    return x * 2 + {"wrong": 1.0, "nan": float("nan")}.get(KIND, 0.0)


def advance(x, *, STEPS=1):
    x += STEPS


def inputs(n=64):
    return (torch.arange(n, dtype=torch.float32),)


KINDS = ["right", "slow", "raises", "memory", "vandal", "wrong", "nan"]
plain = tw.Operator(
    name="plain", run=twice, reference=lambda x: x * 2, inputs=inputs, space=tw.Space(KIND=KINDS), dtypes=("fp32",)
)
in_place = tw.Operator(
    name="in_place", run=advance, reference=lambda x: x + 1, inputs=inputs, mutates=("x",), space=tw.Space(STEPS=[1, 2])
)
