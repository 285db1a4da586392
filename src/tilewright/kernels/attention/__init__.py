"""Scaled dot-product attention, forward."""

from tilewright.kernels.attention.operator import attention

__all__ = ["attention"]
