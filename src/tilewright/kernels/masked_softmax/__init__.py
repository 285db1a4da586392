"""Softmax over rows, of the elements a mask keeps."""

from tilewright.kernels.masked_softmax.operator import masked_softmax

__all__ = ["masked_softmax"]
