"""These tests need a GPU and are collected only where there is one."""

import sys
from pathlib import Path

from tilewright.hardware.probe import gpu_name

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "cpu" / "kernels")]

collect_ignore_glob = [] if gpu_name() else ["*"]
