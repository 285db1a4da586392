"""Faults of ``@triton.autotune`` itself: what its benchmark does to memory, and what its key leaves out."""
