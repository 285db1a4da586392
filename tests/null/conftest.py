"""Shared by tests that need no Triton."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "proof"))  # samples of its studies are run here
