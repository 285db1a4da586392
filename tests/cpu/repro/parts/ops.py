"""Operators over the kernels of their package, and launchers that cannot be cut out of their module."""

import torch
import triton
from jaxtyping import Float
from torch import Tensor

import tilewright as tw

from . import kernels as K
from .kernels import tuned_kernel as the_kernel


def check(x: Float[Tensor, "N"], *, name: str = "x") -> Float[Tensor, "N"]:
    assert x.dim() == 1, name  # one row
    return x


@tw.operator(reference=lambda x: x * 2)
def tuned(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    y = torch.empty_like(check(x))
    # a comment that stays
    the_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


class Square(torch.autograd.Function):
    slope = 1.5

    @staticmethod
    def forward(ctx, x: Float[Tensor, "N"]):
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        K.square_kernel[(triton.cdiv(x.numel(), 32),)](x, x, y, x.numel(), 1.0, BLOCK=32)
        return y

    @staticmethod
    def backward(ctx, upstream):
        from .kernels import square_kernel as again

        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        again[(triton.cdiv(x.numel(), 32),)](x, upstream.contiguous(), dx, x.numel(), Square.slope, BLOCK=32)
        return dx


@tw.operator(reference=lambda x: x * x, grad=("x",))
def square(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return Square.apply(x)


@tw.operator(reference=lambda x: x * 2 + 1)
def both(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return tuned(x) + 1


# ----------------------------------------------------------------------------------- what cannot be cut out


def launcher_in(factor):
    def launch(x):
        return tuned.run(x) * factor

    return launch


made_inside = tw.Operator(name="made_inside", run=launcher_in(1), inputs=lambda n=3: (torch.ones(n),))


def looks_up(x):
    return getattr(K, "square_kernel")(x)  # noqa: B009


def asks_tilewright(x):
    return x * tw.target("h100").title


def needs_another_check(x):
    return other_check(K.check(x))


other_check = check
