"""Launchers that use streams of their own: two that the caller's stream does not wait for, one that is joined."""

import torch

import tilewright as tw


def work(x, w):
    for _ in range(4):
        y = torch.softmax(x @ w, dim=-1)
    return y


def inputs(N=1024, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(N, N, generator=source), torch.randn(N, N, generator=source)


_side = None


def side():
    global _side
    _side = _side or torch.cuda.Stream()
    return _side


def _declared(launcher):
    return tw.Operator(name=launcher.__name__, run=launcher, reference=work, inputs=inputs)


@_declared
def runs_at_once(x, w):
    out = torch.empty_like(x)
    with torch.cuda.stream(side()):
        out.copy_(work(x, w))
    return out


@_declared
def is_not_waited_for(x, w):
    out = torch.empty_like(x)
    side().wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side()):
        out.copy_(work(x, w))
    return out


@_declared
def is_joined(x, w):
    out = torch.empty_like(x)
    side().wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side()):
        out.copy_(work(x, w))
    torch.cuda.current_stream().wait_stream(side())
    return out
