"""Where configurations are measured: the GPUs of this host, or whatever stands in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.hardware.host import cores
from tilewright.hardware.probe import gpu_name, gpu_target
from tilewright.hardware.target import Target
from tilewright.records import Config
from tilewright.tune.ahead import compilers_here
from tilewright.tune.crew import Jobs
from tilewright.tune.gpu_runner import GpuRunner, Measuring
from tilewright.tune.runner import Duelling


class Machine(Protocol):
    @property
    def device(self) -> str:
        """The board's name as its driver gives it: what a Trial holds for."""

    @property
    def target(self) -> Target:
        """What the compiler is told it is."""

    def runner(self, configs: Sequence[Config], measuring: Measuring) -> Duelling:
        """Begins to measure configurations of one case; to be closed."""

    def compilers(self, workers: int | None, measuring: int) -> Jobs:
        """Compiles, ``workers`` jobs at a time (None: as many as there are cores that ``measuring`` children leave); to be
        closed."""


@dataclass(frozen=True)
class Host:
    """The GPUs of this machine that are like its first one, each with a child of its own."""

    device: str
    target: Target

    def runner(self, configs: Sequence[Config], measuring: Measuring) -> Duelling:
        return GpuRunner(configs, measuring)

    def compilers(self, workers: int | None, measuring: int) -> Jobs:
        return compilers_here(workers or max(cores() - measuring, 1))


def here() -> Host | None:
    """This machine, if it has a GPU that we know a Target for."""
    name, target = gpu_name(), gpu_target()
    return None if name is None or target is None else Host(name, target)
