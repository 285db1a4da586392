"""An operator whose annotations are strings, as every file with this import has them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from jaxtyping import Float

import tilewright as tw

if TYPE_CHECKING:
    from jaxtyping import Int32
    from torch import Tensor

WIDTH = 4


@tw.operator(values={"index": tw.values.indices("N")})
def declared_in_strings(
    x: Float[Tensor, f"M {WIDTH}"],
    index: Int32[Tensor, "M*N//N"],  # noqa: UP037
    *,
    flip: bool = False,
) -> None:
    pass


def logged(function):
    """A decorator from elsewhere: what it returns has other globals in real life."""
    return functools.wraps(function)(eval("lambda *a, **k: f(*a, **k)", {"f": function}))


@tw.operator(values={"index": tw.values.indices("N")})
@logged
def decorated_in_strings(
    x: Float[Tensor, f"M {WIDTH}"],
    index: Int32[Tensor, "M*N//N"],  # noqa: UP037
    *,
    flip: bool = False,
) -> None:
    pass
