"""Matrix product with bias and activation in its epilogue."""

from tilewright.kernels.matmul.operator import matmul

__all__ = ["matmul"]
