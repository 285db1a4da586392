"""Kernels of these tests are modules of their own: Triton reads their source from files."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "kernels"))
