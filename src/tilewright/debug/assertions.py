"""Assertions of kernels in the stock interpreter: ``tl.device_assert``, and ``assert`` over a tile.

The interpreter skips the first unless its options say ``debug``, and takes every tile of more than one element
for true. Here both hold for all lanes, as on a GPU under TRITON_DEBUG=1.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from triton.runtime import interpreter as stock
from triton.runtime.interpreter import ASTTransformer, FunctionRewriter, InterpreterBuilder


class FailedAssertion(Exception):
    """A ``tl.device_assert`` that does not hold in ``lanes`` lanes."""

    def __init__(self, message: str, lanes: int) -> None:
        super().__init__(f"device_assert failed: {message}" if message else "device_assert failed")
        self.lanes = lanes


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """Within it, kernels that the interpreter runs check what they assert."""
    builder = stock.interpreter_builder
    options, create, transformer = builder.options, InterpreterBuilder.create_assert, FunctionRewriter.ast_transformer
    # Overflow of integers is wanted often (a hash), and asserting it is an option of its own.
    builder.options = replace(options, debug=True, sanitize_overflow=False)
    InterpreterBuilder.create_assert = _create_assert
    FunctionRewriter.ast_transformer = _OfTiles()
    try:
        yield
    finally:
        builder.options = options
        InterpreterBuilder.create_assert, FunctionRewriter.ast_transformer = create, transformer


def _create_assert(self: Any, condition: Any, message: Any) -> None:
    failing = np.logical_not(condition.data)
    if failing.any():
        raise FailedAssertion(str(message), int(failing.sum()))


class _OfTiles(ASTTransformer):  # type: ignore[misc]
    """Rewrites ``assert tile`` so that it asks the tile's handle, which is true if all its elements are."""

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        test = self.visit(node.test)
        # Parsed where the assertion stands: its line is what a traceback names.
        asked = ast.parse("(lambda tile: getattr(tile, 'handle', tile))(None)", mode="eval").body
        assert isinstance(asked, ast.Call)
        for part in ast.walk(asked):
            ast.copy_location(part, node)
        asked.args = [test]
        node.test = asked
        return node
