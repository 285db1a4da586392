"""The chips tilewright knows, and what follows from their numbers alone. Imports neither torch nor Triton."""

from tilewright.hardware.occupancy import Limits, Occupancy, occupancy, tail_efficiency, waves
from tilewright.hardware.roofline import Roofline, roofline
from tilewright.hardware.target import Target
from tilewright.hardware.targets import all_targets, find, find_all

__all__ = [
    "Limits",
    "Occupancy",
    "Roofline",
    "Target",
    "all_targets",
    "find",
    "find_all",
    "occupancy",
    "roofline",
    "tail_efficiency",
    "waves",
]
