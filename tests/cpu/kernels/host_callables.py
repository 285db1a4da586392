"""Operators without a kernel, for the bench stage on a CPU: right, wrong, failing and crashing at a shape."""

import os
import time

import torch
from jaxtyping import Float
from torch import Tensor

import tilewright as tw


def double(x):
    return torch.softmax(x.double(), dim=-1).float()


def slept(x):
    time.sleep(0.002)
    return torch.softmax(x, dim=-1)


@tw.operator(
    reference=lambda x: torch.softmax(x, dim=-1),
    baselines={
        "double": double,
        "slept": slept,
        "not a softmax": lambda x: x,
        "not for us": lambda x: x.no_such_method(),
    },
    shapes={"small": dict(M=8, N=64), "wrong": dict(M=7, N=64), "crash": dict(M=6, N=64), "last": dict(M=9, N=64)},
)
def own_softmax(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    if x.shape[0] == 6:
        os._exit(3)
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) + (x.shape[0] == 7)


def _flaky(x):
    _flaky.calls += 1
    return x * x + (_flaky.calls > 4)


_flaky.calls = 0


def _hungry(x):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore lines")


def _busy(x):
    while True:
        time.sleep(0.01)


@tw.operator(
    reference=lambda x: x * x,
    baselines={
        "not there": "no_such_package.ops:square",
        "there": "torch:square",
        "flaky": _flaky,
        "hungry": _hungry,
        "busy": _busy,
    },
    shapes={
        "fine": dict(M=9, N=64),
        "outgrows": dict(M=7, N=64),
        "hangs": dict(M=8, N=64),
        "fine too": dict(M=5, N=64),
    },
)
def in_trouble(x: Float[Tensor, "M N"]) -> Float[Tensor, "M N"]:
    if x.shape[0] == 8:
        time.sleep(60)
    if x.shape[0] == 7:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nmore lines")
    return x.square()
