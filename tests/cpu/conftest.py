"""Shared by tests that need Triton but no GPU."""

import sys
from pathlib import Path

import torch

torch.set_num_threads(1)  # small tensors: threads would only wait for each other

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
